/*
 * Memory for tensors: given out, or the caller's made like it.
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
    tutti_status status = call_check_context(t);

    if (status == TUTTI_OK && mem != NULL) {
        status = output_free(t, mem);
        if (status != TUTTI_OK) {
            return error_set(status, "tutti_free: %p of rank %d: %s", mem, t->rank,
                    tutti_last_error());
        }
    }
    return status;
}

tutti_status tutti_share(tutti *t, void *ptr, size_t bytes)
{
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (ptr == NULL && bytes > 0) {
        return error_set(
                TUTTI_ERR_INVALID, "tutti_share: ptr is NULL (rank %d)", t->rank);
    }
    if (bytes > 0) {
        status = output_share(t, ptr, bytes);
    }
    return status == TUTTI_OK
            ? status
            : error_set(status, "tutti_share: %zu bytes at %p of rank %d: %s", bytes,
                      ptr, t->rank, tutti_last_error());
}

tutti_status tutti_unshare(tutti *t, void *ptr)
{
    tutti_status status = call_check_context(t);

    if (status == TUTTI_OK && ptr != NULL) {
        status = output_unshare(t, ptr);
        if (status != TUTTI_OK) {
            return error_set(status, "tutti_unshare: %p of rank %d: %s", ptr, t->rank,
                    tutti_last_error());
        }
    }
    return status;
}
