/*
 * The raw MPI side: what an application would write without tutti.
 */
#include <limits.h>
#include <mpi.h>

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
    case TUTTI_AVERAGE: /* refused by the arguments' checks: MPI has none */
        break;
    }
    return MPI_SUM;
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
        if (operation->collective == TUTTI_ALLREDUCE) {
            MPI_Allreduce(MPI_IN_PLACE, work->outputs[i], (int)count, type, op,
                    MPI_COMM_WORLD);
        } else {
            MPI_Bcast(work->outputs[i], (int)(count * unit), type, operation->root,
                    MPI_COMM_WORLD);
        }
    }
    return TUTTI_OK;
}
