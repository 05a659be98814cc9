/*
 * The vector kernels of 64-bit ARM processors.
 */
#include <asm/hwcap.h>
#include <stdbool.h>
#include <sys/auxv.h>

#include "ops/reduce/vector.h"

static bool has_neon(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
}

void vector_sets(const struct vector_set *sets[VECTOR_SETS_MAX])
{
    sets[0] = has_neon() ? &vector_neon : NULL;
    sets[1] = NULL;
}
