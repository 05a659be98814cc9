/*
 * Processors, or compilers, for which there are no vector kernels.
 */
#include "ops/reduce/vector.h"

void vector_sets(const struct vector_set *sets[VECTOR_SETS_MAX])
{
    sets[0] = NULL;
}
