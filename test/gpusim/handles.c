/*
 * Handles that the product gets instead of pointers: numbers that are given out once, so that any
 * value can be checked, and following one ends in a fault.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

enum {
    HANDLE_STEP = 16
};

static const uintptr_t handle_mark = (uintptr_t)0x5A << 40;

/* By the number of the handle. */
static struct {
    struct slot {
        void *object;
        enum handle_kind kind;
        bool dropped;
    } * slots;
    size_t count, capacity;
    size_t live[HANDLE_KINDS];
} handles;

void *handle_new(enum handle_kind kind, void *object)
{
    if (handles.count == handles.capacity) {
        handles.capacity = 2 * handles.capacity + 64;
        handles.slots =
                realloc(handles.slots, handles.capacity * sizeof *handles.slots);
    }
    handles.slots[handles.count] = (struct slot){ .object = object, .kind = kind };
    handles.live[kind]++;
    return (void *)(handle_mark + HANDLE_STEP * handles.count++);
}

static struct slot *handle_slot(enum handle_kind kind, const void *handle)
{
    const uintptr_t offset = (uintptr_t)handle - handle_mark;
    const uintptr_t number = offset / HANDLE_STEP;

    return offset % HANDLE_STEP == 0 && number < handles.count &&
                    handles.slots[number].kind == kind && !handles.slots[number].dropped
            ? &handles.slots[number]
            : NULL;
}

void *handle_find(enum handle_kind kind, const void *handle)
{
    const struct slot *slot = handle_slot(kind, handle);

    return slot == NULL ? NULL : slot->object;
}

void handle_set(enum handle_kind kind, const void *handle, void *object)
{
    handle_slot(kind, handle)->object = object;
}

void handle_drop(enum handle_kind kind, const void *handle)
{
    struct slot *slot = handle_slot(kind, handle);

    if (slot != NULL) {
        slot->dropped = true;
        handles.live[kind]--;
    }
}

size_t handle_live(enum handle_kind kind)
{
    return handles.live[kind];
}
