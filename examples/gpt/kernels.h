/*
 * The arithmetic of the transformer, compiled once for each kind of vector instructions, with
 * the same bits from all of them:
 *
 *   - A number of a result is computed by one thread, from sums of which the order is written
 *     down here. Lanes of a vector and threads share the results, never the terms of a sum,
 *     except for sums along a row, which always have KERNELS_PARTIALS partial sums.
 *   - A row of a result depends on its row of the input alone, not on how many others there
 *     are; a gradient of weights is a sum over the rows from the first to the last.
 *   - The compiler may not contract a product and a sum (-ffp-contract=off) nor reorder them
 *     (no -ffast-math).
 *   - exp and log are polynomials of our own: the C library's choose among versions by the
 *     processor at run time. Addition, product, quotient and square root are exactly rounded
 *     everywhere.
 */
#ifndef GPT_KERNELS_H
#define GPT_KERNELS_H

#include <stddef.h>

enum {
    KERNELS_PARTIALS = 16 /* partial sums along a row */
};

/** out[r][c] = bias[c] + sum over d, upwards, of a[r][d] * b[d][c]; columns lie side by side. */
struct product {
    size_t rows; /* of a and out */
    size_t columns; /* of b and out */
    size_t depth; /* columns of a, rows of b */
    const float *a;
    size_t a_row; /* numbers from one row of a to the next */
    size_t a_depth; /* and from one column; (1, n) instead of (n, 1) transposes */
    const float *b;
    size_t b_depth; /* numbers from one row of b to the next */
    const float *bias; /* NULL: zeros */
    float *out;
    size_t out_row; /* numbers from one row of out to the next */
};

/** Layer normalisation of `rows` rows of `columns` numbers. */
struct normalisation {
    size_t rows;
    size_t columns;
    const float *scale; /* [columns] */
    const float *shift; /* [columns] */
    float *centred; /* [rows][columns], (in - mean) * inverse; kept for the way back */
    float *inverse; /* [rows], 1 / standard deviation; kept likewise */
};

/** Causal attention of `sequences` sequences with `heads` heads each. */
struct attention {
    size_t sequences;
    size_t positions; /* of a sequence */
    size_t heads;
    size_t width; /* channels of a head */
    const float *qkv; /* [sequences * positions][3][heads][width] */
    float *weights; /* [sequences][heads][positions][positions]; kept for the way back */
    float *scratch; /* [sequences][heads][positions][positions + width] */
};

/** Kernels for one kind of vector instructions. */
struct kernels {
    const char *name; /* as in --kernels */
    void (*multiply)(const struct product *product);
    /** out[column][row] = in[row][column] */
    void (*transpose)(const float *in, size_t rows, size_t columns, float *out);
    /** out[column] = sum over the rows, upwards, of in[row][column] */
    void (*sum_rows)(const float *in, size_t rows, size_t columns, float *out);
    /** out[i] += in[i] */
    void (*add)(const float *in, size_t count, float *out);
    void (*normalise)(const struct normalisation *norm, const float *in, float *out);
    /** d_out is overwritten by the gradient of the input; the others by theirs. */
    void (*normalise_back)(const struct normalisation *norm, float *d_out,
            float *d_scale, float *d_shift);
    void (*attend)(const struct attention *attention, float *out);
    void (*attend_back)(
            const struct attention *attention, const float *d_out, float *d_qkv);
    /** GELU, by its approximation with tanh. */
    void (*gelu)(const float *in, size_t count, float *out);
    /** d[i] *= the derivative at in[i] */
    void (*gelu_back)(const float *in, size_t count, float *d);
    /**
     * Turns each row of logits into the gradient of `scale` times its loss.
     * @param[out] losses  [rows], in nats, multiples of 2^-24: sums of them are exact in
     *                     double, so equal in any order
     */
    void (*entropy)(float *logits, const int *targets, size_t rows, size_t columns,
            float scale, double *losses);
};

/** Kernels by name, "auto": the widest that the processor has. NULL: none, or not here. */
const struct kernels *kernels_find(const char *name);

#endif
