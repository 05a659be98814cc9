/*
 * The portable kernels: what every reduction means, on any processor.
 */
#ifndef TUTTI_OPS_REDUCE_SCALAR_H
#define TUTTI_OPS_REDUCE_SCALAR_H

#include "ops/reduce/reduce.h"

/** As reduce_is_supported(). */
bool scalar_is_supported(tutti_dtype dtype, tutti_reduce_op op);

/** As reduce_tree(), for the elements from `first` on. */
void scalar_tree(const struct reduce_spec *spec, const void *const *inputs, int n,
        void *const *outputs, int m, size_t first, size_t count);

#endif
