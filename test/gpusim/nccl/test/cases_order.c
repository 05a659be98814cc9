/*
 * What all ranks must do alike, and what hangs when they do not: every rule is broken once.
 */
#include <time.h>

#include "test/gpusim/nccl/gpusim_nccl.h"
#include "test/gpusim/nccl/test/ranks.h"

enum {
    COUNT = 64
};

static void *memory_of(size_t elements)
{
    return rank_pointer(rank_alloc(elements * sizeof(double)));
}

/* One allreduce by all, so that what follows is not the first. */
static void *begin(struct rank *rank)
{
    void *memory = memory_of((size_t)rank->ranks * COUNT);

    rank_join(rank, 0, &rank->comm);
    CHECK(ncclAllReduce(memory, memory, COUNT, NCCL_FLOAT32, NCCL_SUM, rank->comm,
                  rank->stream) == NCCL_SUCCESS);
    return memory;
}

/* What the last rank does must be told from what the others do; the process ends here. */
static void never_ends(struct rank *rank)
{
    rank_sync(rank);
    CHECK(rank->rank < 0);
}

static void run_other_function(struct rank *rank)
{
    void *memory = begin(rank);

    if (rank->rank == rank->ranks - 1) {
        (void)ncclBroadcast(
                memory, memory, COUNT, NCCL_FLOAT32, 0, rank->comm, rank->stream);
    } else {
        (void)ncclAllReduce(memory, memory, COUNT, NCCL_FLOAT32, NCCL_SUM, rank->comm,
                rank->stream);
    }
    never_ends(rank);
}

static void run_other_count(struct rank *rank)
{
    void *memory = begin(rank);

    (void)ncclAllReduce(memory, memory, COUNT - (rank->rank == 0), NCCL_FLOAT32,
            NCCL_SUM, rank->comm, rank->stream);
    never_ends(rank);
}

static void run_other_type(struct rank *rank)
{
    void *memory = begin(rank);

    (void)ncclAllReduce(memory, memory, COUNT,
            rank->rank == 0 ? NCCL_FLOAT32 : NCCL_INT32, NCCL_SUM, rank->comm,
            rank->stream);
    never_ends(rank);
}

static void run_other_op(struct rank *rank)
{
    void *memory = begin(rank);

    (void)ncclAllReduce(memory, memory, COUNT, NCCL_FLOAT32,
            rank->rank == 0 ? NCCL_SUM : NCCL_MAX, rank->comm, rank->stream);
    never_ends(rank);
}

static void run_other_root(struct rank *rank)
{
    void *memory = begin(rank);

    (void)ncclBroadcast(memory, memory, COUNT, NCCL_FLOAT32, rank->rank == 0,
            rank->comm, rank->stream);
    never_ends(rank);
}

/* Two collectives in one group here, one after the other there. */
static void run_other_group(struct rank *rank)
{
    void *memory = begin(rank);
    int i;

    if (rank->rank == 0) {
        CHECK(ncclGroupStart() == NCCL_SUCCESS);
    }
    for (i = 0; i < 2; i++) {
        (void)ncclAllReduce(memory, memory, COUNT, NCCL_FLOAT32, NCCL_SUM, rank->comm,
                rank->stream);
    }
    if (rank->rank == 0) {
        (void)ncclGroupEnd();
    }
    never_ends(rank);
}

/* One rank splits, another destroys. */
static void run_other_host_call(struct rank *rank)
{
    nccl_comm part;

    (void)begin(rank);
    rank_sync(rank);
    if (rank->rank == 0) {
        (void)ncclCommSplit(rank->comm, 0, 0, &part, NULL);
    } else {
        (void)ncclCommDestroy(rank->comm);
    }
    CHECK(rank->rank < 0);
}

/* Sender and receiver differ in the length. */
static void run_other_length(struct rank *rank)
{
    void *memory = begin(rank);

    if (rank->rank == 0) {
        (void)ncclSend(memory, COUNT, NCCL_FLOAT32, 1, rank->comm, rank->stream);
    } else {
        (void)ncclRecv(memory, COUNT - 1, NCCL_FLOAT32, 0, rank->comm, rank->stream);
    }
    never_ends(rank);
}

/* A send that nobody receives. */
static void run_unmatched(struct rank *rank)
{
    void *memory = begin(rank);

    if (rank->rank == 0) {
        (void)ncclSend(memory, COUNT, NCCL_FLOAT32, 1, rank->comm, rank->stream);
        never_ends(rank);
    }
    rank_sync(rank);
    rank_await(rank, 0, 1); /* for ever */
}

/* Each sends, then receives, without a group: both wait in the send. */
static void run_ungrouped(struct rank *rank)
{
    void *memory = begin(rank);

    (void)ncclSend(
            memory, COUNT, NCCL_FLOAT32, 1 - rank->rank, rank->comm, rank->stream);
    (void)ncclRecv(
            memory, COUNT, NCCL_FLOAT32, 1 - rank->rank, rank->comm, rank->stream);
    never_ends(rank);
}

/* So many kernels of this process are on their devices. */
static void await_resident(size_t count)
{
    const struct timespec nap = { .tv_nsec = 200000 };

    while (gpusim_nccl_live().resident < count) {
        (void)nanosleep(&nap, NULL);
    }
}

