/*
 * Making communicators. Everything is done in steps that return when another rank has to go
 * on first, so that one thread can make several, and polls can bring them forward.
 */
#include "test/gpusim/nccl/arrive.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/faults.h"
#include "test/gpusim/nccl/job.h"
#include "test/gpusim/nccl/load.h"

/* The steps of a communicator towards being ready. */
struct arrival {
    nccl_comm comm;
    nccl_comm *slot; /* the caller's handle               */
    unsigned char id[SEGMENT_ID_BYTES];
    bool has_started; /* faults were looked for              */
    bool is_lost; /* a fault: it never gets ready        */
};

/* ---- who a rank is ---- */

static uint64_t hash(const char *text, uint64_t value)
{
    for (; text[0] != '\0'; text++) {
        value = (value ^ (unsigned char)text[0]) * UINT64_C(0x100000001b3);
    }
    return value;
}

static struct {
    pthread_once_t once;
    uint64_t hash;
} host = { .once = PTHREAD_ONCE_INIT };

/* As NCCL, once in the life of a process. */
static void find_host(void)
{
    const char *id = getenv("NCCL_HOSTID");
    char name[256] = "";
    char boot[64] = "";
    FILE *file;

    if (id == NULL) {
        (void)gethostname(name, sizeof name - 1);
        file = fopen("/proc/sys/kernel/random/boot_id", "re");
        if (file != NULL) {
            boot[fread(boot, 1, sizeof boot - 1, file)] = '\0';
            (void)fclose(file);
        }
        id = name;
    }
    host.hash = hash(boot, hash(id, UINT64_C(0xcbf29ce484222325)));
}

static void tell_who(nccl_comm comm)
{
    struct segment_rank *here = segment_rank(&comm->segment, comm->rank);
    const char *bus = gpusim_device_pci(comm->device);

    (void)pthread_once(&host.once, find_host);
    here->pid = getpid();
    here->ranks = comm->ranks;
    here->ids = comm->ids;
    here->host = host.hash;
    (void)snprintf(here->bus, sizeof here->bus, "%s", bus == NULL ? "" : bus);
    segment_advance(&comm->segment, SEGMENT_TOLD);
}

/* ---- finding each other ---- */

static nccl_result start(struct arrival *self)
{
    nccl_comm comm = self->comm;
    int problem = comm_open_segment(comm, self->id);

    switch (problem) {
    case 0:
        tell_who(comm);
        return NCCL_SUCCESS;
    case EEXIST:
        return comm_misuse(comm, "ncclCommInitRank", "the rank is there already",
                NCCL_INVALID_USAGE);
    case EINVAL:
        return comm_error(comm, NCCL_INVALID_ARGUMENT, "this is no unique id");
    case ESRCH:
        return comm_error(
                comm, NCCL_SYSTEM_ERROR, "who made the unique id cannot be reached");
    default:
        return comm_error(comm, NCCL_SYSTEM_ERROR, "shared memory: errno %d", problem);
    }
}

static bool all_have(nccl_comm comm, enum segment_state state)
{
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        if (segment_state(&comm->segment, rank) < state) {
            return false;
        }
    }
    return true;
}

/* What NCCL checks when all ranks are there. */
static nccl_result check_ranks(nccl_comm comm)
{
    const struct segment_rank *here = segment_rank(&comm->segment, comm->rank);
    const struct segment_rank *there;
    char text[120];
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        there = segment_rank(&comm->segment, rank);
        if (there->ranks != here->ranks) {
            (void)snprintf(text, sizeof text,
                    "here are %d ranks, for rank %d there are %lld", comm->ranks, rank,
                    (long long)there->ranks);
            return comm_misuse(comm, "ncclCommInitRank", text, NCCL_INVALID_USAGE);
        }
        if (there->ids != here->ids) {
            (void)snprintf(text, sizeof text, "rank %d was given other ids", rank);
            return comm_misuse(
                    comm, "ncclCommInitRankScalable", text, NCCL_INVALID_USAGE);
        }
        if (rank != comm->rank && there->host == here->host &&
                strcmp(there->bus, here->bus) == 0) {
            return comm_error(comm, NCCL_INVALID_USAGE,
                    "Duplicate GPU detected : rank %d and rank %d both on CUDA device "
                    "%s",
                    comm->rank, rank, here->bus);
        }
    }
    return NCCL_SUCCESS;
}

