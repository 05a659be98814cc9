/*
 * Communicators from their making to their end.
 */
#include <dirent.h>
#include <string.h>

#include "test/gpusim/nccl/test/ranks.h"

enum {
    COUNT = 100
};

/* Only of one rank of a process, while the others do nothing: counting opens one, too. */
static int open_descriptors(const struct rank *rank)
{
    DIR *directory;
    int count = 0;

    if (rank->is_thread && rank->rank != 0) {
        return 0;
    }
    directory = opendir("/proc/self/fd");

    CHECK(directory != NULL);
    while (readdir(directory) != NULL) {
        count++;
    }
    (void)closedir(directory);
    return count;
}

/* An allreduce by all ranks, whose sum is known. */
static void works(const struct rank *rank, nccl_comm comm, int ranks)
{
    int32_t value = 1;
    uint64_t memory = rank_alloc(sizeof value);

    CHECK(gpusim_write(memory, &value, sizeof value));
    CHECK(ncclAllReduce(rank_pointer(memory), rank_pointer(memory), 1, NCCL_INT32,
                  NCCL_SUM, comm, rank->stream) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(gpusim_read(&value, memory, sizeof value));
    CHECK(value == ranks);
    rank_free(memory);
}

/* Made, used and destroyed many times: nothing is left. */
static void run_cycles(struct rank *rank)
{
    struct gpusim_live before = gpusim_live();
    int descriptors = 0;
    nccl_comm comm;
    nccl_comm part;
    int i;

    for (i = 0; i < 20; i++) {
        if (rank->rank == 0) {
            CHECK(ncclGetUniqueId(&rank->shared->ids[0]) == NCCL_SUCCESS);
        }
        rank_meet(rank);
        rank_join(rank, 0, &comm);
        CHECK(ncclCommSplit(comm, rank->rank % 2, 0, &part, NULL) == NCCL_SUCCESS);
        works(rank, comm, rank->ranks);
        CHECK(ncclCommDestroy(part) == NCCL_SUCCESS);
        CHECK(ncclCommDestroy(comm) == NCCL_SUCCESS);
        rank_meet(rank);
        if (i == 0) {
            descriptors = open_descriptors(rank);
        }
        rank_meet(rank);
    }
    CHECK(open_descriptors(rank) <= descriptors);
    CHECK(gpusim_nccl_live().comms == 0);
    rank_meet(rank);
    CHECK(gpusim_live().device_allocations == before.device_allocations ||
            rank->is_thread);
    CHECK(gpusim_calls("ncclAllReduce") == 20 * (rank->is_thread ? rank->ranks : 1));
}

static void init_polled(struct rank *rank, nccl_comm *comm)
{
    struct nccl_config config;

    nccl_config_init(&config, false);
    CHECK(ncclCommInitRankConfig(comm, rank->ranks, rank->shared->ids[0], rank->rank,
                  &config) == NCCL_IN_PROGRESS);
}

/* Not blocking: nothing goes on but in ncclCommGetAsyncError. */
static void run_polled(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    nccl_comm comm;
    nccl_result state = NCCL_SUCCESS;
    int i;

    init_polled(rank, &comm);
    rank_meet(rank);
    if (rank->rank == 0) {
        for (i = 0; i < 50; i++) { /* the others have not polled */
            CHECK(ncclCommGetAsyncError(comm, &state) == NCCL_SUCCESS);
            CHECK(state == NCCL_IN_PROGRESS);
        }
    }
    rank_meet(rank);
    CHECK(rank_poll(comm) == NCCL_SUCCESS);
    CHECK(ncclAllReduce(rank_pointer(memory), rank_pointer(memory), COUNT, NCCL_UINT8,
                  NCCL_MAX, comm, rank->stream) == NCCL_IN_PROGRESS);
    CHECK(gpusim_pending(rank->stream) == 0); /* not launched */
    CHECK(ncclCommGetAsyncError(comm, &state) == NCCL_SUCCESS);
    CHECK(state == NCCL_IN_PROGRESS && gpusim_pending(rank->stream) == 0);
    gpusim_hold(rank->stream);
    CHECK(rank_poll(comm) == NCCL_SUCCESS);
    CHECK(gpusim_pending(rank->stream) == 1);
    gpusim_release(rank->stream);
    rank_sync(rank);
    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    CHECK(ncclAllReduce(rank_pointer(memory), rank_pointer(memory), COUNT, NCCL_UINT8,
                  NCCL_MAX, comm, rank->stream) == NCCL_SUCCESS);
    CHECK(ncclGroupEnd() == NCCL_IN_PROGRESS);
    CHECK(gpusim_pending(rank->stream) == 0);
    CHECK(rank_poll(comm) == NCCL_SUCCESS);
    CHECK(ncclCommFinalize(comm) == NCCL_IN_PROGRESS);
    CHECK(rank_poll(comm) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(ncclCommDestroy(comm) == NCCL_SUCCESS);
    rank_free(memory);
}

/* The caller forgets to poll. */
static void run_not_polled(struct rank *rank)
{
    void *memory = rank_pointer(rank_alloc(COUNT));
    nccl_comm comm;

    init_polled(rank, &comm);
    CHECK(rank_poll(comm) == NCCL_SUCCESS);
    CHECK(ncclAllReduce(memory, memory, COUNT, NCCL_UINT8, NCCL_MAX, comm,
                  rank->stream) == NCCL_IN_PROGRESS);
    CHECK(ncclAllReduce(memory, memory, COUNT, NCCL_UINT8, NCCL_MAX, comm,
                  rank->stream) == NCCL_INVALID_ARGUMENT);
    CHECK(rank_poll(comm) == NCCL_SUCCESS);
    rank_sync(rank);
    rank_meet(rank);
    CHECK(ncclCommDestroy(comm) == NCCL_SUCCESS);
}

/* Blocking and not blocking in one group. */
static void run_mixed(struct rank *rank)
{
    void *memory = rank_pointer(rank_alloc(COUNT));
    nccl_comm comms[2];
    int i;

    init_polled(rank, &comms[0]);
    CHECK(rank_poll(comms[0]) == NCCL_SUCCESS);
    rank_join(rank, 1, &comms[1]);
    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    for (i = 0; i < 2; i++) {
        CHECK(ncclAllReduce(memory, memory, COUNT, NCCL_UINT8, NCCL_MAX, comms[i],
                      rank->stream) == NCCL_SUCCESS);
    }
    CHECK(ncclGroupEnd() == NCCL_INVALID_ARGUMENT);
    rank_meet(rank);
}

static nccl_result join_on(struct rank *rank, int device, nccl_comm *comm)
{
    cu_context context;
    nccl_result result;

    CHECK(cuDevicePrimaryCtxRetain(&context, device) == CU_SUCCESS);
    CHECK(cuCtxSetCurrent(context) == CU_SUCCESS);
    result = ncclCommInitRank(comm, rank->ranks, rank->shared->ids[0], rank->rank);
    CHECK(cuCtxSetCurrent(rank->context) == CU_SUCCESS);
    return result;
}

/* Ranks 0 and 1 are on one device. */
static void run_duplicate(struct rank *rank)
{
    nccl_result result = join_on(rank, rank->rank == 1 ? 0 : rank->rank, &rank->comm);

    CHECK(result == (rank->rank <= 1 ? NCCL_INVALID_USAGE : NCCL_REMOTE_ERROR));
    CHECK(rank->rank > 1 || strstr(ncclGetLastError(NULL), "Duplicate GPU") != NULL);
    rank_meet(rank);
    CHECK(rank->comm == NULL && gpusim_nccl_live().comms == 0);
}

/* As before, but they say that they are on hosts of their own. */
static void run_host_ids(struct rank *rank)
{
    char text[16];

    (void)snprintf(text, sizeof text, "host-%d", rank->rank);
    CHECK(setenv("NCCL_HOSTID", text, 1) == 0);
    CHECK(join_on(rank, 0, &rank->comm) == NCCL_SUCCESS);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS); /* waits for nobody */
}

/* Two ranks believe to be rank 0. */
static void run_rank_twice(struct rank *rank)
{
    rank_meet(rank);
    CHECK(ncclCommInitRank(&rank->comm, rank->ranks, rank->shared->ids[0], 0) !=
            NCCL_SUCCESS);
}

/* Rank 0 believes that there is one rank more. */
static void run_other_size(struct rank *rank)
{
    nccl_result result = ncclCommInitRank(&rank->comm, rank->ranks + (rank->rank == 0),
            rank->shared->ids[0], rank->rank);

    CHECK(result != NCCL_SUCCESS);
}

/* One thread makes the communicators of all devices in a group, and uses them. */
static void run_one_thread(struct rank *rank)
{
    enum {
        DEVICES = 3
    };
    nccl_comm comms[DEVICES];
    cu_stream streams[DEVICES];
    cu_context contexts[DEVICES];
    uint64_t memory[DEVICES];
    int32_t value = 1;
    int i;

    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    for (i = 0; i < DEVICES; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i) == CU_SUCCESS);
        CHECK(cuCtxSetCurrent(contexts[i]) == CU_SUCCESS);
        CHECK(cuStreamCreateWithPriority(&streams[i], 1, 0) == CU_SUCCESS);
        memory[i] = rank_alloc(sizeof value);
        CHECK(gpusim_write(memory[i], &value, sizeof value));
        CHECK(ncclCommInitRank(&comms[i], DEVICES, rank->shared->ids[0], i) ==
                NCCL_SUCCESS);
    }
    CHECK(ncclGroupEnd() == NCCL_SUCCESS);
    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    for (i = 0; i < DEVICES; i++) {
        CHECK(ncclAllReduce(rank_pointer(memory[i]), rank_pointer(memory[i]), 1,
                      NCCL_INT32, NCCL_SUM, comms[i], streams[i]) == NCCL_SUCCESS);
    }
    CHECK(ncclGroupEnd() == NCCL_SUCCESS);
    for (i = 0; i < DEVICES; i++) {
        CHECK(cuCtxSetCurrent(contexts[i]) == CU_SUCCESS);
        CHECK(cuStreamSynchronize(streams[i]) == CU_SUCCESS);
        CHECK(gpusim_read(&value, memory[i], sizeof value));
        CHECK(value == DEVICES);
        CHECK(ncclCommDestroy(comms[i]) == NCCL_SUCCESS);
    }
}

