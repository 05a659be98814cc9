/*
 * Which kernels the processor can run.
 */
#include <stdbool.h>
#include <string.h>

#include "kernels.h"

extern const struct kernels kernels_plain;

#if GPT_X86_64
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;

static const struct kernels *const kernels_all[] = {
    &kernels_avx512,
    &kernels_avx2,
    &kernels_plain,
};

static bool kernels_run_here(const struct kernels *kernels)
{
    if (kernels == &kernels_avx512) {
        return __builtin_cpu_supports("avx512f") != 0;
    }
    return kernels == &kernels_plain ||
            (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
}
#else
static const struct kernels *const kernels_all[] = { &kernels_plain };

static bool kernels_run_here(const struct kernels *kernels)
{
    (void)kernels;
    return true;
}
#endif

const struct kernels *kernels_find(const char *name)
{
    bool any = strcmp(name, "auto") == 0;

    for (size_t k = 0; k < sizeof kernels_all / sizeof kernels_all[0]; k++) {
        const struct kernels *kernels = kernels_all[k];

        if ((any || strcmp(name, kernels->name) == 0) && kernels_run_here(kernels)) {
            return kernels;
        }
    }
    return NULL;
}
