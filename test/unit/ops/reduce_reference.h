/*
 * Reductions, slow and by their definition: one element at a time, recursion over the
 * tree, one value type for everything.
 */
#ifndef TUTTI_TEST_UNIT_OPS_REDUCE_REFERENCE_H
#define TUTTI_TEST_UNIT_OPS_REDUCE_REFERENCE_H

#include <stddef.h>

#include "ops/reduce/reduce.h"

/** output[i] = what reduce_tree() must give, but for the bits of a NaN. */
void reduce_reference(const struct reduce_spec *spec, const void *const *inputs, int n,
        void *output, size_t count);

#endif
