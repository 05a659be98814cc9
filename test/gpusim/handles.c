/*
 * Handles that the product gets instead of pointers. They carry a kind and a generation, so
 * that any value can be checked, and following one ends in a fault.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

enum {
    INDEX_BITS = 20,
    GENERATION_BITS = 12,
    KIND_SHIFT = 40,
    INDEX_SHIFT = 4,
    GENERATION_SHIFT = INDEX_SHIFT + INDEX_BITS
};

static const uintptr_t handle_mark = (uintptr_t)0x5A << (KIND_SHIFT + 4);

struct slot {
    void *object; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1; 0: none */
};

struct table {
    struct slot *slots;
    uint32_t count;
    uint32_t capacity;
    uint32_t first_free; /* index + 1; 0: none */
    size_t live;
};

static struct table tables[HANDLE_KINDS];

static uint32_t table_slot(struct table *table)
{
    uint32_t index;

    if (table->first_free != 0) {
        index = table->first_free - 1;
        table->first_free = table->slots[index].next_free;
        return index;
    }
    if (table->count == table->capacity) {
        table->capacity = 2 * table->capacity + 16;
        table->slots = realloc(table->slots, table->capacity * sizeof *table->slots);
    }
    table->slots[table->count] = (struct slot){ .object = NULL };
    return table->count++;
}

void *handle_new(enum handle_kind kind, void *object)
{
    struct table *table = &tables[kind];
    uint32_t index = table_slot(table);
    struct slot *slot = &table->slots[index];

    slot->object = object;
    slot->generation = (slot->generation + 1) & ((1U << GENERATION_BITS) - 1);
    table->live++;
    return (void *)(handle_mark | (uintptr_t)kind << KIND_SHIFT |
            (uintptr_t)slot->generation << GENERATION_SHIFT |
            (uintptr_t)index << INDEX_SHIFT);
}

static struct slot *handle_slot(enum handle_kind kind, const void *handle)
{
    uintptr_t value = (uintptr_t)handle;
    uint32_t index = (uint32_t)(value >> INDEX_SHIFT) & ((1U << INDEX_BITS) - 1);
    uint32_t generation =
            (uint32_t)(value >> GENERATION_SHIFT) & ((1U << GENERATION_BITS) - 1);
    struct slot *slot;

    if (value >> KIND_SHIFT != ((handle_mark >> KIND_SHIFT) | (uintptr_t)kind) ||
            (value & ((1U << INDEX_SHIFT) - 1)) != 0 || index >= tables[kind].count) {
        return NULL;
    }
    slot = &tables[kind].slots[index];
    return slot->object != NULL && slot->generation == generation ? slot : NULL;
}

void *handle_find(enum handle_kind kind, const void *handle)
{
    struct slot *slot = handle_slot(kind, handle);

    return slot == NULL ? NULL : slot->object;
}

void handle_drop(enum handle_kind kind, const void *handle)
{
    struct table *table = &tables[kind];
    struct slot *slot = handle_slot(kind, handle);

    if (slot != NULL) {
        slot->object = NULL;
        slot->next_free = table->first_free;
        table->first_free = (uint32_t)(slot - table->slots) + 1;
        table->live--;
    }
}

size_t handle_live(enum handle_kind kind)
{
    return tables[kind].live;
}
