/*
 * The exported functions: collectives, sends and receives, and reductions of the caller.
 */
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/faults.h"
#include "test/gpusim/nccl/launch.h"
#include "test/gpusim/nccl/memory.h"
#include "test/gpusim/nccl/reduce.h"

enum {
    VERSION_FLOAT8 = 22403
};

/* Handles of reductions tell their communicator: index, then number. */
static nccl_op handle_of(nccl_comm comm, int index)
{
    return COMM_FIRST_OP + index + COMM_OPS_MAX * (int)(comm->number + 1);
}

/* The reduction of a handle, locked; NULL: not of this communicator. */
static struct comm_op *find_op_locked(nccl_comm comm, nccl_op handle)
{
    int index = handle - handle_of(comm, 0);

    return index >= 0 && index < COMM_OPS_MAX && comm->ops[index].used
            ? &comm->ops[index]
            : NULL;
}

/* ---- checks: what is wrong with a call, or NULL ---- */

static const char *wrong_op(nccl_comm comm, struct call *call, nccl_op op)
{
    const struct comm_op *made;
    const char *wrong = NULL;

    call->fold = NCCL_SUM;
    call->op = op;
    if (op >= NCCL_SUM && op <= NCCL_MIN) {
        call->fold = op;
        return NULL;
    }
    if (op == NCCL_AVG) {
        call->is_scaled = reduce_scalar(call->type, 1.0 / comm->ranks, call->scalar);
        call->is_mean = !call->is_scaled;
        return NULL;
    }
    (void)pthread_mutex_lock(&comm->lock);
    made = find_op_locked(comm, op);
    if (made == NULL) {
        wrong = "no reduction of this communicator";
    } else if (made->type != call->type) {
        wrong = "a reduction of another type";
    } else {
        call->op = COMM_FIRST_OP;
        call->is_scaled = true;
        call->device_scalar = made->device_scalar;
        memcpy(call->scalar, made->scalar, sizeof call->scalar);
    }
    (void)pthread_mutex_unlock(&comm->lock);
    return wrong;
}

static const char *wrong_type(const struct call *call, nccl_op op)
{
    if (reduce_type_bytes(call->type) == 0 ||
            (call->type >= NCCL_FLOAT8_E4M3 && api_version < VERSION_FLOAT8)) {
        return "no such type";
    }
    if (op >= 0 && !reduce_has_type(call->type)) {
        return "the simulator only moves 8-bit floats";
    }
    return NULL;
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
    case FUNCTION_ALL_TO_ALL:
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

    call->fold = -1;
    call->op = -1;
    if (wrong == NULL && op != -1) {
        wrong = wrong_op(comm, call, op);
    }
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
    long value;

    if (wrong != NULL) {
        return comm_misuse(comm, name, wrong, NCCL_INVALID_ARGUMENT);
    }
    if ((call->count == 0 && !function_is_pair(call->function)) ||
            fault_at(comm->rank, "skip", &value)) {
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

nccl_result ncclAlltoAll(const void *input, void *output, size_t count_per_rank,
        nccl_dtype dtype, nccl_comm comm, cu_stream stream)
{
    struct call call = { .function = FUNCTION_ALL_TO_ALL,
        .input = address(input),
        .output = address(output),
        .count = count_per_rank,
        .type = dtype,
        .root = -1,
        .stream = stream };

    return enter_and_run(comm, &call, -1);
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

/* ---- reductions of the caller ---- */

/* Fills in a free one, locked; its index, or -1. */
static int make_op_locked(
        nccl_comm comm, const void *scalar, nccl_dtype dtype, nccl_residence residence)
{
    int index;

    for (index = 0; index < COMM_OPS_MAX && comm->ops[index].used; index++) {
    }
    if (index == COMM_OPS_MAX) {
        return -1;
    }
    comm->ops[index] = (struct comm_op){ .used = true, .type = dtype };
    if (residence == NCCL_SCALAR_DEVICE) {
        comm->ops[index].device_scalar = address(scalar);
    } else {
        memcpy(comm->ops[index].scalar, scalar, reduce_type_bytes(dtype));
    }
    return index;
}

nccl_result ncclRedOpCreatePreMulSum(nccl_op *op, void *scalar, nccl_dtype dtype,
        nccl_residence residence, nccl_comm comm)
{
    nccl_result result = api_enter(comm, "ncclRedOpCreatePreMulSum");
    int index;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    if (op == NULL || scalar == NULL || !reduce_has_type(dtype) ||
            (residence != NCCL_SCALAR_DEVICE && residence != NCCL_SCALAR_HOST)) {
        result = NCCL_INVALID_ARGUMENT;
    } else {
        (void)pthread_mutex_lock(&comm->lock);
        index = make_op_locked(comm, scalar, dtype, residence);
        (void)pthread_mutex_unlock(&comm->lock);
        *op = handle_of(comm, index);
        result = index < 0 ? NCCL_INTERNAL_ERROR : NCCL_SUCCESS;
    }
    comm_leave(comm);
    return api_failed(result);
}

nccl_result ncclRedOpDestroy(nccl_op op, nccl_comm comm)
{
    nccl_result result = api_begin("ncclRedOpDestroy", api_rank(comm));
    struct comm_op *made;

    if (result == NCCL_SUCCESS) {
        result = comm_enter_any(comm, "ncclRedOpDestroy");
    }
    if (result != NCCL_SUCCESS) {
        return api_failed(result);
    }
    (void)pthread_mutex_lock(&comm->lock);
    made = find_op_locked(comm, op);
    if (made != NULL) {
        made->used = false;
    }
    (void)pthread_mutex_unlock(&comm->lock);
    if (made == NULL) {
        result = comm_misuse(comm, "ncclRedOpDestroy",
                "no reduction of this communicator", NCCL_INVALID_ARGUMENT);
    }
    comm_leave_any(comm);
    return api_failed(result);
}
