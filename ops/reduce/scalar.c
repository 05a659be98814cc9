/*
 * Reductions over the canonical tree with the portable kernels.
 *
 * The elements are cut in blocks that stay in the first-level cache. For each block the
 * operands are visited in order, and a stack holds partial results of ranges of
 * operands, like the ones of a binary counter: after k operands, one entry for each bit
 * set in k, the largest range first.
 *
 *   operands    stack (a-b: result of operands a to b)
 *   0           0
 *   0 1         0-1
 *   0 1 2       0-1  2
 *   0 1 2 3     0-3
 *   0 .. 6      0-3  4-5  6     end: 4-5 with 6, then 0-3 with 4-6
 *
 * Joining what is left from the top down gives the tree in which every range splits at
 * the largest power of two below its length, without recursion, and with as many
 * partial results as the tree is deep.
 *
 * A leaf that needs no conversion is read where it lies, and the last join writes where
 * the result belongs: the float32 sum of two operands is a single pass.
 */
#include "ops/reduce/scalar.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ops/reduce/kernels.h"

/* Entries of the stack: 1 + log2(REDUCE_OPERANDS_MAX). */
#define LEVELS_MAX 21
/* Partial results of a block, all levels together: half of a small first-level cache. */
#define SCRATCH_BYTES ((size_t)16384)
/* Largest block, in accumulators. */
#define BLOCK_BYTES ((size_t)4096)

/** What is constant during one call. */
struct reduction {
    struct reduce_kernels kernels; /* load, divide and store NULL where not needed */
    reduce_combine combine; /* the one of the reduction */
    double prescale, postscale; /* 1 where not wanted */
    int n; /* operands */
    int divisor; /* of the result; 1 where not wanted */
    size_t block_bytes; /* of a partial result */
    char *scratch; /* a partial result for each level of the stack */
};

static const struct reduce_kernels *kernels_find(tutti_dtype dtype, tutti_reduce_op op)
{
    const struct reduce_kernels *kernels = kernels_float(dtype);

    if (!reduce_op_is_valid((int64_t)op) || op == TUTTI_SET_AVERAGE) {
        return NULL;
    }
    if (kernels == NULL) {
        kernels = kernels_integer(dtype, op);
    }
    return kernels != NULL && kernels->combine[op] != NULL ? kernels : NULL;
}

bool scalar_is_supported(tutti_dtype dtype, tutti_reduce_op op)
{
    return kernels_find(dtype, op) != NULL;
}

/** Entries the stack needs for n operands: 1 + the logarithm of n. */
static size_t level_count(int n)
{
    return sizeof(unsigned) * CHAR_BIT - (size_t)__builtin_clz((unsigned)n);
}

static struct reduction reduction_of(const struct reduce_spec *spec, int n)
{
    struct reduction r = {
        .kernels = *kernels_find(spec->dtype, spec->op),
        .prescale = spec->prescale,
        .postscale = spec->postscale,
        .n = n,
        .divisor = spec->op == TUTTI_AVERAGE ? spec->divisor : 1,
    };

    r.combine = r.kernels.combine[spec->op];
    r.block_bytes = size_min(BLOCK_BYTES, SCRATCH_BYTES / level_count(n)) & ~(size_t)63;
    if (r.kernels.scale == NULL) {
        r.prescale = 1;
        r.postscale = 1;
    }
    if (r.divisor == 1) {
        r.kernels.divide = NULL;
    }
    /* One operand as it is: a copy. Only bool has a value to make proper. */
    if (n == 1 && r.divisor == 1 && r.prescale == 1 && r.postscale == 1 &&
            spec->dtype != TUTTI_BOOL) {
        r.kernels.load = NULL;
        r.kernels.store = NULL;
    }
    return r;
}

static char *level_buffer(const struct reduction *r, int level)
{
    return r->scratch + (size_t)level * r->block_bytes;
}

/** An operand as accumulators: where it lies, or converted in the buffer. */
static const void *load_operand(
        const struct reduction *r, const void *operand, void *buffer, size_t count)
{
    if (r->kernels.load != NULL) {
        r->kernels.load(buffer, operand, count);
        operand = buffer;
    }
    if (r->prescale != 1) {
        r->kernels.scale(buffer, operand, r->prescale, count);
        operand = buffer;
    }
    return operand;
}

