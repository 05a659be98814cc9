/*
 * When something goes wrong: ranks that are lost, faults, and the ways out.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "test/gpusim/nccl/test/ranks.h"

enum {
    COUNT = 100,
    NS_PER_MS = 1000000,
    POISON = 0xcb
};

static nccl_result all_reduce(const struct rank *rank, uint64_t memory, nccl_comm comm)
{
    return ncclAllReduce(rank_pointer(memory), rank_pointer(memory), COUNT, NCCL_UINT8,
            NCCL_MAX, comm, rank->stream);
}

static bool is_poisoned(uint64_t memory)
{
    unsigned char bytes[COUNT];

    CHECK(gpusim_read(bytes, memory, COUNT));
    return bytes[0] == POISON && bytes[COUNT - 1] == POISON;
}

/* A rank's second allreduce does nothing: the others stay until they abort. */
static void run_skip(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    int i;

    rank_join(rank, 0, &rank->comm);
    CHECK(gpusim_fill(memory, 1, COUNT));
    for (i = 0; i < 2; i++) {
        CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    }
    if (rank->rank == 1) {
        rank_sync(rank);
        CHECK(!is_poisoned(memory));
        rank_tell(rank, 0);
    } else {
        rank_await(rank, 0, 1);
        CHECK(gpusim_pending(rank->stream) > 0);
    }
    rank_meet(rank);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_sync(rank); /* no error: the kernel left, and the stream goes on */
    CHECK(is_poisoned(memory) == (rank->rank != 1));
    CHECK(gpusim_nccl_live().comms == 0 || rank->is_thread);
    rank_free(memory);
}

/* A process is killed while the others wait for it. */
static void run_kill(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    rank_sync(rank);
    if (rank->rank == rank->ranks - 1) {
        atomic_store(&rank->shared->flags[1], (uint32_t)getpid());
        (void)raise(SIGKILL);
    }
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    rank_await(rank, 1, 1);
    while (kill((pid_t)atomic_load(&rank->shared->flags[1]), 0) == 0 ||
            errno != ESRCH) {
        clock_sleep_ns(NS_PER_MS);
    }
    CHECK(gpusim_pending(rank->stream) > 0);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(is_poisoned(memory));
    rank_free(memory);
}

/* The maker of the id is there, and a rank is killed before it comes. */
static void run_kill_in_init(struct rank *rank)
{
    struct nccl_config config;
    nccl_result state;
    int i;

    if (rank->rank == rank->ranks - 1) {
        (void)raise(SIGKILL);
    }
    nccl_config_init(&config, false);
    CHECK(ncclCommInitRankConfig(&rank->comm, rank->ranks, rank->shared->ids[0],
                  rank->rank, &config) == NCCL_IN_PROGRESS);
    for (i = 0; i < 20; i++) {
        CHECK(ncclCommGetAsyncError(rank->comm, &state) == NCCL_SUCCESS);
        CHECK(state == NCCL_IN_PROGRESS);
    }
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    CHECK(gpusim_nccl_live().comms == 0);
}

/* Two communicators with a kernel each that waits for ever, on a device with room for both. */
static void two_stuck(struct rank *rank, nccl_comm *comms)
{
    cu_stream second;
    uint64_t memory[2] = { rank_alloc(COUNT), rank_alloc(COUNT) };

    CHECK(cuStreamCreateWithPriority(&second, 1, 0) == CU_SUCCESS);
    rank_join(rank, 0, &comms[0]);
    rank_join(rank, 1, &comms[1]);
    if (rank->rank == 0) {
        CHECK(all_reduce(rank, memory[0], comms[0]) == NCCL_SUCCESS);
        CHECK(ncclAllReduce(rank_pointer(memory[1]), rank_pointer(memory[1]), COUNT,
                      NCCL_UINT8, NCCL_MAX, comms[1], second) == NCCL_SUCCESS);
    }
    rank_meet(rank);
}

/* All communicators of the device are aborted together. */
static void run_abort_group(struct rank *rank)
{
    nccl_comm comms[2];

    two_stuck(rank, comms);
    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    CHECK(ncclCommAbort(comms[0]) == NCCL_SUCCESS);
    CHECK(ncclCommAbort(comms[1]) == NCCL_SUCCESS);
    CHECK(ncclGroupEnd() == NCCL_SUCCESS);
    rank_sync(rank);
}

