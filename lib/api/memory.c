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
            "memory cgroups have %llu MiB left for all ranks here (see also ulimit -v)",
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

/* Names the call, the memory and the rank in what went wrong. */
static tutti_status named(
        tutti_status status, const char *call, const void *memory, int rank)
{
    return status == TUTTI_OK ? status
                              : error_set(status, "%s: %p of rank %d: %s", call, memory,
                                        rank, tutti_last_error());
}

tutti_status tutti_free(tutti *t, void *mem)
{
    const tutti_status status = call_check_context(t);

    return status != TUTTI_OK || mem == NULL
            ? status
            : named(output_free(t, mem), "tutti_free", mem, t->rank);
}

tutti_status tutti_share(tutti *t, void *ptr, size_t bytes)
{
    const tutti_status status = call_check_context(t);

    if (status != TUTTI_OK || bytes == 0) {
        return status;
    }
    if (ptr == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "tutti_share: ptr is NULL (rank %d)", t->rank);
    }
    return named(output_share(t, ptr, bytes), "tutti_share", ptr, t->rank);
}

tutti_status tutti_unshare(tutti *t, void *ptr)
{
    const tutti_status status = call_check_context(t);

    return status != TUTTI_OK || ptr == NULL
            ? status
            : named(output_unshare(t, ptr), "tutti_unshare", ptr, t->rank);
}
