/*
 * Packing, slow and by its definition: one element.
 */
#ifndef TUTTI_TEST_UNIT_GPU_PACK_REFERENCE_H
#define TUTTI_TEST_UNIT_GPU_PACK_REFERENCE_H

#include <stdbool.h>

#include <tutti/tutti.h>

/** What happens to an element between two places. */
struct pack_step {
    tutti_dtype from, to;
    double scale; /* of floats */
    int divisor;
    bool is_bool; /* any value but 0 becomes 1 */
};

/** *to = cast(*from / divisor * scale); at any alignment. */
void pack_reference(const struct pack_step *step, const void *from, void *to);

/** True when two elements have the same bits or are both a NaN. */
bool pack_same(tutti_dtype dtype, const void *a, const void *b);

#endif
