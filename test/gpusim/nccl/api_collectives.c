/*
 * The exported functions: collectives, sends and receives.
 */
#include <limits.h>
#include <stddef.h>

#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/launch.h"
#include "test/gpusim/nccl/memory.h"
#include "test/gpusim/nccl/reduce.h"

/* ---- checks: what is wrong with a call, or NULL ---- */

static const char *wrong_type(const struct call *call, nccl_op op)
{
    if (reduce_type_bytes(call->type) == 0) {
        return "no such type";
    }
    return op > NCCL_MIN ? "no such reduction" : NULL;
}

static bool overlap(uint64_t a, size_t a_bytes, uint64_t b, size_t b_bytes)
{
    return a_bytes != 0 && b_bytes != 0 && a < b + b_bytes && b < a + a_bytes;
}

/* In place is what NCCL says it is; any other overlap is a mistake. */
static bool is_in_place(nccl_comm comm, const struct call *call)
{
    uint64_t part = call->count * reduce_type_bytes(call->type) * (uint64_t)comm->rank;

    switch (call->function) {
    case FUNCTION_ALL_REDUCE:
    case FUNCTION_REDUCE:
    case FUNCTION_BROADCAST:
        return call->input == call->output;
    case FUNCTION_ALL_GATHER:
        return call->input == call->output + part;
    case FUNCTION_REDUCE_SCATTER:
        return call->output == call->input + part;
    case FUNCTION_SEND:
    case FUNCTION_RECV:
        return false;
    }
    return false;
}

static const char *wrong_memory(nccl_comm comm, const struct call *call)
{
    size_t input = call_input_bytes(comm, call);
    size_t output = call_output_bytes(comm, call);

    if ((input != 0 && call->input == 0) || (output != 0 && call->output == 0)) {
        return "a NULL pointer";
    }
    if ((input != 0 && !gpusim_range_is_live(call->input, input)) ||
            (output != 0 && !gpusim_range_is_live(call->output, output))) {
        return "not (all) device memory";
    }
    if ((input != 0 && gpusim_pointer_device(call->input) >= 0 &&
                gpusim_pointer_device(call->input) != comm->device) ||
            (output != 0 && gpusim_pointer_device(call->output) >= 0 &&
                    gpusim_pointer_device(call->output) != comm->device)) {
        return "memory of another device";
    }
    if (overlap(call->input, input, call->output, output) && !is_in_place(comm, call)) {
        return "input and output overlap, and this is not in place";
    }
    return NULL;
}

/* A reduction of -1 is none. */
static const char *wrong_call(nccl_comm comm, struct call *call, nccl_op op)
{
    const char *wrong = wrong_type(call, op);

    call->fold = op;
    if (wrong == NULL && (call->root < -1 || call->root >= comm->ranks)) {
        wrong = "no such rank";
    }
    if (wrong == NULL && gpusim_stream_device(call->stream) != comm->device) {
        wrong = "a stream of another device";
    }
    return wrong == NULL ? wrong_memory(comm, call) : wrong;
}

/* ---- the way of every call ---- */

static nccl_result run(nccl_comm comm, struct call *call, nccl_op op)
{
    const char *name = function_name(call->function);
    const char *wrong = wrong_call(comm, call, op);

    if (wrong != NULL) {
        return comm_misuse(comm, name, wrong, NCCL_INVALID_ARGUMENT);
    }
    if (call->count == 0 && !function_is_pair(call->function)) {
        return NCCL_SUCCESS;
    }
    memory_note_call(comm, call);
    return launch_call(comm, call);
}

static nccl_result enter_and_run(nccl_comm comm, struct call *call, nccl_op op)
{
    nccl_result result = api_enter(comm, function_name(call->function));

    if (result == NCCL_SUCCESS) {
        result = run(comm, call, op);
        comm_leave(comm);
    }
    return api_failed(result);
}

static uint64_t address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

nccl_result ncclAllReduce(const void *input, void *output, size_t count,
        nccl_dtype dtype, nccl_op op, nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_ALL_REDUCE,
        .input = address(input),
        .output = address(output),
        .count = count,
        .type = dtype,
        .root = -1,
        .stream = stream };

    return enter_and_run(comm, &call, op < 0 ? INT_MAX : op);
}

nccl_result ncclReduce(const void *input, void *output, size_t count, nccl_dtype dtype,
        nccl_op op, int root, nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_REDUCE,
        .input = address(input),
        .output = address(output),
        .count = count,
        .type = dtype,
        .root = root < 0 ? INT_MAX : root,
        .stream = stream };

    return enter_and_run(comm, &call, op < 0 ? INT_MAX : op);
}

nccl_result ncclBroadcast(const void *input, void *output, size_t count,
        nccl_dtype dtype, int root, nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_BROADCAST,
        .input = address(input),
        .output = address(output),
        .count = count,
        .type = dtype,
        .root = root < 0 ? INT_MAX : root,
        .stream = stream };

    return enter_and_run(comm, &call, -1);
}

nccl_result ncclAllGather(const void *input, void *output, size_t input_count,
        nccl_dtype dtype, nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_ALL_GATHER,
        .input = address(input),
        .output = address(output),
        .count = input_count,
        .type = dtype,
        .root = -1,
        .stream = stream };

    return enter_and_run(comm, &call, -1);
}

nccl_result ncclReduceScatter(const void *input, void *output, size_t output_count,
        nccl_dtype dtype, nccl_op op, nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_REDUCE_SCATTER,
        .input = address(input),
        .output = address(output),
        .count = output_count,
        .type = dtype,
        .root = -1,
        .stream = stream };

    return enter_and_run(comm, &call, op < 0 ? INT_MAX : op);
}

nccl_result ncclSend(const void *input, size_t count, nccl_dtype dtype, int peer,
        nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_SEND,
        .input = address(input),
        .count = count,
        .type = dtype,
        .root = peer < 0 ? INT_MAX : peer,
        .stream = stream };

    return enter_and_run(comm, &call, -1);
}

nccl_result ncclRecv(void *output, size_t count, nccl_dtype dtype, int peer,
        nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_RECV,
        .output = address(output),
        .count = count,
        .type = dtype,
        .root = peer < 0 ? INT_MAX : peer,
        .stream = stream };

    return enter_and_run(comm, &call, -1);
}
