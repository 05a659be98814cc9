/*
 * Making communicators. Ranks find each other through an id, or are those of a parent, whose ranks
 * tell each other their colours and get an id for each new communicator. Everything is done in
 * steps that return when another rank has to go on first, so that polls can bring it forward.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/nccl/launch.h"

/* ---- NCCL's kernels ---- */

/* Of each device: the context that they were loaded for last. */
static struct {
    pthread_mutex_t lock;
    unsigned long long contexts[DEVICES_MAX];
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* As NCCL, which ignores what fails here. */
static void *load(void *user)
{
    static const char image[] = "kernels of NCCL";
    cu_module module;

    (void)cuCtxSetCurrent(((const struct nccl_comm_object *)user)->context);
    if (cuModuleLoadData(&module, image) == CU_SUCCESS) {
        (void)cuModuleUnload(module);
    }
    return NULL;
}

/*
 * The first communicator of a context loads them on a thread of its own, as NCCL does (init.cc:
 * ncclInitKernelsForDevice() asks for the attributes of each). Loading waits for all that the
 * device has to do, and breaks a capture of global mode.
 */
static void load_kernels(nccl_comm comm)
{
    unsigned long long *context = &loaded.contexts[comm->device];
    unsigned long long id = 0;
    pthread_t thread;

    (void)cuCtxGetId(comm->context, &id);
    (void)pthread_mutex_lock(&loaded.lock);
    if (*context != id && pthread_create(&thread, NULL, load, comm) == 0) {
        (void)pthread_join(thread, NULL);
        *context = id;
    }
    (void)pthread_mutex_unlock(&loaded.lock);
}

/* ---- finding each other ---- */

/* Who this rank is, and what all must have been given alike. */
static void tell(nccl_comm comm)
{
    const char *host = getenv("NCCL_HOSTID");
    struct segment_rank *here = &comm->segment.shared->ranks[comm->rank];
    const struct segment_word word = {
        .facts = { .function = FUNCTION_INIT, .root = comm->ranks, .count = comm->ids }
    };

    (void)snprintf(here->host, sizeof here->host, "%s", host == NULL ? "" : host);
    (void)cuDeviceGetPCIBusId(here->bus, sizeof here->bus, comm->device);
    segment_come(&comm->segment, SEGMENT_HOSTS, &word);
}

/* As NCCL, when all ranks are there. */
static void check_devices(nccl_comm comm)
{
    const struct segment_rank *ranks = comm->segment.shared->ranks;
    const struct segment_rank *here = &ranks[comm->rank];

    for (int rank = 0; rank < comm->ranks; rank++) {
        if (rank != comm->rank && strcmp(ranks[rank].host, here->host) == 0 &&
                strcmp(ranks[rank].bus, here->bus) == 0) {
            comm_report_fatal("ncclCommInitRank: Duplicate GPU detected: rank %d and "
                              "rank %d both on CUDA device %s",
                    comm->rank, rank, here->bus);
        }
    }
}

/* The child arrives; what could not go on ends the process. */
static nccl_result arrive_step(struct job *job)
{
    nccl_comm comm = job->child;

    if (!job->is_begun) {
        job->is_begun = true;
        job->is_stuck = fault_of(comm->rank, "init") != 0;
        if (!job->is_stuck) {
            load_kernels(comm);
            segment_open(&comm->segment, job->word.id, comm->rank, comm->ranks);
            tell(comm);
        }
    }
    if (job->is_stuck ||
            segment_missing(&comm->segment, SEGMENT_HOSTS, UINT64_MAX) != 0) {
        return NCCL_IN_PROGRESS;
    }
    segment_agree(&comm->segment, SEGMENT_HOSTS, UINT64_MAX);
    check_devices(comm);
    segment_release(&comm->segment);
    atomic_store(&comm->life, COMM_LIVE);
    return NCCL_SUCCESS;
}

/* ---- by ids ---- */

nccl_result ncclGetUniqueId(struct nccl_id *id)
{
    nccl_result result = comm_begin("ncclGetUniqueId");

    if (result == NCCL_SUCCESS) {
        segment_id_make((unsigned char *)id->bytes);
    }
    return result;
}

/* What all ranks must have been given alike. */
static uint64_t hash_ids(const struct nccl_id *ids, int count)
{
    uint64_t hash = 1;

    for (int i = 0; i < count; i++) {
        for (size_t b = 0; b < sizeof ids[i].bytes; b++) {
            hash = (hash ^ (unsigned char)ids[i].bytes[b]) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

/* What a config says; false for what the real one refuses. */
static bool take_config(const struct nccl_config *config, bool *blocks)
{
    struct gpusim_nccl_live *live;

    if (config->size != sizeof *config || config->magic != NCCL_CONFIG_MAGIC ||
            (config->blocking != 0 && config->blocking != 1) ||
            (config->net_name != NULL && strcmp(config->net_name, "Socket") != 0)) {
        return false;
    }
    *blocks = config->blocking == 1;
    live = live_lock();
    live->unnamed += config->comm_name == NULL;
    live->min_ctas = config->min_ctas;
    live->max_ctas = config->max_ctas;
    live->traffic_class = config->traffic_class;
    live_unlock();
    return true;
}

/* Ranks meet by the first of several ids. */
static nccl_result init_rank(const char *function, nccl_comm *comm, int size,
        const struct nccl_id *ids, int id_count, int rank,
        const struct nccl_config *config)
{
    nccl_result result = comm_begin(function);
    const uint64_t hash = hash_ids(ids, id_count);
    struct job job = { .function = function, .step = arrive_step };
    bool blocks = true;
    cu_device device;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    if (size > SEGMENT_RANKS_MAX || rank < 0 || rank >= size || id_count > size ||
            cuCtxGetDevice(&device) != CU_SUCCESS ||
            (config != NULL && !take_config(config, &blocks))) {
        return job_group_failed(comm_error(NCCL_INVALID_ARGUMENT,
                "%s: rank %d of %d, the config, its network, the context or one of %d "
                "ids",
                function, rank, size, id_count));
    }
    *comm = comm_create(rank, size, blocks);
    (*comm)->ids = hash;
    job.comm = job.child = *comm;
    memcpy(job.word.id, ids->bytes, sizeof job.word.id);
    return job_submit(&job);
}

nccl_result ncclCommInitRank(nccl_comm *comm, int size, struct nccl_id id, int rank)
{
    return init_rank("ncclCommInitRank", comm, size, &id, 1, rank, NULL);
}

nccl_result ncclCommInitRankConfig(nccl_comm *comm, int size, struct nccl_id id,
        int rank, struct nccl_config *config)
{
    return init_rank("ncclCommInitRankConfig", comm, size, &id, 1, rank, config);
}

nccl_result ncclCommInitRankScalable(nccl_comm *comm, int size, int rank, int count,
        struct nccl_id *ids, struct nccl_config *config)
{
    return init_rank("ncclCommInitRankScalable", comm, size, ids, count, rank, config);
}

/* ---- by a parent ---- */

/* Whether a rank comes before another in the child: by key, then by rank in the parent. */
static bool is_before(const struct segment *segment, int a, int b)
{
    const int64_t key_a = segment_word(segment, SEGMENT_HOSTS, a)->key;
    const int64_t key_b = segment_word(segment, SEGMENT_HOSTS, b)->key;

    return key_a != key_b ? key_a < key_b : a < b;
}

/* Everybody's colour is known: this rank's place, and the id of the first of its colour. */
static void find_place(struct job *job)
{
    const struct segment *segment = &job->comm->segment;
    const int here = segment->rank;
    int leader = here;

    for (int rank = 0; rank < segment->ranks; rank++) {
        if (segment_word(segment, SEGMENT_HOSTS, rank)->colour == job->word.colour) {
            job->child->ranks++;
            job->child->rank += is_before(segment, rank, here);
            leader = is_before(segment, rank, leader) ? rank : leader;
        }
    }
    if (leader != here) {
        segment_id_drop(job->word.id);
        memcpy(job->word.id, segment_word(segment, SEGMENT_HOSTS, leader)->id,
                sizeof job->word.id);
    }
}

/* The ranks tell their colours; then the child arrives. */
static nccl_result split_step(struct job *job)
{
    struct segment *segment = &job->comm->segment;

    if (!job->is_begun) {
        job->is_begun = true;
        job->word.facts.function = FUNCTION_SPLIT;
        if (job->child != NULL) {
            segment_id_make(job->word.id);
        }
        segment_come(segment, SEGMENT_HOSTS, &job->word);
    }
    if (segment_missing(segment, SEGMENT_HOSTS, UINT64_MAX) != 0) {
        return NCCL_IN_PROGRESS;
    }
    segment_agree(segment, SEGMENT_HOSTS, UINT64_MAX);
    if (job->child == NULL) {
        return NCCL_SUCCESS;
    }
    find_place(job);
    job->step = arrive_step;
    job->is_begun = false;
    return arrive_step(job);
}

/* The parent is entered. */
static nccl_result split(
        struct job *job, nccl_comm *part, const struct nccl_config *config)
{
    bool blocks;

    if (job->word.colour < NCCL_NO_COLOUR || !take_config(config, &blocks)) {
        return comm_error(NCCL_INVALID_ARGUMENT, "%s: colour %lld, or the config",
                job->function, (long long)job->word.colour);
    }
    if (atomic_load(&job->comm->flying) != 0) {
        return comm_misuse(job->comm, job->function, "operations are outstanding",
                NCCL_INVALID_USAGE);
    }
    *part = NULL;
    if (job->word.colour != NCCL_NO_COLOUR) {
        cu_context before;

        (void)cuCtxPushCurrent_v2(job->comm->context);
        *part = job->child = comm_create(0, 0, blocks);
        (void)cuCtxPopCurrent_v2(&before);
    }
    return job_submit(job);
}

nccl_result ncclCommSplit(nccl_comm comm, int colour, int key, nccl_comm *part,
        struct nccl_config *config)
{
    static const char function[] = "ncclCommSplit";
    struct job job = { .comm = comm,
        .function = function,
        .step = split_step,
        .word = { .colour = colour, .key = key } };
    nccl_result result = comm_enter(comm, function, COMM_READY);

    return result != NCCL_SUCCESS
            ? result
            : comm_leave(comm, COMM_READY, split(&job, part, config));
}
