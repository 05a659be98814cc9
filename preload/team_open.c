/*
 * Making a team: its ranks tell each other who they are, share memory if all are on one
 * machine, and agree that it went well. What a batch takes of the memory is reserved now, so
 * that no rank finds later that it has none.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "ops/shm/handover.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_task.h"
#include "preload/team.h"
#include "topo/machine.h"

/* How long the ranks wait for each other's descriptors. */
#define HANDOVER_NS INT64_C(10000000000)
/* Address space of a rank's reservation but for what is committed: mostly control words. */
#define RESERVED_BYTES ((size_t)128 << 20)
/*
 * Chunks, from the cache next to the core. Shorter than the engine's (lib/api/limits.c): most
 * memory of MPI programs is private, and rounds overlap only when there are several.
 */
#define CHUNK_MIN ((size_t)64 << 10)
#define CHUNK_MAX ((size_t)128 << 10)

/**
 * What ranks tell each other. Sent as bytes: those who read more than `machine` run on the same
 * machine.
 */
struct introduction {
    uint64_t machine; /* 0: has no memory to share */
    uint64_t chunk_bytes; /* the smallest counts */
    uint64_t bell; /* offset of its doorbell */
    struct shm_card card;
    uint8_t name[HANDOVER_NAME_BYTES];
};

static uint64_t machine_hash(const struct config *config)
{
    char text[160] = "";
    struct stat network = { 0 };
    uint64_t hash;

    if (config->host_id[0] != '\0') {
        (void)snprintf(text, sizeof text, "%s", config->host_id);
    } else {
        machine_identity(text, sizeof text);
    }
    /* Descriptors are passed within a network namespace. */
    (void)stat("/proc/self/ns/net", &network);
    hash = hash_u64(hash_bytes(0, text, strlen(text)), (uint64_t)network.st_ino);
    return hash != 0 ? hash : 1;
}

static size_t chunk_bytes(const struct config *config)
{
    const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const size_t share = cache > 0 ? (size_t)cache / 8 : CHUNK_MIN;

    return config->chunk_bytes > 0 ? config->chunk_bytes
                                   : size_min(size_max(share, CHUNK_MIN), CHUNK_MAX);
}

/* ------------------------------------------------------------------- memory */

/** Wakes a rank that sleeps; one that is just falling asleep wakes up soon by itself. */
static void wake(void *user, int rank)
{
    const struct team *team = user;

    if (doorbell_has_sleepers(team->bells[rank])) {
        doorbell_ring(team->bells[rank]);
    }
}

/** What batches will take of a reservation: twice, as much may be lost to alignment. */
static size_t bytes_of_batches(const struct team *team, size_t chunk)
{
    const size_t ranks = (size_t)team->ranks;
    const size_t staging =
            4 * size_max(chunk, ranks * 4096); /* SHM_RING_ROUNDS pieces */

    return 2 * (staging + OP_INFLIGHT_MAX * (8192 + 32 * ranks));
}

/** Memory of this rank alone. */
static bool allocate(struct team *team)
{
    const size_t ranks = (size_t)team->ranks;

    team->members = mem_calloc(ranks, sizeof *team->members);
    team->bells = mem_calloc(ranks, sizeof *team->bells);
    team->sends = mem_calloc(ranks, sizeof *team->sends);
    team->recvs = mem_calloc(ranks, sizeof *team->recvs);
    team->task = mem_calloc(1, op_shm.task_bytes);
    if (team->members == NULL || team->bells == NULL || team->sends == NULL ||
            team->recvs == NULL || team->task == NULL) {
        (void)error_set(TUTTI_ERR_NO_MEMORY, "no memory for a communicator");
        return false;
    }
    for (int i = 0; i < team->ranks; i++) {
        team->members[i] = i;
    }
    return true;
}

/* Once in a process: the next communicator would say the same. */
static void warn(const struct team *team)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&is_said)) {
        log_warn(&team->preload->log,
                "the collectives of a communicator of %d ranks go through MPI, because "
                "they cannot share memory: %s",
                team->ranks, error_last());
    }
}

/** Makes this rank's memory and says so; a `machine` of 0 says that it could not. */
static void introduce(
        struct team *team, struct handover *handover, struct introduction *me)
{
    const struct config *config = &team->preload->config;
    const size_t bytes = bytes_of_batches(team, chunk_bytes(config));
    struct shm_rank *mine;
    void *bell;

    me->chunk_bytes = chunk_bytes(config);
    if (!allocate(team) || handover_open(handover) != TUTTI_OK ||
            shm_domain_open(&team->domain, team->ranks, team->rank, team->ranks,
                    size_min(RESERVED_BYTES + bytes, reservation_size(team->ranks)),
                    RESERVATION_MEMFD) != TUTTI_OK) {
        warn(team);
        return;
    }
    mine = &team->domain->rank[team->rank];
    bell = arena_commit(mine->arena, bytes) ? shm_alloc(mine, MEM_CACHE_LINE) : NULL;
    if (bell == NULL) {
        (void)shm_no_memory(mine, "a communicator", bytes);
        warn(team);
        return;
    }
    me->bell = shm_offset(mine, bell);
    me->card = shm_domain_card(team->domain, team->rank);
    memcpy(me->name, handover->name, sizeof me->name);
    me->machine = machine_hash(config);
}

/* ------------------------------------------------------------------ meeting */

/** A rank and whom it meets. */
struct meeting {
    struct team *team;
    struct introduction *introductions; /* [ranks] */
};

static tutti_status admit(void *user, int rank, int fd, pid_t pid)
{
    const struct meeting *meeting = user;

    return shm_domain_admit(
            meeting->team->domain, rank, fd, pid, &meeting->introductions[rank].card);
}

