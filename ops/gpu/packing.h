/*
 * The pieces of a script, moved by kernels: one launch each way for as many pieces as fit in
 * the parameters of a launch.
 */
#ifndef TUTTI_OPS_GPU_PACKING_H
#define TUTTI_OPS_GPU_PACKING_H

#include <tutti/tutti.h>

#include "ops/gpu/gpu.h"
#include "ops/gpu/kernels/kernels.h"
#include "ops/gpu/script.h"
#include "ops/op.h"

/** Of one backend. */
struct packing {
    struct gpu *gpu; /* borrowed */
    struct op_device_counts *counts; /* borrowed; NULL: nobody reads them            */
    struct kernel_target target; /* of packing_init()                            */
    struct pack_plan plan; /* of the launch in work                             */
};

/** What is launched. */
struct packing_work {
    const struct script_pieces *pieces; /* borrowed */
    const struct gpu_form *form; /* borrowed */
    enum pack_direction direction; /* gathers or scatters */
    cu_pointer slab; /* where in_slab is; 0: nowhere                              */
    cu_stream stream; /* of the GPU, or the caller's                          */
};

void packing_init(
        struct packing *packing, struct gpu *gpu, struct op_device_counts *counts);

/** Launches what moves the pieces; none: nothing. The context is current. TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status packing_run(
        struct packing *packing, const struct packing_work *work);

#endif
