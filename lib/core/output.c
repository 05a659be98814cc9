/*
 * Memory that a context has handed out.
 */
#include "core/output.h"

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

void *output_alloc(struct tutti *t, size_t bytes)
{
    void *memory = bytes <= PTRDIFF_MAX
            ? t->memory.alloc(t->memory.user, size_max(bytes, 1))
            : NULL;
    bool kept;

    if (memory == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&t->lock);
    kept = map_insert(&t->allocations, address_hash(memory), memory);
    pthread_mutex_unlock(&t->lock);
    if (!kept) {
        t->memory.give_back(t->memory.user, memory);
        return NULL;
    }
    return memory;
}

bool output_free(struct tutti *t, void *memory)
{
    void *found;

    pthread_mutex_lock(&t->lock);
    found = map_find(&t->allocations, address_hash(memory), is_same, memory);
    if (found != NULL) {
        (void)map_remove(&t->allocations, address_hash(memory), found);
    }
    pthread_mutex_unlock(&t->lock);
    t->memory.give_back(t->memory.user, found);
    return found != NULL;
}

void output_fini(struct tutti *t)
{
    size_t position = 0;
    void *memory;

    while ((memory = map_next(&t->allocations, &position)) != NULL) {
        t->memory.give_back(t->memory.user, memory);
    }
    map_fini(&t->allocations);
}

bool output_give(struct tutti *t, struct work *work, size_t bytes)
{
    work->output = output_alloc(t, bytes);
    return work->output != NULL;
}