/* One after another: the first waits, freeing memory, for the second one's kernel. */
static void run_abort_one_by_one(struct rank *rank)
{
    nccl_comm comms[2];

    two_stuck(rank, comms);
    CHECK(ncclCommAbort(comms[0]) == NCCL_SUCCESS);
    CHECK(rank->rank != 0);
    rank_await(rank, 0, 1); /* for ever */
}

/*
 * Aborts that meet on a node: ranks that abort two communicators one after the other, each in an
 * order of its own, wait for each other.
 */
static void run_abort_crossed(struct rank *rank)
{
    nccl_comm comms[2];
    const int first = rank->rank % 2;

    two_stuck(rank, comms);
    CHECK(ncclCommRevoke(comms[1 - first], 0) == NCCL_SUCCESS);
    CHECK(ncclCommAbort(comms[first]) == NCCL_SUCCESS);
    CHECK(ncclCommAbort(comms[1 - first]) == NCCL_SUCCESS);
}

/* A call that never ends: rank 0's abort or its kernel, or the destruction. */
static void run_abort_never(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    rank_meet(rank);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_await(rank, 0, 1); /* for ever */
}

static void run_destroy_never(struct rank *rank)
{
    rank_join(rank, 0, &rank->comm);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    rank_await(rank, 0, 1);
}

/* Revoked: kernels leave, and nothing more is launched. */
static void run_revoke(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);

    rank_join(rank, 0, &rank->comm);
    if (rank->rank == 0) {
        CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
        CHECK(ncclCommRevoke(rank->comm, 0) == NCCL_SUCCESS);
        rank_sync(rank);
        CHECK(is_poisoned(memory));
        CHECK(gpusim_reports() == 0);
        CHECK(all_reduce(rank, memory, rank->comm) == NCCL_INVALID_USAGE);
    }
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_meet(rank);
}

/* An asynchronous error at rank 0, of which polls tell; its kernel stays until aborted. */
static void run_async(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    nccl_result state = NCCL_SUCCESS;

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(ncclCommGetAsyncError(rank->comm, &state) == NCCL_SUCCESS);
    CHECK(state == NCCL_SUCCESS);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    while (rank->rank == 0 && state == NCCL_SUCCESS) {
        CHECK(ncclCommGetAsyncError(rank->comm, &state) == NCCL_SUCCESS);
        clock_sleep_ns(NS_PER_MS);
    }
    CHECK(rank->rank != 0 || state == NCCL_REMOTE_ERROR);
    CHECK(gpusim_pending(rank->stream) > 0);
    rank_meet(rank);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_sync(rank);
}

/* The kernel of rank 0 fails: its context has a sticky error. */
static void run_kernel(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    if (rank->rank == 0) {
        CHECK(cuStreamSynchronize(rank->stream) == CU_ERROR_ILLEGAL_ADDRESS);
        CHECK(all_reduce(rank, memory, rank->comm) == NCCL_UNHANDLED_CUDA_ERROR);
    }
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    CHECK(cuStreamSynchronize(rank->stream) ==
            (rank->rank == 0 ? CU_ERROR_ILLEGAL_ADDRESS : CU_SUCCESS));
}

/* The third call of rank 0 fails, and nothing is launched; in a group its end says so. */
static void run_call(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    nccl_result expected = rank->rank == 0 ? NCCL_SYSTEM_ERROR : NCCL_SUCCESS;

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(ncclGroupStart() == NCCL_SUCCESS);
    CHECK(all_reduce(rank, memory, rank->comm) == expected);
    CHECK(ncclGroupEnd() == expected);
    CHECK(rank->rank != 0 || gpusim_pending(rank->stream) == 0);
    rank_meet(rank);
    gpusim_fail("ncclCommFinalize", 1, NCCL_INTERNAL_ERROR); /* of the CUDA half */
    CHECK(ncclCommFinalize(rank->comm) == NCCL_INTERNAL_ERROR);
    rank_meet(rank);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
}

