/*
 * tutti_alloc() and tutti_free().
 */
#include "api/call.h"
#include "base/mem.h"
#include "core/context.h"

static bool is_same(const void *value, const void *key)
{
    return value == key;
}

static uint64_t address_hash(const void *memory)
{
    return hash_u64(0, (uint64_t)(uintptr_t)memory);
}

tutti_status tutti_alloc(tutti *t, size_t bytes, tutti_memory_kind kind, void **mem)
{
    void *memory;
    bool kept;
    const tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (mem == NULL || kind != TUTTI_HOST) {
        return error_set(TUTTI_ERR_INVALID, "tutti_alloc: %s",
                mem == NULL ? "mem is NULL" : "unknown kind of memory");
    }
    memory = bytes <= PTRDIFF_MAX ? mem_alloc_aligned(size_max(bytes, 1)) : NULL;
    if (memory == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "tutti_alloc: no memory for %zu bytes on rank "
                "%d",
                bytes, t->rank);
    }
    pthread_mutex_lock(&t->lock);
    kept = map_insert(&t->allocations, address_hash(memory), memory);
    pthread_mutex_unlock(&t->lock);
    if (!kept) {
        mem_free(memory);
        return error_set(TUTTI_ERR_NO_MEMORY,
                "tutti_alloc: no memory for %zu bytes on rank "
                "%d",
                bytes, t->rank);
    }
    *mem = memory;
    return TUTTI_OK;
}

tutti_status tutti_free(tutti *t, void *mem)
{
    void *memory;
    const tutti_status status = call_check_context(t);

    if (status != TUTTI_OK || mem == NULL) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    memory = map_find(&t->allocations, address_hash(mem), is_same, mem);
    if (memory != NULL) {
        (void)map_remove(&t->allocations, address_hash(mem), memory);
    }
    pthread_mutex_unlock(&t->lock);
    if (memory == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_free: %p is no memory of tutti_alloc() of rank %d", mem,
                t->rank);
    }
    mem_free(memory);
    return TUTTI_OK;
}