/* A rank that has found something wrong; -1: none. */
static int refusing_rank(nccl_comm comm)
{
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        if (segment_state(&comm->segment, rank) == SEGMENT_REFUSED) {
            return rank;
        }
    }
    return -1;
}

static nccl_result finish(nccl_comm comm)
{
    int rank = refusing_rank(comm);

    if (rank >= 0) {
        return comm_error(
                comm, NCCL_REMOTE_ERROR, "rank %d has refused the communicator", rank);
    }
    segment_id_release(comm->segment.id);
    comm_say(comm, "has launched nothing");
    (void)pthread_mutex_lock(&comm->lock);
    comm->life = COMM_LIVE;
    comm->maker = NULL;
    (void)pthread_mutex_unlock(&comm->lock);
    return NCCL_SUCCESS;
}

/* As far as it goes now. */
static nccl_result go_on(struct arrival *self)
{
    nccl_comm comm = self->comm;
    nccl_result result;
    long value;

    if (!self->has_started) {
        self->has_started = true;
        self->is_lost = fault_at(comm->rank, "init", &value);
    }
    if (self->is_lost || !load_kernels(comm)) {
        return NCCL_IN_PROGRESS;
    }
    if (comm->segment.shared == NULL) {
        result = start(self);
        if (result != NCCL_SUCCESS) {
            return result;
        }
    }
    if (segment_state(&comm->segment, comm->rank) == SEGMENT_TOLD) {
        if (!all_have(comm, SEGMENT_TOLD)) {
            return NCCL_IN_PROGRESS;
        }
        result = check_ranks(comm);
        segment_advance(&comm->segment,
                result == NCCL_SUCCESS ? SEGMENT_READY : SEGMENT_REFUSED);
        if (result != NCCL_SUCCESS) {
            return result;
        }
    }
    return all_have(comm, SEGMENT_READY) ? finish(comm) : NCCL_IN_PROGRESS;
}

/* What could not be made says so to its users; a caller that blocks gets no handle. */
static void fail(struct arrival *self, nccl_result result)
{
    nccl_comm comm = self->comm;

    atomic_store(&comm->async, result);
    (void)pthread_mutex_lock(&comm->lock);
    comm->life = COMM_FAILED;
    comm->maker = NULL;
    (void)pthread_mutex_unlock(&comm->lock);
    if (comm->blocking) {
        *self->slot = NULL;
        comm_bury(comm);
    }
}

/* ---- by id ---- */

struct id_job {
    struct job base;
    struct arrival arrival;
};

static nccl_result id_step(struct job *job)
{
    struct id_job *self = (struct id_job *)job;
    nccl_result result = go_on(&self->arrival);

    if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
        fail(&self->arrival, result);
    }
    return result;
}

static void free_job(struct job *job)
{
    mem_free(job);
}

struct job *arrive_by_id(nccl_comm comm, const unsigned char *id, nccl_comm *slot)
{
    struct id_job *self = must(mem_calloc(1, sizeof *self));

    self->base = (struct job){ .comm = comm,
        .waits = comm,
        .function = "ncclCommInitRank",
        .step = id_step,
        .dispose = free_job };
    self->arrival.comm = comm;
    self->arrival.slot = slot;
    memcpy(self->arrival.id, id, SEGMENT_ID_BYTES);
    return &self->base;
}

/* ---- by a parent ---- */

struct parent_job {
    struct job base;
    struct division division;
    int leader; /* of this rank's colour: makes the id */
    enum {
        PHASE_START,
        PHASE_COLOURS, /* the colours are being told */
        PHASE_IDS, /* the ids are being told     */
        PHASE_CHILD /* the child's ranks arrive   */
    } phase;
    struct arrival arrival;
};

static const char *meeting_name(int64_t kind)
{
    static const char *const names[] = {
        [MEETING_SPLIT] = "ncclCommSplit",
        [MEETING_ID] = "ncclCommSplit",
        [MEETING_DESTROY] = "ncclCommDestroy",
    };

    return names[kind];
}

