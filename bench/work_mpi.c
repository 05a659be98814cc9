/*
 * The raw MPI side: what an application would write without tutti.
 */
#include <limits.h>
#include <mpi.h>

#include "bench/core/collective.h"
#include "bench/work.h"

/* The type of the elements; MPI_BYTE where MPI has none, which can only be moved. */
static MPI_Datatype element_type(tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_UINT8:
        return MPI_UINT8_T;
    case TUTTI_INT8:
        return MPI_INT8_T;
    case TUTTI_UINT16:
        return MPI_UINT16_T;
    case TUTTI_INT16:
        return MPI_INT16_T;
    case TUTTI_UINT32:
        return MPI_UINT32_T;
    case TUTTI_INT32:
        return MPI_INT32_T;
    case TUTTI_UINT64:
        return MPI_UINT64_T;
    case TUTTI_INT64:
        return MPI_INT64_T;
    case TUTTI_FLOAT32:
        return MPI_FLOAT;
    case TUTTI_FLOAT64:
        return MPI_DOUBLE;
    case TUTTI_BOOL:
        return MPI_C_BOOL;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        break;
    }
    return MPI_BYTE;
}

static MPI_Op reduction(const struct bench_operation *operation)
{
    bool logical = operation->dtype == TUTTI_BOOL;

    switch (operation->op) {
    case TUTTI_MIN:
        return logical ? MPI_LAND : MPI_MIN;
    case TUTTI_MAX:
        return logical ? MPI_LOR : MPI_MAX;
    case TUTTI_PRODUCT:
        return MPI_PROD;
    case TUTTI_SUM:
    case TUTTI_AVERAGE:
    case TUTTI_SET_AVERAGE: /* refused by the arguments' checks: MPI has none */
        break;
    }
    return MPI_SUM;
}

static void reduce(const struct work *work, size_t index, MPI_Datatype type, MPI_Op op)
{
    const struct bench_operation *how = &work->operation;
    int count = (int)work->tensors->tensors[index].count;
    int part = (int)work_part(work, index);
    void *buffer = work->outputs[index];

    if (how->collective == TUTTI_ALLREDUCE) {
        MPI_Allreduce(MPI_IN_PLACE, buffer, count, type, op, MPI_COMM_WORLD);
    } else if (how->collective == TUTTI_REDUCESCATTER) {
        MPI_Reduce_scatter_block(MPI_IN_PLACE, buffer, part, type, op, MPI_COMM_WORLD);
    } else if (work->job->rank == how->root) {
        MPI_Reduce(MPI_IN_PLACE, buffer, count, type, op, how->root, MPI_COMM_WORLD);
    } else {
        MPI_Reduce(buffer, NULL, count, type, op, how->root, MPI_COMM_WORLD);
    }
}

/* An element is `unit` of the type. */
static void move(const struct work *work, size_t index, MPI_Datatype type, int unit)
{
    int root = work->operation.root;
    bool is_root = work->job->rank == root;
    int count = (int)work->tensors->tensors[index].count * unit;
    int part = (int)work_part(work, index) * unit;
    void *input = work_input(work, index);
    void *output = work_output(work, index);

    switch (work->operation.collective) {
    case TUTTI_BROADCAST:
        MPI_Bcast(output, count, type, root, MPI_COMM_WORLD);
        break;
    case TUTTI_ALLGATHER:
        MPI_Allgather(MPI_IN_PLACE, 0, type, output, part, type, MPI_COMM_WORLD);
        break;
    case TUTTI_ALLTOALL:
        MPI_Alltoall(MPI_IN_PLACE, 0, type, output, part, type, MPI_COMM_WORLD);
        break;
    case TUTTI_GATHER:
        MPI_Gather(is_root ? MPI_IN_PLACE : input, part, type, is_root ? output : NULL,
                part, type, root, MPI_COMM_WORLD);
        break;
    case TUTTI_SCATTER:
        MPI_Scatter(is_root ? input : NULL, part, type, is_root ? MPI_IN_PLACE : output,
                part, type, root, MPI_COMM_WORLD);
        break;
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE:
    case TUTTI_REDUCESCATTER:
    case TUTTI_BARRIER: /* not moved */
    case TUTTI_MESSAGE:
        break;
    }
}

tutti_status work_step_mpi(struct work *work)
{
    const struct bench_operation *operation = &work->operation;
    MPI_Datatype type = element_type(operation->dtype);
    MPI_Op op = reduction(operation);
    uint64_t unit = type == MPI_BYTE ? work->pattern.element_bytes : 1;

    for (size_t i = work->tensors->count; i-- > 0;) {
        uint64_t count = work->tensors->tensors[i].count;

        if (count > INT_MAX / unit) {
            job_complain(work->job, "raw MPI cannot count %llu elements in one call",
                    (unsigned long long)count);
            return TUTTI_ERR_UNSUPPORTED;
        }
        if (bench_reduces(operation->collective)) {
            reduce(work, i, type, op);
        } else {
            move(work, i, type, (int)unit);
        }
    }
    /* MPI in place has no other place for it */
    work->result_in_front = operation->collective == TUTTI_REDUCESCATTER;
    return TUTTI_OK;
}
