/*
 * Sums are always ncclSum: averages and scales are made by the kernels that pack, or in a
 * pass of their own over tensors that need no packing.
 *
 *     type                          travels as
 *     float32, float64              itself
 *     float16, bfloat16             itself; with gpu_half_sums=float float32 where they are
 *                                   added or multiplied, or scaled twice
 *     integers, AVERAGE             64 bits
 *     16-bit integers               32 bits: NCCL has none
 *     bool                          uint8, made 0 or 1 on the way
 */
#include "ops/gpu/types.h"

#include "base/status.h"
#include "ops/gpu/kernels/kernels.h"

/* False: NCCL cannot reduce it. */
static bool nccl_type(tutti_dtype dtype, nccl_dtype *type)
{
    switch (dtype) {
    case TUTTI_UINT8:
        *type = NCCL_UINT8;
        return true;
    case TUTTI_INT8:
        *type = NCCL_INT8;
        return true;
    case TUTTI_UINT32:
        *type = NCCL_UINT32;
        return true;
    case TUTTI_INT32:
        *type = NCCL_INT32;
        return true;
    case TUTTI_UINT64:
        *type = NCCL_UINT64;
        return true;
    case TUTTI_INT64:
        *type = NCCL_INT64;
        return true;
    case TUTTI_FLOAT16:
        *type = NCCL_FLOAT16;
        return true;
    case TUTTI_BFLOAT16:
        *type = NCCL_BFLOAT16;
        return true;
    case TUTTI_FLOAT32:
        *type = NCCL_FLOAT32;
        return true;
    case TUTTI_FLOAT64:
        *type = NCCL_FLOAT64;
        return true;
    case TUTTI_UINT16:
    case TUTTI_INT16:
    case TUTTI_BOOL:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        break;
    }
    return false;
}

static nccl_op nccl_op_of(tutti_reduce_op op)
{
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVERAGE:
    case TUTTI_SET_AVERAGE:
        return NCCL_SUM;
    case TUTTI_MIN:
        return NCCL_MIN;
    case TUTTI_MAX:
        return NCCL_MAX;
    case TUTTI_PRODUCT:
        return NCCL_PROD;
    }
    return NCCL_SUM;
}

static bool selects(tutti_reduce_op op)
{
    return op == TUTTI_MIN || op == TUTTI_MAX;
}

/* Floats only; integers are averaged as they come back. */
static void set_scales(const struct op_batch *batch, struct gpu_form *form)
{
    form->divisor = batch->op == TUTTI_AVERAGE ? batch->divisor : 1;
    if (!dtype_is_float(form->dtype)) {
        return;
    }
    form->before = batch->prescale;
    form->after = batch->postscale;
    if (form->wire == TUTTI_FLOAT16 && nccl_op_of(batch->op) == NCCL_SUM) {
        /* A sum beyond 65504 would be lost, even if its average is not. */
        form->before = batch->prescale * batch->postscale / form->divisor;
        form->after = 1.0;
        form->divisor = 1;
    }
}

/* Would be rounded more than once if it travelled as it is. */
static bool is_rounded_between(const struct op_batch *batch)
{
    return !selects(batch->op) || (batch->prescale != 1.0 && batch->postscale != 1.0);
}

/* As the table above says. */
static tutti_dtype wire_of(const struct op_batch *batch, bool half_in_float)
{
    const bool averages = batch->op == TUTTI_AVERAGE;

    switch (batch->dtype) {
    case TUTTI_INT16:
        return averages ? TUTTI_INT64 : TUTTI_INT32;
    case TUTTI_UINT16:
        return averages ? TUTTI_UINT64 : TUTTI_UINT32;
    case TUTTI_INT8:
    case TUTTI_INT32:
        return averages ? TUTTI_INT64 : batch->dtype;
    case TUTTI_UINT8:
    case TUTTI_UINT32:
        return averages ? TUTTI_UINT64 : batch->dtype;
    case TUTTI_BOOL:
        return TUTTI_UINT8;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
        return half_in_float && is_rounded_between(batch) ? TUTTI_FLOAT32
                                                          : batch->dtype;
    case TUTTI_INT64:
    case TUTTI_UINT64:
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        break;
    }
    return batch->dtype;
}

bool gpu_form_of(
        const struct op_batch *batch, bool half_in_float, struct gpu_form *form)
{
    struct gpu_form made = { .dtype = batch->dtype,
        .wire = batch->dtype,
        .op = nccl_op_of(batch->op),
        .before = 1.0,
        .after = 1.0,
        .divisor = 1 };

    if (!op_is_reduction(batch->collective)) {
        made.dtype = TUTTI_UINT8;
        made.wire = TUTTI_UINT8;
        made.nccl = NCCL_UINT8;
        *form = made;
        return true;
    }
    if (batch->dtype == TUTTI_BOOL && !selects(batch->op)) {
        return false;
    }
    made.wire = wire_of(batch, half_in_float);
    made.casts = made.wire != batch->dtype;
    if (!nccl_type(made.wire, &made.nccl)) {
        return false;
    }
    set_scales(batch, &made);
    *form = made;
    return true;
}

bool gpu_form_needs_kernels(const struct gpu_form *form)
{
    return form->casts || form->before != 1.0 || form->after != 1.0 ||
            form->divisor != 1;
}