/** Maps the memory of all others. */
static tutti_status meet(struct meeting *meeting, struct handover *handover)
{
    const struct team *team = meeting->team;
    struct handover_party parties[TEAM_RANKS_MAX];

    for (int i = 0; i < team->ranks; i++) {
        const struct introduction *of = &meeting->introductions[i];

        parties[i] = (struct handover_party){ .rank = i };
        memcpy(parties[i].name, of->name, sizeof parties[i].name);
        memcpy(parties[i].secret, of->card.nonce, sizeof parties[i].secret);
    }
    return handover_exchange(handover, shm_domain_fd(team->domain, team->rank), parties,
            team->ranks, team->rank, clock_ns() + HANDOVER_NS, admit, meeting);
}

/** A process of another rank, watched until this one ends; guarded by watches_lock. */
struct watch {
    pid_t pid;
    int pidfd;
};
static struct watch *watches;
static size_t watch_count, watch_capacity;
static pthread_mutex_t watches_lock = PTHREAD_MUTEX_INITIALIZER;

static void watch_by_one(struct shm_rank *peer)
{
    size_t i = 0;

    while (i < watch_count && watches[i].pid != peer->pid) {
        i++;
    }
    if (i == watch_count &&
            mem_grow(&watches, &watch_capacity, i + 1, sizeof *watches)) {
        watches[watch_count++] =
                (struct watch){ .pid = peer->pid, .pidfd = peer->pidfd };
    } else {
        (void)close(peer->pidfd);
        peer->pidfd = i < watch_count ? watches[i].pidfd : -1;
    }
}

/** Takes the descriptors by which deaths are seen: all teams have one for a process. */
static void watch_peers(const struct team *team)
{
    (void)pthread_mutex_lock(&watches_lock);
    for (int i = 0; i < team->ranks; i++) {
        if (team->domain->rank[i].pidfd >= 0) {
            watch_by_one(&team->domain->rank[i]);
        }
    }
    (void)pthread_mutex_unlock(&watches_lock);
}

static tutti_status open_backend(struct meeting *meeting)
{
    struct team *team = meeting->team;
    size_t chunk = SIZE_MAX;

    for (int i = 0; i < team->ranks; i++) {
        const struct introduction *of = &meeting->introductions[i];

        chunk = size_min(chunk, (size_t)of->chunk_bytes);
        team->bells[i] = shm_address(&team->domain->rank[i], of->bell);
    }
    team->env = (struct op_env){ .config = &team->preload->config,
        .log = &team->preload->log,
        .world_rank = team->rank,
        .world_size = team->ranks,
        .chunk_bytes = chunk,
        .native = team->domain,
        .wake = wake,
        .wake_user = team };
    team->set = (struct op_set){
        .rank = team->rank, .size = team->ranks, .world_ranks = team->members
    };
    return op_shm.open(&team->env, &team->state);
}

/* All ranks have all introductions, so they conclude the same from them. */
static bool share_a_machine(const struct introduction *introductions, int ranks)
{
    bool same = introductions[0].machine != 0;

    for (int i = 1; i < ranks; i++) {
        same = same && introductions[i].machine == introductions[0].machine;
    }
    return same;
}

/** Shares memory with the others, who have introduced themselves. @return false on all ranks */
static bool share(struct meeting *meeting, struct handover *handover)
{
    struct team *team = meeting->team;
    struct reservation *mine = &team->domain->rank[team->rank].reservation;
    const struct preload *preload = team->preload;
    int is_ready = 0;
    tutti_status status = meet(meeting, handover);

    watch_peers(team);
    (void)close(mine->fd); /* nothing is committed any more */
    mine->fd = -1;
    if (status == TUTTI_OK) {
        status = open_backend(meeting);
    }
    is_ready = status == TUTTI_OK ? 1 : 0;
    if (is_ready == 0) {
        warn(team);
    }
    (void)preload->real.allreduce(
            MPI_IN_PLACE, &is_ready, 1, MPI_INT, MPI_MIN, team->comm);
    return is_ready != 0;
}

bool team_open(
        struct team *team, const struct preload *preload, MPI_Comm comm, int ranks)
{
    struct introduction introductions[TEAM_RANKS_MAX] = { { 0 } };
    struct introduction me = { 0 };
    struct handover handover = { .socket = -1 };
    struct meeting meeting = { .team = team, .introductions = introductions };

    if (team != NULL) {
        team->preload = preload;
        team->comm = comm;
        team->ranks = ranks;
        (void)PMPI_Comm_rank(comm, &team->rank);
        team->load = preload->load;
        introduce(team, &handover, &me);
    }
    if (preload->real.allgather(&me, (int)sizeof me, MPI_BYTE, introductions,
                (int)sizeof me, MPI_BYTE, comm) == MPI_SUCCESS &&
            team != NULL && share_a_machine(introductions, ranks)) {
        team->usable = share(&meeting, &handover);
    }
    handover_close(&handover);
    if (team == NULL || !team->usable) {
        team_close(team);
        return false;
    }
    return true;
}

void team_close(struct team *team)
{
    if (team == NULL) {
        return;
    }
    team->usable = false;
    if (team->state != NULL) {
        op_shm.close(team->state);
    }
    for (int i = 0; team->domain != NULL && i < team->ranks; i++) {
        team->domain->rank[i].pidfd = -1; /* of `watches` */
    }
    shm_domain_destroy(team->domain);
    mem_free(team->members);
    mem_free(team->bells);
    mem_free(team->sends);
    mem_free(team->recvs);
    mem_free(team->task);
    team->state = NULL;
    team->domain = NULL;
    team->members = NULL;
    team->bells = NULL;
    team->sends = NULL;
    team->recvs = NULL;
    team->task = NULL;
}
