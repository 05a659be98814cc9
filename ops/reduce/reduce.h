/*
 * Element kernels: reductions over the canonical tree.
 *
 * The tree is over the index of the operand: a range of operands splits at the largest
 * power of two below its length. Each element is reduced by itself, so chunking, fusion
 * and SIMD width do not change a bit.
 *
 * float16 and bfloat16 are reduced in float32 and rounded once, to nearest even. Scale
 * factors apply in float32 to these and to float32, in float64 to float64. AVERAGE is
 * (sum / divisor) * postscale in the same precision. NaN and infinity propagate; which of
 * several NaN is not specified. NaN wins in MIN and MAX, and -0 is below +0.
 *
 * Integer sums and products wrap. Integer AVERAGE is the sum in 64 bits, which wraps
 * too, divided by the divisor, truncated toward zero. MIN and MAX of bool are
 * AND and OR; any byte but 0 is true and the result is 0 or 1.
 */
#ifndef TUTTI_OPS_REDUCE_REDUCE_H
#define TUTTI_OPS_REDUCE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "base/shared.h"
#include "ops/op.h"

/** What is reduced, and how. */
struct reduce_spec {
    tutti_dtype dtype;
    tutti_reduce_op op;
    int divisor; /* of AVERAGE, at least 1: the number of operands, or of all of which
                    the operands are partial sums                                     */
    double prescale; /* each operand is multiplied by it first; 1 for integers   */
    double postscale; /* the result is multiplied by it before rounding; likewise */
};

/** How the elements of a batch are reduced. */
static inline struct reduce_spec reduce_spec_of(const struct op_batch *batch)
{
    return (struct reduce_spec){ .dtype = batch->dtype,
        .op = batch->op,
        .divisor = batch->divisor,
        .prescale = batch->prescale,
        .postscale = batch->postscale };
}

/** True when (dtype, op) can be reduced at all; the scales are not looked at. */
bool reduce_is_supported(tutti_dtype dtype, tutti_reduce_op op);

/** Most operands of one call. */
#define REDUCE_OPERANDS_MAX (1 << 20)

/**
 * outputs[j][i] = reduction over k of inputs[k][i], for all j. Pure; any thread.
 * An output may be the same pointer as an input; other overlap is not allowed. Pointers
 * need only the alignment of one byte.
 * @param inputs   n pointers to count elements, n >= 1
 * @param outputs  m pointers to count elements, m >= 1; all get the same bits
 */
void reduce_tree(const struct reduce_spec *spec, const void *const *inputs, int n,
        void *const *outputs, int m, size_t count) TUTTI_SHARED(reduce_tree);

/** Begins to count the time of reductions by reduce_tree(), if somebody asks; then ends. */
int64_t reduce_clock(const struct op_env *env);
void reduce_count(const struct op_env *env, int64_t begin_ns);

/**
 * Rounds float32 to float16 or bfloat16, to nearest even: a NaN stays one, and what float16
 * cannot hold becomes infinite. Pure; any thread; any alignment; no overlap.
 */
void reduce_narrow(tutti_dtype to, void *out, const void *in, size_t count);
/**
 * The reverse, exact but that a signalling NaN may become quiet. `in` may be the last
 * 2 * count bytes of `out`; other overlap is not allowed.
 */
void reduce_widen(tutti_dtype from, void *out, const void *in, size_t count);

/**
 * Chooses the instructions for all calls of this process from now on; results do not
 * depend on it. CONFIG_KERNELS_AUTO, which is where a process starts, means the widest
 * vectors that the processor has. Any thread.
 * @return TUTTI_OK, or TUTTI_ERR_CONFIG when the processor does not have them, or this
 *         build has no kernels for them; then the choice stays as it was
 */
tutti_status reduce_use(enum config_kernels which);
/** The instructions that are used; never CONFIG_KERNELS_AUTO. Any thread. */
enum config_kernels reduce_in_use(void);
/** True when reduce_use() would accept them. Any thread. */
bool reduce_has(enum config_kernels which);

#endif
