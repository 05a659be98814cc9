/*
 * Memory that tutti has allocated for callers, or shares with them. None of it is given back while
 * an operation in flight uses it.
 */
#include "run/output.h"

#include <stdio.h>

#include "agree/meta.h"
#include "base/error.h"
#include "base/mem.h"
#include "run/context.h"
#include "run/operation.h"

/* Lock held. An extent that has some of a range, or NULL. */
static struct extent *find_any(
        const struct outputs *outputs, const char *memory, size_t bytes)
{
    for (size_t i = 0; i < outputs->extent_count; i++) {
        struct extent *extent = &outputs->extents[i];

        if (extent->memory < memory + bytes &&
                memory < extent->memory + extent->bytes) {
            return extent;
        }
    }
    return NULL;
}

/* Lock held. Refuses what has been lent to operations in flight. */
static tutti_status check_idle(const struct tutti *t, const struct extent *extent)
{
    uint32_t position = 0;
    const struct operation *operation;
    char text[OPERATION_TEXT];

    do {
        operation = operation_next(&t->work.operations, &position);
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

static tutti_status put_in(struct tutti *t, const struct extent *extent)
{
    struct outputs *outputs = &t->outputs;
    const struct extent *other;
    tutti_status status = TUTTI_OK;

    pthread_mutex_lock(&t->lock);
    other = find_any(outputs, extent->memory, extent->bytes);
    if (other != NULL) {
        status = error_set(TUTTI_ERR_INVALID,
                "%zu bytes from %p on are shared already; tutti_unshare() them first",
                other->bytes, (void *)other->memory);
    } else if (extent->space == OP_SPACE_COUNT) { /* else it is new */
        status = check_idle(t, extent);
    }
    if (status == TUTTI_OK &&
            !mem_grow(&outputs->extents, &outputs->extent_capacity,
                    outputs->extent_count + 1, sizeof *extent)) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for one more range");
    }
    if (status == TUTTI_OK) {
        outputs->extents[outputs->extent_count++] = *extent;
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* Unless it is in use. */
static tutti_status take_out(
        struct tutti *t, const char *memory, bool is_shared, struct extent *taken)
{
    struct outputs *outputs = &t->outputs;
    struct extent *place;
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    place = find_any(outputs, memory, 1);
    if (place == NULL || place->memory != memory ||
            (place->space == OP_SPACE_COUNT) != is_shared) {
        status = error_set(TUTTI_ERR_INVALID, "%s",
                is_shared ? "no shared memory begins there"
                          : "it is no memory of tutti_alloc() or of a request");
    } else {
        status = check_idle(t, place);
    }
    if (status == TUTTI_OK) {
        *taken = *place;
        *place = outputs->extents[--outputs->extent_count];
    }
    pthread_mutex_unlock(&t->lock);
    return status;
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
    struct extent extent = { .bytes = size_max(bytes, 1), .space = space };

    extent.memory = bytes <= PTRDIFF_MAX ? from.alloc(from.user, extent.bytes) : NULL;
    if (extent.memory != NULL && put_in(t, &extent) != TUTTI_OK) {
        from.give_back(from.user, extent.memory);
        return NULL;
    }
    return extent.memory;
}

tutti_status output_free(struct tutti *t, void *memory)
{
    struct extent extent;
    const tutti_status status = take_out(t, memory, false, &extent);

    if (status == TUTTI_OK) {
        const struct memory to = memory_of(t, extent.space);

        to.give_back(to.user, memory);
    }
    return status;
}

tutti_status output_share(struct tutti *t, void *memory, size_t bytes)
{
    const struct memory *with = &t->outputs.memory;
    struct extent extent = {
        .memory = memory, .bytes = bytes, .space = OP_SPACE_COUNT
    };
    tutti_status status = put_in(t, &extent);

    if (status == TUTTI_OK && with->share != NULL) {
        status = with->share(with->user, memory, bytes);
        if (status != TUTTI_OK) {
            (void)!take_out(t, memory, true, &extent);
        }
    }
    return status;
}

tutti_status output_unshare(struct tutti *t, const void *memory)
{
    const struct memory *with = &t->outputs.memory;
    struct extent extent;
    tutti_status status = take_out(t, memory, true, &extent);

    if (status == TUTTI_OK && with->unshare != NULL) {
        status = with->unshare(with->user, memory);
        /* Invalid: it was freed or moved, and what is left is shared no more. */
        if (status != TUTTI_OK && status != TUTTI_ERR_INVALID) {
            (void)!put_in(t, &extent); /* there is room */
        }
    }
    return status;
}

void output_fini(struct tutti *t)
{
    for (size_t i = 0; i < t->outputs.extent_count; i++) {
        const struct extent *extent = &t->outputs.extents[i];
        const struct memory to = memory_of(t, extent->space);

        if (extent->space != OP_SPACE_COUNT) {
            to.give_back(to.user, extent->memory);
        }
    }
    mem_free(t->outputs.extents);
}

bool output_give(struct tutti *t, struct operation *operation, size_t bytes)
{
    operation->memory.output = output_alloc(t, operation->request.meta.space, bytes);
    return operation->memory.output != NULL;
}
