/*
 * The exported functions: the library itself, collectives, sends and receives.
 */
#include "test/gpusim/nccl/launch.h"

enum {
    NONE = -1
};

nccl_result ncclGetVersion(int *version)
{
    *version = GPUSIM_NCCL_VERSION;
    return comm_begin("ncclGetVersion");
}

const char *ncclGetErrorString(nccl_result error)
{
    return error == NCCL_SUCCESS ? "no error" : "an error (simulated)";
}

/* ---- the way of every call ---- */

/* In place is what NCCL says it is; any other overlap is a mistake. */
static bool overlaps(nccl_comm comm, const struct call *call)
{
    const size_t input = call_input_bytes(comm, call);
    const size_t output = call_output_bytes(comm, call);

    return input != 0 && output != 0 && call->input < call->output + output &&
            call->output < call->input + input && !call_is_in_place(comm, call);
}

/* Where its memory is, is looked at by the CUDA half. */
static nccl_result run(nccl_comm comm, struct call *call)
{
    if (overlaps(comm, call)) {
        return comm_misuse(comm, function_name(call->function),
                "input and output overlap, and this is not in place",
                NCCL_INVALID_ARGUMENT);
    }
    if (call->count == 0 && !function_is_pair(call->function)) {
        return NCCL_SUCCESS;
    }
    memory_note_call(comm, call);
    return launch_call(comm, call);
}

/* A call; NONE where there is no reduction, or no rank. */
static nccl_result call(enum function function, const void *input, const void *output,
        size_t count, nccl_dtype type, int fold, int root, nccl_comm comm,
        cu_stream stream)
{
    nccl_result result = comm_enter(comm, function_name(function), COMM_READY);
    struct call call = { .function = function,
        .input = (uint64_t)(uintptr_t)input,
        .output = (uint64_t)(uintptr_t)output,
        .count = count,
        .type = type,
        .fold = fold,
        .root = root,
        .stream = stream };

    return result != NCCL_SUCCESS ? result
                                  : comm_leave(comm, COMM_READY, run(comm, &call));
}

nccl_result ncclAllReduce(const void *input, void *output, size_t count,
        nccl_dtype dtype, nccl_op op, nccl_comm comm, cu_stream stream)
{
    return call(
            FUNCTION_ALL_REDUCE, input, output, count, dtype, op, NONE, comm, stream);
}

nccl_result ncclReduce(const void *input, void *output, size_t count, nccl_dtype dtype,
        nccl_op op, int root, nccl_comm comm, cu_stream stream)
{
    return call(FUNCTION_REDUCE, input, output, count, dtype, op, root, comm, stream);
}

nccl_result ncclBroadcast(const void *input, void *output, size_t count,
        nccl_dtype dtype, int root, nccl_comm comm, cu_stream stream)
{
    return call(
            FUNCTION_BROADCAST, input, output, count, dtype, NONE, root, comm, stream);
}

nccl_result ncclAllGather(const void *input, void *output, size_t input_count,
        nccl_dtype dtype, nccl_comm comm, cu_stream stream)
{
    return call(FUNCTION_ALL_GATHER, input, output, input_count, dtype, NONE, NONE,
            comm, stream);
}

nccl_result ncclReduceScatter(const void *input, void *output, size_t output_count,
        nccl_dtype dtype, nccl_op op, nccl_comm comm, cu_stream stream)
{
    return call(FUNCTION_REDUCE_SCATTER, input, output, output_count, dtype, op, NONE,
            comm, stream);
}

nccl_result ncclSend(const void *input, size_t count, nccl_dtype dtype, int peer,
        nccl_comm comm, cu_stream stream)
{
    return call(FUNCTION_SEND, input, NULL, count, dtype, NONE, peer, comm, stream);
}

nccl_result ncclRecv(void *output, size_t count, nccl_dtype dtype, int peer,
        nccl_comm comm, cu_stream stream)
{
    return call(FUNCTION_RECV, NULL, output, count, dtype, NONE, peer, comm, stream);
}
