/*
 * What the product has handles of: a handle is the address of an object, which stays when it is
 * dropped, so that a handle that is used too long is found.
 */
#include <stdlib.h>

#include "test/gpusim/state.h"

static struct object *newest; /* of all that were ever made */
static size_t live[OBJECT_KINDS];

void object_add(enum object_kind kind, struct object *object)
{
    *object = (struct object){ .next = newest, .kind = kind };
    newest = object;
    live[kind]++;
}

void *object_new(enum object_kind kind, size_t bytes)
{
    struct object *object = calloc(1, bytes);

    object_add(kind, object);
    return object;
}

int object_find(enum object_kind kind, const void *handle)
{
    const struct object *object = handle;

    if (object != NULL && object->kind == kind && !object->dropped) {
        return CUDA_SUCCESS;
    }
    if (kind == STREAM || kind == EVENT) {
        gpusim_report("%s was used that was destroyed or never made",
                kind == STREAM ? "a stream" : "an event");
    }
    return kind == CONTEXT ? CUDA_INVALID_CONTEXT
            : kind == GRAPH || kind == EXEC || kind == USER_OBJECT
            ? CUDA_INVALID_VALUE
            : CUDA_INVALID_HANDLE;
}

void object_drop(void *handle)
{
    struct object *object = handle;

    object->dropped = true;
    live[object->kind]--;
}

size_t object_live(enum object_kind kind)
{
    return live[kind];
}
