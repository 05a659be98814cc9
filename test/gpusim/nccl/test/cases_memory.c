/*
 * Memory that is registered, and arguments that are wrong.
 */
#include "test/gpusim/nccl/test/ranks.h"

enum {
    BYTES = 4096
};

static nccl_result all_reduce(const struct rank *rank, void *input, void *output)
{
    return ncclAllReduce(
            input, output, BYTES / 4, NCCL_FLOAT32, NCCL_SUM, rank->comm, rank->stream);
}

/* Registered, used, given back. */
static void run_registration(struct rank *rank)
{
    void *memory;
    void *plain = rank_pointer(rank_alloc(BYTES));
    void *handle;

    rank_join(rank, 0, &rank->comm);
    CHECK(ncclMemAlloc(&memory, BYTES) == NCCL_SUCCESS);
    CHECK(ncclCommRegister(rank->comm, memory, BYTES, &handle) == NCCL_SUCCESS);
    rank_meet(rank);
    CHECK(gpusim_nccl_live().registrations ==
            (rank->is_thread ? (size_t)rank->ranks : 1));
    CHECK(all_reduce(rank, memory, memory) == NCCL_SUCCESS);
    rank_meet(rank);
    CHECK(gpusim_nccl_live().registered_calls ==
            (rank->is_thread ? (size_t)rank->ranks : 1));
    CHECK(all_reduce(rank, memory, plain) == NCCL_SUCCESS);
    rank_sync(rank);
    rank_meet(rank);
    CHECK(gpusim_nccl_live().registered_calls ==
            (rank->is_thread ? (size_t)rank->ranks : 1));
    CHECK(ncclCommRegister(rank->comm, plain, BYTES, &handle) == NCCL_INVALID_ARGUMENT);
    CHECK(ncclCommDeregister(rank->comm, handle) == NCCL_SUCCESS);
    CHECK(ncclMemFree(memory) == NCCL_SUCCESS);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
    rank_meet(rank);
    CHECK(gpusim_nccl_live().registrations == 0 && gpusim_nccl_live().allocations == 0);
}

static void run_freed_registered(struct rank *rank)
{
    void *memory;
    void *handle;

    rank_join(rank, 0, &rank->comm);
    CHECK(ncclMemAlloc(&memory, BYTES) == NCCL_SUCCESS);
    CHECK(ncclCommRegister(rank->comm, memory, BYTES, &handle) == NCCL_SUCCESS);
    CHECK(ncclMemFree(memory) == NCCL_SUCCESS);
    CHECK(ncclCommDeregister(rank->comm, handle) == NCCL_SUCCESS);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

static void run_left_registered(struct rank *rank)
{
    void *memory;
    void *handle;

    rank_join(rank, 0, &rank->comm);
    CHECK(ncclMemAlloc(&memory, BYTES) == NCCL_SUCCESS);
    CHECK(ncclCommRegister(rank->comm, memory, BYTES, &handle) == NCCL_SUCCESS);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

/* One rank gives memory that is registered, the others do not. */
static void run_registered_apart(struct rank *rank)
{
    void *memory;
    void *handle;

    rank_join(rank, 0, &rank->comm);
    CHECK(ncclMemAlloc(&memory, BYTES) == NCCL_SUCCESS);
    if (rank->rank == 0) {
        CHECK(ncclCommRegister(rank->comm, memory, BYTES, &handle) == NCCL_SUCCESS);
    }
    CHECK(all_reduce(rank, memory, memory) == NCCL_SUCCESS);
    rank_sync(rank);
}

/* All ranks do, at different places. */
static void run_registered_elsewhere(struct rank *rank)
{
    void *memory;
    void *handle;
    unsigned char *bytes;

    rank_join(rank, 0, &rank->comm);
    CHECK(ncclMemAlloc(&memory, (size_t)2 * BYTES) == NCCL_SUCCESS);
    CHECK(ncclCommRegister(rank->comm, memory, (size_t)2 * BYTES, &handle) ==
            NCCL_SUCCESS);
    bytes = (unsigned char *)memory + (rank->rank == 0 ? 256 : 0);
    CHECK(all_reduce(rank, bytes, bytes) == NCCL_SUCCESS);
    rank_sync(rank);
}

/* Given back to another communicator. */
static void run_wrong_handle(struct rank *rank)
{
    void *memory;
    void *handle;
    nccl_comm other;

    rank_join(rank, 0, &rank->comm);
    rank_join(rank, 1, &other);
    CHECK(ncclMemAlloc(&memory, BYTES) == NCCL_SUCCESS);
    CHECK(ncclCommRegister(rank->comm, memory, BYTES, &handle) == NCCL_SUCCESS);
    CHECK(ncclCommDeregister(other, handle) == NCCL_INVALID_ARGUMENT);
    rank_meet(rank);
}

static void run_host_memory(struct rank *rank)
{
    static float memory[BYTES / 4];

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, memory, memory) == NCCL_INVALID_ARGUMENT);
    rank_meet(rank);
}