/**
 * Joins the operands of a block.
 * @param target  where the last join writes
 * @return the result: target, or with one operand wherever that is
 */
static const void *join_operands(const struct reduction *r, const void *const *inputs,
        size_t offset, void *target, size_t count)
{
    const void *stack[LEVELS_MAX] = { NULL };
    int depth = 0;

    for (int k = 0; k < r->n; k++) {
        bool last = k == r->n - 1;
        const char *operand = (const char *)inputs[k] + offset;

        stack[depth] = load_operand(r, operand, level_buffer(r, depth), count);
        depth++;
        /* Join ranges of equal length: the carries of counting. The last joins all. */
        for (int joins = last ? depth - 1 : __builtin_ctz(~(unsigned)k); joins > 0;
                joins--) {
            void *out = last && joins == 1 ? target : level_buffer(r, depth - 2);

            r->combine(out, stack[depth - 2], stack[depth - 1], count);
            depth--;
            stack[depth - 1] = out;
        }
    }
    return stack[0];
}

/** Reduces one block to the first output. All inputs are read before it is written. */
static void reduce_block(const struct reduction *r, const void *const *inputs,
        size_t offset, void *output, size_t count)
{
    void *target = r->kernels.store == NULL ? output : level_buffer(r, 0);
    const void *result = join_operands(r, inputs, offset, target, count);

    if (r->kernels.divide != NULL) {
        r->kernels.divide(target, result, r->divisor, count);
        result = target;
    }
    if (r->postscale != 1) {
        r->kernels.scale(target, result, r->postscale, count);
        result = target;
    }
    if (r->kernels.store != NULL) {
        r->kernels.store(output, result, count);
    } else if (result != output) {
        memcpy(output, result, count * r->kernels.element_bytes);
    }
}

/** Copies a block of the first output to the others, while it is in the cache. */
static void copy_block(void *const *outputs, int m, size_t offset, size_t bytes)
{
    const char *from = (const char *)outputs[0] + offset;

    for (int j = 1; j < m; j++) {
        char *to = (char *)outputs[j] + offset;

        if (to != from) {
            memcpy(to, from, bytes);
        }
    }
}

/** Cuts the elements from `first` on in blocks. */
static void reduce_blocks(const struct reduce_spec *spec, const void *const *inputs,
        int n, void *const *outputs, int m, size_t first, size_t count)
{
    _Alignas(64) char scratch[SCRATCH_BYTES];
    struct reduction r = reduction_of(spec, n);
    size_t block = r.block_bytes / r.kernels.accumulator_bytes;

    r.scratch = scratch;
    for (; first < count; first += block) {
        size_t some = size_min(block, count - first);
        size_t offset = first * r.kernels.element_bytes;

        reduce_block(&r, inputs, offset, (char *)outputs[0] + offset, some);
        copy_block(outputs, m, offset, some * r.kernels.element_bytes);
    }
}

/** True when elements are combined as they are, without another pass over them. */
static bool is_plain(
        const struct reduce_spec *spec, const struct reduce_kernels *kernels)
{
    return kernels->load == NULL && kernels->store == NULL && spec->prescale == 1 &&
            spec->postscale == 1 && (spec->op != TUTTI_AVERAGE || spec->divisor == 1);
}

void scalar_tree(const struct reduce_spec *spec, const void *const *inputs, int n,
        void *const *outputs, int m, size_t first, size_t count)
{
    const struct reduce_kernels *kernels = kernels_find(spec->dtype, spec->op);
    const size_t offset = first * kernels->element_bytes;

    /* Small sums of two ranks: all else costs more than they do. */
    if (n == 2 && m == 1 && is_plain(spec, kernels)) {
        kernels->combine[spec->op]((char *)outputs[0] + offset,
                (const char *)inputs[0] + offset, (const char *)inputs[1] + offset,
                count - first);
    } else {
        reduce_blocks(spec, inputs, n, outputs, m, first, count);
    }
}
