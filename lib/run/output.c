/*
 * Memory that tutti has allocated for callers.
 */
#include "run/output.h"

#include "base/mem.h"
#include "run/context.h"

static bool is_same(const void *value, const void *key)
{
    return value == key;
}

static uint64_t address_hash(const void *memory)
{
    return hash_u64(0, (uint64_t)(uintptr_t)memory);
}

/* Where memory of a space comes from and goes to. */
static struct memory memory_of(const struct tutti *t, enum op_space space)
{
    if (space == OP_HOST) {
        return t->outputs.memory;
    }
    return (struct memory){ .alloc = t->device.alloc,
        .give_back = t->device.give_back,
        .user = t->device.state };
}

void *output_alloc(struct tutti *t, enum op_space space, size_t bytes)
{
    const struct memory from = memory_of(t, space);
    void *memory =
            bytes <= PTRDIFF_MAX ? from.alloc(from.user, size_max(bytes, 1)) : NULL;
    bool kept;

    if (memory == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&t->lock);
    kept = map_insert(&t->outputs.allocations[space], address_hash(memory), memory);
    pthread_mutex_unlock(&t->lock);
    if (!kept) {
        from.give_back(from.user, memory);
        return NULL;
    }
    return memory;
}

static bool free_in(struct tutti *t, enum op_space space, void *memory)
{
    struct map *map = &t->outputs.allocations[space];
    const struct memory from = memory_of(t, space);
    void *found;

    pthread_mutex_lock(&t->lock);
    found = map_find(map, address_hash(memory), is_same, memory);
    if (found != NULL) {
        (void)map_remove(map, address_hash(memory), found);
    }
    pthread_mutex_unlock(&t->lock);
    if (found != NULL) {
        from.give_back(from.user, found);
    }
    return found != NULL;
}

bool output_free(struct tutti *t, void *memory)
{
    return free_in(t, OP_HOST, memory) || free_in(t, OP_DEVICE, memory);
}

static void free_all(struct tutti *t, enum op_space space)
{
    const struct memory from = memory_of(t, space);
    size_t position = 0;
    void *memory;

    while ((memory = map_next(&t->outputs.allocations[space], &position)) != NULL) {
        from.give_back(from.user, memory);
    }
    map_fini(&t->outputs.allocations[space]);
}

void output_fini(struct tutti *t)
{
    free_all(t, OP_HOST);
    free_all(t, OP_DEVICE);
}

bool output_give(struct tutti *t, struct operation *operation, size_t bytes)
{
    operation->output = output_alloc(t, operation->request.meta.space, bytes);
    return operation->output != NULL;
}