static void run_overlap(struct rank *rank)
{
    uint64_t memory = rank_alloc((uint64_t)2 * BYTES);

    rank_join(rank, 0, &rank->comm);
    CHECK(all_reduce(rank, rank_pointer(memory), rank_pointer(memory + BYTES)) ==
            NCCL_SUCCESS);
    rank_sync(rank);
    rank_meet(rank);
    CHECK(gpusim_reports() == 0);
    rank_meet(rank);
    CHECK(all_reduce(rank, rank_pointer(memory), rank_pointer(memory + 4)) ==
            NCCL_INVALID_ARGUMENT);
    rank_meet(rank);
}

/* A stream, and memory, of another device. */
static void run_other_device(struct rank *rank)
{
    void *memory = rank_pointer(rank_alloc(BYTES));
    void *other_memory;
    cu_context other;
    cu_stream stream;

    rank_join(rank, 0, &rank->comm);
    CHECK(cuDevicePrimaryCtxRetain(&other, (rank->rank + 1) % 4) == CU_SUCCESS);
    CHECK(cuCtxSetCurrent(other) == CU_SUCCESS);
    CHECK(cuStreamCreateWithPriority(&stream, 1, 0) == CU_SUCCESS);
    other_memory = rank_pointer(rank_alloc(BYTES));
    CHECK(cuCtxSetCurrent(rank->context) == CU_SUCCESS);
    CHECK(ncclAllReduce(memory, memory, 1, NCCL_FLOAT32, NCCL_SUM, rank->comm,
                  stream) == NCCL_INVALID_ARGUMENT);
    CHECK(all_reduce(rank, other_memory, other_memory) == NCCL_INVALID_ARGUMENT);
    rank_meet(rank);
}

/* A collective is seen by the happens-before check as what it reads and writes. */
static void run_race(struct rank *rank)
{
    uint64_t memory = rank_alloc(BYTES);
    cu_stream second;

    CHECK(cuStreamCreateWithPriority(&second, 1, 0) == CU_SUCCESS);
    rank_join(rank, 0, &rank->comm);
    CHECK(cuMemsetD8Async(memory, 0, BYTES, second) == CU_SUCCESS);
    CHECK(all_reduce(rank, rank_pointer(memory), rank_pointer(memory)) == NCCL_SUCCESS);
    CHECK(cuStreamSynchronize(second) == CU_SUCCESS);
    rank_sync(rank);
    CHECK(ncclCommDestroy(rank->comm) == NCCL_SUCCESS);
}

/* clang-format off */
const struct rank_case cases_memory[] = {
    { .name = "registration", .body = run_registration },
    { .name = "left_registered", .body = run_left_registered,
      .found = "memory is still registered with it" },
    { .name = "registered_apart", .body = run_registered_apart, .found = "registered at 0 and 0" },
    { .name = "registered_elsewhere", .body = run_registered_elsewhere,
      .found = "registered at 257 and 257" },
    { .name = "freed_registered", .body = run_freed_registered,
      .found = "which is registered with a communicator" },
    { .name = "wrong_handle", .body = run_wrong_handle,
      .found = "a handle that is not of this communicator" },
    { .name = "host_memory", .body = run_host_memory, .found = "not (all) device memory" },
    { .name = "overlap", .body = run_overlap, .found = "input and output overlap" },
    { .name = "other_device", .body = run_other_device, .found = "a stream of another device" },
    { .name = "race", .body = run_race, .found = "RACE" },
    { .name = NULL },
};
/* clang-format on */
