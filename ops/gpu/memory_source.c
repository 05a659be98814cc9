/*
 * Where device memory is from: NCCL, which can register its own, or the driver.
 */
#include "ops/gpu/memory.h"

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