void arrive_check(nccl_comm comm, uint64_t members)
{
    int64_t kind = segment_word(&comm->segment, comm->rank)->kind;
    int64_t other;
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        other = segment_word(&comm->segment, rank)->kind;
        if ((members >> rank & 1) != 0 && other != kind) {
            comm_report_fatal("MISMATCH in communicator %04llx: rank %d calls %s; rank "
                              "%d calls %s",
                    (unsigned long long)comm->number, comm->rank, meeting_name(kind),
                    rank, meeting_name(other));
        }
    }
}

static bool is_of_colour(const struct division *division, int rank)
{
    return segment_word(&division->parent->segment, rank)->first == division->colour;
}

/* Whether a rank comes before another in the child: by key, then by rank in the parent. */
static bool is_before(const struct segment *segment, int a, int b)
{
    int64_t key_a = segment_word(segment, a)->second;
    int64_t key_b = segment_word(segment, b)->second;

    return key_a != key_b ? key_a < key_b : a < b;
}

/* This rank's place in the child, how many there are, and who is first. */
static void find_place(struct parent_job *self)
{
    const struct division *division = &self->division;
    const struct segment *segment = &division->parent->segment;
    int here = division->parent->rank;
    int rank;

    self->leader = here;
    division->child->rank = 0;
    division->child->ranks = 0;
    for (rank = 0; rank < division->parent->ranks; rank++) {
        if (!is_of_colour(division, rank)) {
            continue;
        }
        division->child->ranks++;
        division->child->rank += is_before(segment, rank, here);
        if (is_before(segment, rank, self->leader)) {
            self->leader = rank;
        }
    }
}

/* Everybody's colour is known: the first of each colour makes an id. */
static nccl_result tell_id(struct parent_job *self)
{
    struct segment_word word = { .kind = MEETING_ID };
    nccl_comm parent = self->division.parent;

    arrive_check(parent, UINT64_MAX);
    if (self->division.child != NULL) {
        find_place(self);
        if (self->leader == parent->rank) {
            segment_id_make(word.id);
        }
    }
    segment_meet(&parent->segment, &word);
    return NCCL_SUCCESS;
}

static nccl_result child_begins(struct parent_job *self)
{
    const struct division *division = &self->division;

    memcpy(self->arrival.id, segment_word(&division->parent->segment, self->leader)->id,
            SEGMENT_ID_BYTES);
    self->base.waits = division->child;
    return NCCL_SUCCESS;
}

/* The phase that comes first now, and none after it. */
static nccl_result phase_step(struct parent_job *self)
{
    const struct division *division = &self->division;
    struct segment *segment = &division->parent->segment;
    struct segment_word word = {
        .kind = MEETING_SPLIT,
        .first = division->colour,
        .second = division->key,
    };

    switch (self->phase) {
    case PHASE_START:
        segment_meet(segment, &word);
        return NCCL_SUCCESS;
    case PHASE_COLOURS:
        return segment_missing(segment, UINT64_MAX) != 0 ? NCCL_IN_PROGRESS
                                                         : tell_id(self);
    case PHASE_IDS:
        if (segment_missing(segment, UINT64_MAX) != 0) {
            return NCCL_IN_PROGRESS;
        }
        return division->child == NULL ? NCCL_SUCCESS : child_begins(self);
    case PHASE_CHILD:
        return division->child == NULL ? NCCL_SUCCESS : go_on(&self->arrival);
    }
    return NCCL_INTERNAL_ERROR;
}

static nccl_result parent_step(struct job *job)
{
    struct parent_job *self = (struct parent_job *)job;
    nccl_result result;

    do {
        result = phase_step(self);
        if (result != NCCL_SUCCESS || self->phase == PHASE_CHILD) {
            break;
        }
        self->phase++;
    } while (true);
    if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS &&
            self->arrival.comm != NULL) {
        fail(&self->arrival, result);
    }
    return result;
}

struct job *arrive_by_parent(const struct division *division)
{
    struct parent_job *self = must(mem_calloc(1, sizeof *self));

    self->base = (struct job){ .comm = division->parent,
        .waits = division->parent,
        .function = meeting_name(MEETING_SPLIT),
        .step = parent_step,
        .dispose = free_job };
    self->division = *division;
    self->arrival.comm = division->child;
    self->arrival.slot = division->slot;
    return &self->base;
}
