/*
 * Where device memory is from: NCCL, which can register its own, or the driver.
 */
#include "ops/gpu/memory.h"

bool gpu_registers(const struct gpu *gpu, const struct op_set *set)
{
    return gpu->config->gpu_register && set->index == TUTTI_WORLD && gpu->has_kernels &&
            gpu->nccl != NULL && gpu->nccl->comm_register != NULL &&
            gpu->nccl->comm_deregister != NULL && gpu->nccl->mem_alloc != NULL &&
            gpu->nccl->mem_free != NULL;
}

tutti_status memory_grab(struct gpu *gpu, size_t bytes, struct gpu_stretch *stretch)
{
    const struct nccl_api *nccl = gpu->nccl;
    cu_pointer pointer = 0;
    void *address = NULL;
    tutti_status status;

    if (nccl != NULL && nccl->mem_alloc != NULL && nccl->mem_free != NULL &&
            nccl->mem_alloc(&address, bytes) == NCCL_SUCCESS) {
        *stretch = (struct gpu_stretch){
            .base = memory_pointer(address), .bytes = bytes, .of_nccl = true
        };
        return TUTTI_OK;
    }
    status = gpu_check(
            gpu, gpu->cuda->mem_alloc(&pointer, bytes), "allocate device memory");
    if (status == TUTTI_OK) {
        *stretch = (struct gpu_stretch){ .base = pointer, .bytes = bytes };
    }
    return status;
}

void memory_drop(const struct gpu *gpu, const struct gpu_stretch *stretch)
{
    if (stretch->of_nccl) {
        (void)gpu->nccl->mem_free(memory_address(stretch->base));
    } else {
        (void)gpu->cuda->mem_free(stretch->base);
    }
}
