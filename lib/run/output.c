/*
 * Memory that tutti has allocated for callers, or shares with them. None of it is given back while
 * an operation in flight uses it.
 */
#include "run/output.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "run/context.h"

/* The first extent that begins at an address or behind it; the count where there is none. */
static size_t find_place(const struct extents *extents, const void *memory)
{
    size_t low = 0;
    size_t high = extents->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if ((uintptr_t)extents->items[middle].memory < (uintptr_t)memory) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct extent *find(const struct extents *extents, const void *memory)
{
    const size_t at = find_place(extents, memory);

    return at < extents->count && extents->items[at].memory == memory
            ? &extents->items[at]
            : NULL;
}

static bool add(struct extents *extents, const struct extent *extent)
{
    const size_t at = find_place(extents, extent->memory);

    if (!mem_grow(&extents->items, &extents->capacity, extents->count + 1,
                sizeof *extents->items)) {
        return false;
    }
    memmove(&extents->items[at + 1], &extents->items[at],
            (extents->count - at) * sizeof *extents->items);
    extents->items[at] = *extent;
    extents->count++;
    return true;
}

static void take_out(struct extents *extents, struct extent *extent)
{
    extents->count--;
    memmove(extent, extent + 1,
            (size_t)(&extents->items[extents->count] - extent) * sizeof *extent);
}

/* Lock held. Refuses what has been lent to operations in flight. */
static tutti_status check_idle(const struct tutti *t, const struct extent *extent)
{
    uint32_t position = 0;
    const struct operation *operation;
    char text[OPERATION_TEXT];

    do {
        operation = operation_next(&t->operations, &position);
        if (operation == NULL) {
            return TUTTI_OK;
        }
    } while (!operation_uses(operation, extent->memory, extent->bytes));
    if (operation_is_issued(operation)) { /* its name may be forgotten */
        (void)snprintf(text, sizeof text, "%s",
                meta_collective_name(operation->request.collective));
    } else {
        operation_text(operation, text, sizeof text);
    }
    return error_set(TUTTI_ERR_INVALID,
            "%s, which is in flight, uses it; wait for that first", text);
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
    const struct extent extent = { .memory = bytes <= PTRDIFF_MAX
                ? from.alloc(from.user, size_max(bytes, 1))
                : NULL,
        .bytes = bytes };
    bool kept;

    if (extent.memory == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&t->lock);
    kept = add(&t->outputs.allocations[space], &extent);
    pthread_mutex_unlock(&t->lock);
    if (!kept) {
        from.give_back(from.user, extent.memory);
        return NULL;
    }
    return extent.memory;
}

tutti_status output_free(struct tutti *t, void *memory)
{
    enum op_space space = OP_HOST;
    struct extent *extent;
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    extent = find(&t->outputs.allocations[OP_HOST], memory);
    if (extent == NULL) {
        space = OP_DEVICE;
        extent = find(&t->outputs.allocations[OP_DEVICE], memory);
    }
    status = extent != NULL
            ? check_idle(t, extent)
            : error_set(TUTTI_ERR_INVALID,
                      "it is no memory of tutti_alloc() or of a request");
    if (status == TUTTI_OK) {
        take_out(&t->outputs.allocations[space], extent);
    }
    pthread_mutex_unlock(&t->lock);
    if (status == TUTTI_OK) {
        const struct memory from = memory_of(t, space);

        from.give_back(from.user, memory);
    }
    return status;
}

/* Lock held. */
static tutti_status add_shared(struct tutti *t, const struct extent *extent)
{
    struct extents *shared = &t->outputs.shared;
    const size_t at = find_place(shared, extent->memory);
    const struct extent *next = at < shared->count ? &shared->items[at] : NULL;
    const struct extent *before = at > 0 ? &shared->items[at - 1] : NULL;

    if ((uintptr_t)extent->memory + extent->bytes < extent->bytes) {
        return error_set(TUTTI_ERR_INVALID, "it goes beyond the last address");
    }
    if (before != NULL && before->memory + before->bytes > extent->memory) {
        next = before;
    }
    if (next != NULL && next->memory < extent->memory + extent->bytes) {
        return error_set(TUTTI_ERR_INVALID,
                "%zu bytes from %p on are shared already; tutti_unshare() them first",
                next->bytes, (void *)next->memory);
    }
    if (!add(shared, extent)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for one more extent");
    }
    return TUTTI_OK;
}

static void forget_shared(struct tutti *t, const void *memory)
{
    pthread_mutex_lock(&t->lock);
    take_out(&t->outputs.shared, find(&t->outputs.shared, memory));
    pthread_mutex_unlock(&t->lock);
}

tutti_status output_share(struct tutti *t, void *memory, size_t bytes)
{
    const struct memory *with = &t->outputs.memory;
    const struct extent extent = { .memory = memory, .bytes = bytes };
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    status = check_idle(t, &extent);
    if (status == TUTTI_OK) {
        status = add_shared(t, &extent);
    }
    pthread_mutex_unlock(&t->lock);
    if (status == TUTTI_OK && with->share != NULL) {
        status = with->share(with->user, memory, bytes);
        if (status != TUTTI_OK) {
            forget_shared(t, memory);
        }
    }
    return status;
}

tutti_status output_unshare(struct tutti *t, const void *memory)
{
    const struct memory *with = &t->outputs.memory;
    const struct extent *extent;
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    extent = find(&t->outputs.shared, memory);
    status = extent != NULL
            ? check_idle(t, extent)
            : error_set(TUTTI_ERR_INVALID, "no shared memory begins there");
    pthread_mutex_unlock(&t->lock);
    if (status != TUTTI_OK) {
        return status;
    }
    if (with->unshare != NULL) {
        status = with->unshare(with->user, memory);
    }
    /* Invalid: it was freed or moved, and what is left is shared no more. */
    if (status == TUTTI_OK || status == TUTTI_ERR_INVALID) {
        forget_shared(t, memory);
    }
    return status;
}

static void free_all(struct tutti *t, enum op_space space)
{
    const struct memory from = memory_of(t, space);
    struct extents *extents = &t->outputs.allocations[space];

    for (size_t i = 0; i < extents->count; i++) {
        from.give_back(from.user, extents->items[i].memory);
    }
    mem_free(extents->items);
}

void output_fini(struct tutti *t)
{
    free_all(t, OP_HOST);
    free_all(t, OP_DEVICE);
    mem_free(t->outputs.shared.items);
}

bool output_give(struct tutti *t, struct operation *operation, size_t bytes)
{
    operation->output = output_alloc(t, operation->request.meta.space, bytes);
    return operation->output != NULL;
}
