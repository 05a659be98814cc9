/*
 * Memory that a context has handed out: tutti_alloc(), and outputs that requests own.
 */
#ifndef TUTTI_CORE_OUTPUT_H
#define TUTTI_CORE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "ops/op.h"

struct tutti;
struct work;

/**
 * Zeroed memory of a space, freed by output_free() or with the context; NULL when out of
 * memory. Device memory only where there is a device.
 */
void *output_alloc(struct tutti *t, enum op_space space, size_t bytes);
/** False when it is no memory of output_alloc(). NULL is not. */
bool output_free(struct tutti *t, void *memory);
/** Frees everything; the context ends. */
void output_fini(struct tutti *t);

/** Gives a work that owns its output one of this size; false when out of memory. */
bool output_give(struct tutti *t, struct work *work, size_t bytes);

#endif
