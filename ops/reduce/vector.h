/*
 * Vector kernels: the reductions of scalar.c, several elements at once and in one pass
 * over memory. There is a set of them for each instruction set, all made from
 * vector_body.h.
 *
 * They give the bits of the scalar kernels, except that of several NaNs they may pick
 * another one.
 */
#ifndef TUTTI_OPS_REDUCE_VECTOR_H
#define TUTTI_OPS_REDUCE_VECTOR_H

#include <stddef.h>

#include <tutti/tutti.h>

#include "base/config.h"

/** One call. Pointers as in reduce_tree(). */
struct vector_pass {
    const void *const *inputs; /* n of them */
    void *const *outputs; /* m of them */
    int n, m;
    size_t count; /* elements */
    double prescale, postscale; /* 1 where not wanted and for integers */
    int divisor; /* of AVERAGE, otherwise 1 */
};

/**
 * Reduces the first elements, as many whole vectors as there are; none when the portable
 * kernels do as well.
 * @return how many elements; the outputs of the rest are not touched
 */
typedef size_t (*vector_kernel)(const struct vector_pass *pass);

/** Converts the first elements, as vector_kernel does; all of a vector is read before it is written. */
typedef size_t (*vector_convert)(void *to, const void *from, size_t count);

/** The kernels of an instruction set, for all that reduce_is_supported() accepts. */
struct vector_set {
    enum config_kernels which; /* its name in the configuration */
    vector_kernel kernels[TUTTI_BOOL + 1]
                         [TUTTI_PRODUCT + 1]; /* by dtype and reduction */
    vector_convert narrow[TUTTI_BOOL + 1]; /* float32 to float16 and bfloat16 */
    vector_convert widen[TUTTI_BOOL + 1]; /* and back */
};

/* One file each. */
extern const struct vector_set vector_avx2, vector_avx512, vector_neon;

/** The sets that this build and this processor have, best first, up to a NULL. */
#define VECTOR_SETS_MAX 3
void vector_sets(const struct vector_set *sets[VECTOR_SETS_MAX]);

#endif