/* A rank that is late changes nothing. */
static void run_slow(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    int64_t start = clock_ns();

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(clock_ns() - start >= 50 * (int64_t)NS_PER_MS);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

/* Rank 0 never gets ready; abort ends that, also for who waits for it. */
static void run_init(struct rank *rank)
{
    struct nccl_config config;
    nccl_result state;
    int i;

    nccl_config_init(&config, false);
    CHECK(ncclCommInitRankConfig(&rank->comm, rank->ranks, rank->shared->ids[0],
                  rank->rank, &config) == NCCL_IN_PROGRESS);
    for (i = 0; i < 20; i++) {
        CHECK(ncclCommGetAsyncError(rank->comm, &state) == NCCL_SUCCESS);
        CHECK(state == NCCL_IN_PROGRESS);
    }
    rank_meet(rank);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_meet(rank);
    CHECK(gpusim_nccl_live().comms == 0);
}

/* The launch comes to its stream, which is held, and ends there; no poll says either. */
static void stay_in_progress(const struct rank *rank)
{
    nccl_result state;
    int polls;

    for (polls = 0; gpusim_pending(rank->stream) == 0; polls++) {
        CHECK(polls < 20);
        CHECK(ncclCommGetAsyncError(rank->comm, &state) == NCCL_SUCCESS);
        CHECK(state == NCCL_IN_PROGRESS);
    }
    gpusim_release(rank->stream);
    rank_sync(rank);
    for (polls = 0; polls < 20; polls++) {
        CHECK(ncclCommGetAsyncError(rank->comm, &state) == NCCL_SUCCESS);
        CHECK(state == NCCL_IN_PROGRESS);
    }
}

/* Rank 0's launch runs as any, though polls never say that it is on its stream. */
static void run_late(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    struct nccl_config config;
    unsigned char first;

    nccl_config_init(&config, false);
    CHECK(ncclCommInitRankConfig(&rank->comm, rank->ranks, rank->shared->ids[0],
                  rank->rank, &config) == NCCL_IN_PROGRESS);
    CHECK(rank_poll(rank->comm) == NCCL_SUCCESS);
    CHECK(gpusim_fill(memory, rank->rank + 1, COUNT));
    if (rank->rank == 0) {
        gpusim_hold(rank->stream);
    }
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_IN_PROGRESS);
    if (rank->rank == 0) {
        stay_in_progress(rank);
    } else {
        CHECK(rank_poll(rank->comm) == NCCL_SUCCESS);
        rank_sync(rank);
    }
    CHECK(gpusim_read(&first, memory, 1) && first == rank->ranks);
    rank_meet(rank);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_meet(rank);
    CHECK(gpusim_nccl_live().comms == 0);
}

/* clang-format off */
const struct rank_case cases_faults[] = {
    { .name = "skip", .body = run_skip, .fault = "1:skip:2:0" },
    { .name = "kill", .body = run_kill, .may_die = true },
    { .name = "kill_in_init", .body = run_kill_in_init, .may_die = true },
    { .name = "abort_group", .body = run_abort_group, .has_room = true },
    { .name = "abort_one_by_one", .body = run_abort_one_by_one, .found = "HANG: rank 0",
      .has_room = true, .hangs = true },
    { .name = "abort_meets", .body = run_abort_group, .fault = "*:abortmeets:0:0",
      .has_room = true },
    { .name = "abort_crossed", .body = run_abort_crossed, .fault = "*:abortmeets:0:0",
      .found = "waits in ncclCommAbort", .has_room = true, .hangs = true },
    { .name = "abort_never", .body = run_abort_never, .fault = "0:abort:1:0",
      .found = "HANG: rank 0", .hangs = true },
    { .name = "deaf", .body = run_abort_never, .fault = "0:deaf:1:0",
      .found = "HANG: rank 0", .hangs = true },
    { .name = "destroy_never", .body = run_destroy_never, .fault = "0:destroy:1:0",
      .found = "waits in ncclCommDestroy", .hangs = true },
    { .name = "revoke", .body = run_revoke, .found = "after ncclCommRevoke" },
    { .name = "async", .body = run_async, .fault = "0:async:2:6" },
    { .name = "kernel", .body = run_kernel, .fault = "0:kernel:1:700" },
    { .name = "call", .body = run_call, .fault = "0:ncclAllReduce:3:2" },
    { .name = "slow", .body = run_slow, .fault = "0:slow:1:50000" },
    { .name = "init", .body = run_init, .fault = "0:init:1:0" },
    { .name = "late", .body = run_late, .fault = "0:late:1:0" },
    { .name = NULL },
};
/* clang-format on */
