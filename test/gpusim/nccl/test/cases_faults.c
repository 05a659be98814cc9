/*
 * When something goes wrong: ranks that are lost, faults, and the ways out.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "test/gpusim/nccl/test/cases.h"

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
void case_skip(struct rank *rank)
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
void case_kill(struct rank *rank)
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
void case_kill_in_init(struct rank *rank)
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
void case_abort_group(struct rank *rank)
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
void case_abort_one_by_one(struct rank *rank)
{
    nccl_comm comms[2];

    two_stuck(rank, comms);
    CHECK(ncclCommAbort(comms[0]) == NCCL_SUCCESS);
    CHECK(rank->rank != 0);
    rank_await(rank, 0, 1); /* for ever */
}

/* Revoked: kernels leave, nothing more is launched, the rest can be shrunk. */
void case_revoke(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    nccl_comm rest;
    int lost = rank->ranks - 1;

    rank_join(rank, 0, &rank->comm);
    if (rank->rank != lost) {
        CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
        CHECK(ncclCommRevoke(rank->comm, 0) == NCCL_SUCCESS);
        rank_sync(rank);
        CHECK(ncclCommShrink(rank->comm, &lost, 1, &rest, NULL, NCCL_SHRINK_PLAIN) ==
                NCCL_SUCCESS);
        CHECK(gpusim_fill(memory, 5, COUNT));
        CHECK(all_reduce(rank, memory, rest) == NCCL_SUCCESS);
        rank_sync(rank);
        CHECK(!is_poisoned(memory));
        CHECK(ncclCommDestroy(rest) == NCCL_SUCCESS);
        CHECK(gpusim_reports() == 0 || rank->is_thread);
        CHECK(all_reduce(rank, memory, rank->comm) == NCCL_INVALID_USAGE);
    }
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
    rank_meet(rank);
}

/* The last rank is gone, kernels wait for it: the others go on without it. */
void case_shrink(struct rank *rank)
{
    uint64_t memory = rank_alloc(COUNT);
    nccl_comm rest;
    int lost = rank->ranks - 1;
    int size;

    rank_join(rank, 0, &rank->comm);
    if (rank->rank == lost) {
        (void)raise(SIGKILL);
    }
    CHECK(all_reduce(rank, memory, rank->comm) == NCCL_SUCCESS);
    CHECK(ncclCommShrink(rank->comm, &lost, 1, &rest, NULL, NCCL_SHRINK_ABORTING) ==
            NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(is_poisoned(memory));
    CHECK(ncclCommCount(rest, &size) == NCCL_SUCCESS && size == lost);
    CHECK(gpusim_fill(memory, 5, COUNT));
    CHECK(all_reduce(rank, memory, rest) == NCCL_SUCCESS);
    rank_sync(rank);
    CHECK(!is_poisoned(memory));
    CHECK(ncclCommDestroy(rest) == NCCL_SUCCESS);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
}

/* An asynchronous error at rank 0, of which polls tell; its kernel stays until aborted. */
void case_async(struct rank *rank)
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
void case_kernel(struct rank *rank)
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
void case_call(struct rank *rank)
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
    gpusim_fail("ncclCommCount", 1, NCCL_INTERNAL_ERROR); /* of the CUDA half */
    CHECK(ncclCommCount(rank->comm, &(int){ 0 }) == NCCL_INTERNAL_ERROR ||
            rank->is_thread);
    rank_meet(rank);
    CHECK(ncclCommAbort(rank->comm) == NCCL_SUCCESS);
}

/* A rank that is late changes nothing. */
void case_slow(struct rank *rank)
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
void case_init(struct rank *rank)
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
void case_late(struct rank *rank)
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
