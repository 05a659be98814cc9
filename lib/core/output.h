/*
 * Memory that a context has handed out: tutti_alloc(), and outputs that requests own.
 */
#ifndef TUTTI_CORE_OUTPUT_H
#define TUTTI_CORE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct tutti;
struct work;

/** Zeroed memory, freed by output_free() or with the context; NULL when out of memory. */
void *output_alloc(struct tutti *t, size_t bytes);
/** False when it is no memory of output_alloc(). NULL is not. */
bool output_free(struct tutti *t, void *memory);
/** Frees everything; the context ends. */
void output_fini(struct tutti *t);

/** Gives a work that owns its output one of this size; false when out of memory. */
bool output_give(struct tutti *t, struct work *work, size_t bytes);

#endif
