/*
 * Memory that a context has handed out: tutti_alloc(), and outputs that requests own.
 */
#ifndef TUTTI_RUN_OUTPUT_H
#define TUTTI_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/headroom.h"
#include "ops/op.h"

struct tutti;
struct operation;

/** Where memory is taken from. Zeroed: the heap. Outlives the context. */
struct memory {
    /* Zeroed memory on a boundary of 64 bytes; NULL: none. Any thread. */
    void *(*alloc)(void *user, size_t bytes);
    /* NULL is allowed. Any thread. */
    void (*give_back)(void *user, void *memory);
    /* What tutti_share() and tutti_unshare() say, to be named by them; NULL: nothing to do. */
    tutti_status (*share)(void *user, void *memory, size_t bytes);
    tutti_status (*unshare)(void *user, const void *memory);
    void *user;
};

/** A piece of memory that a context knows. */
struct extent {
    char *memory;
    size_t bytes; /* not 0 */
    enum op_space space; /* of what was handed out; OP_SPACE_COUNT: tutti_share()'s */
};

/** The memory of a context. */
struct outputs {
    struct memory
            memory; /* also for fusion buffers: what data planes reach fastest; fixed */
    struct headroom headroom; /* of it, where it is the heap                          */
    struct extent *extents; /* apart from each other; owned; context's lock */
    size_t extent_count, extent_capacity;
};

/**
 * Zeroed memory of a space, freed by output_free() or with the context; NULL when out of
 * memory. Device memory only where there is a device.
 */
void *output_alloc(struct tutti *t, enum op_space space, size_t bytes);
/**
 * @return TUTTI_OK; TUTTI_ERR_INVALID: it is no memory of output_alloc(), or an operation in
 *         flight uses it
 */
tutti_status output_free(struct tutti *t, void *memory);
/** tutti_share() and tutti_unshare(), of memory that is not NULL. Any thread. */
tutti_status output_share(struct tutti *t, void *memory, size_t bytes);
tutti_status output_unshare(struct tutti *t, const void *memory);
/** Frees everything; the context ends. */
void output_fini(struct tutti *t);

/** Gives an operation that owns its output one of this size; false when out of memory. */
bool output_give(struct tutti *t, struct operation *operation, size_t bytes);

#endif