/* Two communicators on two streams; returns when both have run once. */
static void two(struct rank *rank, nccl_comm *comms, cu_stream *streams, bool crossed)
{
    void *memory[2] = { memory_of(COUNT), memory_of(COUNT) };
    int i;

    streams[0] = rank->stream;
    CHECK(cuStreamCreateWithPriority(&streams[1], 1, 0) == CU_SUCCESS);
    rank_join(rank, 0, &comms[0]);
    rank_join(rank, 1, &comms[1]);
    for (i = 0; i < 2; i++) {
        int which = crossed && rank->rank == 0 ? 1 - i : i;

        CHECK(ncclAllReduce(memory[which], memory[which], COUNT, NCCL_FLOAT32, NCCL_SUM,
                      comms[which], streams[which]) == NCCL_SUCCESS);
        /* Only when it is on its device: else the other stream might be faster. */
        if (i == 0 && crossed) {
            await_resident(rank->is_thread ? (size_t)rank->ranks : 1);
            rank_tell(rank, 0);
            rank_await(rank, 0, (uint32_t)rank->ranks);
        }
    }
    CHECK(cuStreamSynchronize(streams[0]) == CU_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CU_SUCCESS);
    for (i = 0; i < 2; i++) {
        CHECK(ncclCommDestroy(comms[i]) == NCCL_SUCCESS);
    }
}

/* Ranks launch two communicators' collectives in different orders. */
static void run_crossed(struct rank *rank)
{
    nccl_comm comms[2];
    cu_stream streams[2];

    two(rank, comms, streams, true);
}

static void run_straight(struct rank *rank)
{
    nccl_comm comms[2];
    cu_stream streams[2];
    void *memory[2] = { memory_of(COUNT), memory_of(COUNT) };
    cu_event event;
    int i;

    CHECK(cuEventCreate(&event, 2) == CU_SUCCESS);
    streams[0] = rank->stream;
    CHECK(cuStreamCreateWithPriority(&streams[1], 1, 0) == CU_SUCCESS);
    rank_join(rank, 0, &comms[0]);
    rank_join(rank, 1, &comms[1]);
    for (i = 0; i < 20; i++) {
        int which = i % 2;

        CHECK(cuStreamWaitEvent(streams[which], event, 0) == CU_SUCCESS);
        CHECK(ncclAllReduce(memory[which], memory[which], COUNT, NCCL_FLOAT32, NCCL_SUM,
                      comms[which], streams[which]) == NCCL_SUCCESS);
        CHECK(cuEventRecord(event, streams[which]) == CU_SUCCESS);
    }
    CHECK(cuStreamSynchronize(streams[0]) == CU_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CU_SUCCESS);
    for (i = 0; i < 2; i++) {
        CHECK(ncclCommDestroy(comms[i]) == NCCL_SUCCESS);
    }
}

/* A rank launches nothing; the others say whom they wait for. */
static void run_missing(struct rank *rank)
{
    void *memory = begin(rank);

    rank_sync(rank);
    if (rank->rank == 0) {
        (void)ncclAllReduce(memory, memory, COUNT, NCCL_FLOAT32, NCCL_SUM, rank->comm,
                rank->stream);
        never_ends(rank);
    }
    rank_await(rank, 0, 1); /* for ever */
}

/*
 * Launches of one communicator on several streams run in the order of their issue, also when
 * the first one's stream is late.
 */
static void run_unordered_streams(struct rank *rank)
{
    void *memory[2] = { memory_of(COUNT), memory_of(COUNT) };
    cu_stream second;

    CHECK(cuStreamCreateWithPriority(&second, 1, 0) == CU_SUCCESS);
    rank_join(rank, 0, &rank->comm);
    if (rank->rank == 0) {
        gpusim_hold(rank->stream);
    }
    CHECK(ncclAllReduce(memory[0], memory[0], COUNT, NCCL_FLOAT32, NCCL_SUM, rank->comm,
                  rank->stream) == NCCL_SUCCESS);
    CHECK(ncclAllReduce(memory[1], memory[1], COUNT / 2, NCCL_INT32, NCCL_MAX,
                  rank->comm, second) == NCCL_SUCCESS);
    if (rank->rank == 0) {
        CHECK(gpusim_pending(second) == 1);
        gpusim_release(rank->stream);
    }
    CHECK(cuStreamSynchronize(second) == CU_SUCCESS);
    rank_sync(rank);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

/* clang-format off */
const struct rank_case cases_order[] = {
    { .name = "other_function", .body = run_other_function, .found = "MISMATCH in communicator" },
    { .name = "other_count", .body = run_other_count, .found = "MISMATCH in communicator" },
    { .name = "other_type", .body = run_other_type, .found = "MISMATCH in communicator" },
    { .name = "other_op", .body = run_other_op, .found = "MISMATCH in communicator" },
    { .name = "other_root", .body = run_other_root, .found = "MISMATCH in communicator" },
    { .name = "other_group", .body = run_other_group, .found = "MISMATCH in communicator" },
    { .name = "other_host_call", .body = run_other_host_call, .found = "calls ncclCommSplit" },
    { .name = "other_length", .body = run_other_length,
      .found = "receives 252 bytes of float32, rank 0 sends 256" },
    { .name = "unmatched", .body = run_unmatched, .found = "HANG: rank 0", .hangs = true },
    { .name = "ungrouped", .body = run_ungrouped, .found = "waits in ncclSend", .hangs = true },
    { .name = "crossed", .body = run_crossed,
      .found = "waiting on its device behind ncclAllReduce", .hangs = true },
    { .name = "straight", .body = run_straight },
    { .name = "missing", .body = run_missing, .hangs = true,
      .found = "which has done ncclAllReduce #0 and launched nothing since" },
    { .name = "unordered_streams", .body = run_unordered_streams },
    { .name = NULL },
};
/* clang-format on */
