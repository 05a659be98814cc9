/*
 * The vector kernels of x86-64 processors.
 */
#include <cpuid.h>
#include <stdbool.h>

#include "ops/reduce/vector.h"

/* The compiler's builtins also ask whether the operating system saves the registers. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;

    return __builtin_cpu_supports("avx2") != 0 && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
            (c & bit_F16C) != 0;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") != 0 &&
            __builtin_cpu_supports("avx512bw") != 0 &&
            __builtin_cpu_supports("avx512dq") != 0 &&
            __builtin_cpu_supports("avx512vl") != 0;
}

void vector_sets(const struct vector_set *sets[VECTOR_SETS_MAX])
{
    size_t count = 0;

    if (has_avx512()) {
        sets[count++] = &vector_avx512;
    }
    if (has_avx2()) {
        sets[count++] = &vector_avx2;
    }
    sets[count] = NULL;
}