/* By parity, the last first; rank 0 gets none the second time. */
static void run_split(struct rank *rank)
{
    nccl_comm part;
    int size = (rank->ranks + 1 - rank->rank % 2) / 2;

    rank_join(rank, 0, &rank->comm);
    CHECK(ncclCommSplit(rank->comm, rank->rank % 2, -rank->rank, &part, NULL) ==
            NCCL_SUCCESS);
    works(rank, part, size);
    {
        int32_t value = rank->rank;
        uint64_t memory = rank_alloc(sizeof value);

        CHECK(gpusim_write(memory, &value, sizeof value));
        CHECK(ncclBroadcast(rank_pointer(memory), rank_pointer(memory), 1, NCCL_INT32,
                      0, part, rank->stream) == NCCL_SUCCESS);
        rank_sync(rank);
        CHECK(gpusim_read(&value, memory, sizeof value));
        CHECK(value >= rank->ranks - 2); /* the last of each is rank 0 there */
        rank_free(memory);
    }
    CHECK(ncclCommDestroy(part) == NCCL_SUCCESS);
    CHECK(ncclCommSplit(rank->comm, rank->rank == 0 ? NCCL_NO_COLOUR : 7, 0, &part,
                  NULL) == NCCL_SUCCESS);
    if (rank->rank == 0) {
        CHECK(part == NULL);
    } else {
        works(rank, part, rank->ranks - 1);
        CHECK(ncclCommDestroy(part) == NCCL_SUCCESS);
    }
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

/* Not blocking: polls of the parent or of the child bring it forward. */
static void run_split_polled(struct rank *rank)
{
    nccl_comm comm;
    nccl_comm part;
    nccl_result state;

    init_polled(rank, &comm);
    CHECK(rank_poll(comm) == NCCL_SUCCESS);
    CHECK(ncclCommSplit(comm, 0, 0, &part, NULL) == NCCL_IN_PROGRESS);
    CHECK(ncclCommGetAsyncError(part, &state) == NCCL_SUCCESS);
    CHECK(state == NCCL_IN_PROGRESS);
    CHECK(rank_poll(rank->rank % 2 == 0 ? part : comm) == NCCL_SUCCESS);
    CHECK(rank_poll(part) == NCCL_SUCCESS && rank_poll(comm) == NCCL_SUCCESS);
    CHECK(ncclCommDestroy(part) == NCCL_SUCCESS);
    CHECK(ncclCommDestroy(comm) == NCCL_SUCCESS);
}

/* While an operation is outstanding. */
static void run_split_busy(struct rank *rank)
{
    void *memory = rank_pointer(rank_alloc(COUNT));
    nccl_comm part;

    rank_join(rank, 0, &rank->comm);
    gpusim_hold(rank->stream);
    CHECK(ncclAllReduce(memory, memory, COUNT, NCCL_INT8, NCCL_SUM, rank->comm,
                  rank->stream) == NCCL_SUCCESS);
    CHECK(ncclCommSplit(rank->comm, 0, 0, &part, NULL) == NCCL_INVALID_USAGE);
    gpusim_release(rank->stream);
    rank_sync(rank);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

static void use(struct rank *rank)
{
    void *memory = rank_pointer(rank_alloc(COUNT));

    CHECK(ncclAllReduce(memory, memory, COUNT, NCCL_INT8, NCCL_SUM, rank->comm,
                  rank->stream) == NCCL_INVALID_ARGUMENT);
}

static void run_used_destroyed(struct rank *rank)
{
    rank_join(rank, 0, &rank->comm);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    use(rank);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_INVALID_ARGUMENT);
    rank_meet(rank);
}

static void run_used_aborted(struct rank *rank)
{
    rank_join(rank, 0, &rank->comm);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    use(rank);
    rank_meet(rank);
}

static void run_used_finalized(struct rank *rank)
{
    rank_join(rank, 0, &rank->comm);
    CHECK(ncclCommFinalize(rank->comm) == NCCL_SUCCESS);
    use(rank);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    rank_meet(rank);
}

/* Destroy is a collective of a node's processes. */
static void run_destroy_meets(struct rank *rank)
{
    rank_join(rank, 0, &rank->comm);
    if (rank->rank == rank->ranks - 1) {
        rank_tell(rank, 0);
    }
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    CHECK(atomic_load(&rank->shared->flags[0]) == 1);
}

/* Finalize waits for what was launched. */
static void run_finalize(struct rank *rank)
{
    void *memory = rank_pointer(rank_alloc(COUNT));

    rank_join(rank, 0, &rank->comm);
    if (rank->rank == rank->ranks - 1) {
        rank_tell(rank, 0);
    }
    CHECK(ncclAllReduce(memory, memory, COUNT, NCCL_INT8, NCCL_SUM, rank->comm,
                  rank->stream) == NCCL_SUCCESS);
    CHECK(ncclCommFinalize(rank->comm) == NCCL_SUCCESS);
    CHECK(atomic_load(&rank->shared->flags[0]) == 1);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

/* clang-format off */
const struct rank_case cases_life[] = {
    { .name = "cycles", .body = run_cycles },
    { .name = "polled", .body = run_polled },
    { .name = "not_polled", .body = run_not_polled,
      .found = "use before ncclCommGetAsyncError has said" },
    { .name = "mixed", .body = run_mixed, .found = "blocking and with non-blocking" },
    { .name = "duplicate", .body = run_duplicate },
    { .name = "host_ids", .body = run_host_ids },
    { .name = "rank_twice", .body = run_rank_twice,
      .found = "the rank is there already", .hangs = true },
    { .name = "other_size", .body = run_other_size, .found = "ranks, for rank", .hangs = true },
    { .name = "one_thread", .body = run_one_thread },
    { .name = "split", .body = run_split },
    { .name = "split_polled", .body = run_split_polled },
    { .name = "split_busy", .body = run_split_busy, .found = "operations are outstanding" },
    { .name = "used_destroyed", .body = run_used_destroyed, .found = "use after its end" },
    { .name = "used_aborted", .body = run_used_aborted, .found = "use after its end" },
    { .name = "used_finalized", .body = run_used_finalized, .found = "after ncclCommFinalize" },
    { .name = "destroy_meets", .body = run_destroy_meets },
    { .name = "finalize", .body = run_finalize },
    { .name = NULL },
};
/* clang-format on */
