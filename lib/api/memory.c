/*
 * tutti_alloc() and tutti_free().
 */
#include "api/call.h"
#include "base/headroom.h"
#include "run/context.h"
#include "run/output.h"

static tutti_status no_memory(const tutti *t, size_t bytes, tutti_memory_kind kind)
{
    if (kind == TUTTI_DEVICE) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "tutti_alloc: no device memory for %zu bytes on rank %d", bytes,
                t->rank);
    }
    return error_set(TUTTI_ERR_NO_MEMORY,
            "tutti_alloc: no host memory for %zu bytes on rank %d; the host and its "
            "memory cgroups have %llu MiB left for all ranks here",
            bytes, t->rank, (unsigned long long)(memory_room("").left >> 20));
}

tutti_status tutti_alloc(tutti *t, size_t bytes, tutti_memory_kind kind, void **mem)
{
    void *memory;
    const tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (mem == NULL || (kind != TUTTI_HOST && kind != TUTTI_DEVICE)) {
        return error_set(TUTTI_ERR_INVALID, "tutti_alloc: %s",
                mem == NULL ? "mem is NULL" : "unknown kind of memory");
    }
    if (kind == TUTTI_DEVICE && t->device.state == NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "tutti_alloc: rank %d has no GPU, so there is no device memory; its "
                "log "
                "says why, and so does tutti-info",
                t->rank);
    }
    memory = output_alloc(t, kind == TUTTI_DEVICE ? OP_DEVICE : OP_HOST, bytes);
    if (memory == NULL) {
        return no_memory(t, bytes, kind);
    }
    *mem = memory;
    return TUTTI_OK;
}

tutti_status tutti_free(tutti *t, void *mem)
{
    const tutti_status status = call_check_context(t);

    if (status != TUTTI_OK || mem == NULL || output_free(t, mem)) {
        return status;
    }
    return error_set(TUTTI_ERR_INVALID,
            "tutti_free: %p is no memory of tutti_alloc() or of a request of rank %d",
            mem, t->rank);
}
