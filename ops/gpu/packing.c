#include "ops/gpu/packing.h"

#include <string.h>

#include "base/mem.h"

/* The kernels that take more parameters may be missing in the image. */
static size_t parameter_bytes(const struct gpu *gpu)
{
    for (int k = 0; k < KERNEL_COUNT; k++) {
        if (kernel_is_optional(k) && gpu->kernels[k] == NULL) {
            return KERNEL_SMALL_BYTES;
        }
    }
    return kernel_parameter_bytes(gpu->cuda->version);
}

void packing_init(
        struct packing *packing, struct gpu *gpu, struct op_device_counts *counts)
{
    const int limit = gpu->config->gpu_pack_sms;

    packing->gpu = gpu;
    packing->counts = counts;
    packing->target = (struct kernel_target){
        .sm_count = limit > 0 && limit < gpu->sm_count ? limit : gpu->sm_count,
        .parameter_bytes = parameter_bytes(gpu),
    };
    memcpy(packing->target.blocks, gpu->kernel_blocks, sizeof packing->target.blocks);
}

static tutti_status launch(struct packing *packing, const struct packing_work *work)
{
    struct gpu *gpu = packing->gpu;
    const bool gathers = work->direction == PACK_GATHER;
    const struct pack_work what = { .direction = work->direction,
        .scale = gathers ? work->form->before : work->form->after,
        .divisor = gathers ? 1 : work->form->divisor };
    const struct kernel_launch how =
            pack_launch(&packing->plan, &what, &packing->target);
    void *parameters[] = { &packing->plan.args };

    if (packing->counts != NULL) {
        (void)atomic_fetch_add_explicit(
                &packing->counts->launches, 1, memory_order_relaxed);
    }
    return gpu_check(gpu,
            gpu->cuda->launch_kernel(gpu->kernels[how.kernel], how.grid, 1, 1,
                    how.threads, 1, 1, 0, work->stream, parameters, NULL),
            gathers ? "launch the packing kernel" : "launch the unpacking kernel");
}

tutti_status packing_run(struct packing *packing, const struct packing_work *work)
{
    const size_t most = pack_pieces_max(&packing->target);
    tutti_status status = TUTTI_OK;

    for (size_t done = 0; done < work->pieces->count && status == TUTTI_OK;) {
        const size_t end = size_min(done + most, work->pieces->count);

        pack_plan_init(&packing->plan, work->form->dtype, work->form->wire);
        for (; done < end; done++) {
            const struct script_piece *piece = &work->pieces->pieces[done];

            pack_plan_add(&packing->plan, piece->tensor, piece->count,
                    piece->packed.at + (piece->packed.in_slab ? work->slab : 0));
        }
        status = launch(packing, work);
    }
    return status;
}
