/*
 * How the elements of a reduction travel through NCCL: as which type, with which operation,
 * and what tutti's own kernels do to them before and after.
 */
#ifndef TUTTI_OPS_GPU_TYPES_H
#define TUTTI_OPS_GPU_TYPES_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "ops/gpu/nccl.h"
#include "ops/op.h"

/** What happens to the elements of a batch; equal on all ranks. */
struct gpu_form {
    tutti_dtype dtype; /* of the tensors                                        */
    tutti_dtype wire; /* as which they travel                                  */
    nccl_dtype nccl; /* NCCL's name of it                                     */
    nccl_op op; /* NCCL's operation; never ncclAvg, which loses NVLS     */
    double before; /* elements are multiplied by it before they travel      */
    int divisor; /* and divided by it afterwards,                         */
    double after; /* and multiplied by it                                  */
    bool casts; /* a tensor itself is never given to NCCL                */
};

/**
 * The form of a batch of any collective.
 * @param half_in_float  products, sums and averages of float16 and bfloat16 travel as
 *                       float32, and are rounded once
 * @return false: there is none; the batch is not for NCCL
 */
bool gpu_form_of(
        const struct op_batch *batch, bool half_in_float, struct gpu_form *form);

/** True when a kernel must see all elements, before or after. */
bool gpu_form_needs_kernels(const struct gpu_form *form);

#endif
