/*
 * Layers that need other ranks: batch normalization over the batch of all ranks, and gradients
 * of embeddings, of which a step touches few rows.
 *
 * A call takes part in collectives, so all ranks of the process set make the same calls with
 * the same names in the same order. Data that are wrong on one rank are an error on all.
 */
#ifndef TUTTI_TRAINER_LAYERS_H
#define TUTTI_TRAINER_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/* ----------------------------------------------------- batch normalization */

/** Count, mean, and sum of squared distances from the mean, of some numbers. */
typedef struct tutti_moments {
    double count;
    double mean;
    double m2; /**< variance = m2 / count */
} tutti_moments;

/**
 * Adds the numbers of `other`, by the update of Chan, Golub and LeVeque ("Updating formulae and
 * a pairwise algorithm for computing sample variances", 1979), which keeps small variances of
 * large means. Local.
 */
void tutti_moments_merge(tutti_moments *moments, const tutti_moments *other);

/**
 * A float32 tensor as [outer][channels][inner]. NCHW: {N, C, H * W}; NHWC: {N * H * W, C, 1};
 * the outputs of a connected layer: {N, C, 1}.
 */
typedef struct tutti_batch_shape {
    int64_t outer; /**< 0 or more; may differ between ranks                     */
    int64_t channels; /**< those of tutti_batch_norm_create()                      */
    int64_t inner; /**< 1 or more; may differ between ranks                     */
} tutti_batch_shape;

/** Settings of a normalization. Fill them with tutti_batch_norm_options_default(). */
typedef struct tutti_batch_norm_options {
    size_t size; /**< sizeof(tutti_batch_norm_options) as the caller knew it */
    tutti_process_set process_set; /**< whose batches are one; default TUTTI_WORLD   */
    double epsilon; /**< added to the variance; default 1e-5                     */
    double momentum; /**< share of a batch in the running moments; default 0.1   */
} tutti_batch_norm_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_batch_norm_options_default_sized(
        tutti_batch_norm_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_batch_norm_options_default(options) \
    tutti_batch_norm_options_default_sized((options), sizeof(tutti_batch_norm_options))

/** A layer of batch normalization (Ioffe and Szegedy, 2015) over ranks. Opaque. */
typedef struct tutti_batch_norm tutti_batch_norm;

/**
 * Makes a layer. Collective over the set: the ranks compare name, channels and settings.
 * @param name      1 to 200 bytes, unique among the layers of the set; copied
 * @param channels  1 or more
 * @param options   NULL for the defaults; copied
 * @param[out] bn   destroyed with tutti_batch_norm_destroy(), before tutti_finalize()
 * @return TUTTI_OK; on all ranks TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_MISMATCH (the
 *         setting and both values); on this rank alone TUTTI_ERR_INVALID (no result, no size,
 *         not in the set)
 */
TUTTI_MUST_USE tutti_status tutti_batch_norm_create(tutti *t, const char *name,
        int64_t channels, const tutti_batch_norm_options *options,
        tutti_batch_norm **bn);

/** Releases it; NULL is allowed. No call may be under way. */
void tutti_batch_norm_destroy(tutti_batch_norm *bn);

/**
 * y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, with the mean and variance of each
 * channel over the batches of all ranks, which may have different sizes. Moments are of double
 * precision, merged in the order of the ranks, and the same bits on all ranks. Updates the
 * running moments, the variance with count - 1 as PyTorch does.
 * @param gamma, beta  NULL (1 and 0), or one per channel
 * @param[out] y       as large as x; may be x unless tutti_batch_norm_backward() follows
 * @return TUTTI_OK, TUTTI_ERR_INVALID (on all ranks: a NULL tensor, a shape that is not the
 *         layer's, or no number at all; names the rank), or as tutti_allgather()
 */
TUTTI_MUST_USE tutti_status tutti_batch_norm_forward(tutti_batch_norm *bn,
        const tutti_batch_shape *shape, const float *x, const float *gamma,
        const float *beta, float *y);

/**
 * The gradients of the last forward pass of this layer. Those of gamma and beta are of this
 * rank's batch alone: they are averaged with the other gradients of the model.
 * @param x                  that of the forward pass
 * @param dy                 gradient of y
 * @param[out] dx            gradient of x; may be dy
 * @param[out] dgamma,dbeta  NULL, or one per channel
 * @return as tutti_batch_norm_forward(); TUTTI_ERR_INVALID also without a forward pass
 */
TUTTI_MUST_USE tutti_status tutti_batch_norm_backward(tutti_batch_norm *bn,
        const tutti_batch_shape *shape, const float *x, const float *dy,
        const float *gamma, float *dx, float *dgamma, float *dbeta);

/**
 * The running mean and variance of each channel, for evaluation; the caller may change them,
 * for example when it loads a checkpoint. Valid until the layer is destroyed.
 * @param[out] mean, variance  one double per channel each, at first 0 and 1
 */
void tutti_batch_norm_running(tutti_batch_norm *bn, double **mean, double **variance);

/* -------------------------------------------------------- sparse gradients */

/** Rows of a gradient: ascending distinct indices, and a row for each. */
typedef struct tutti_sparse {
    int64_t count; /**< rows                                     */
    int64_t width; /**< float32 elements of a row                */
    int64_t *indices; /**< of count rows of the table; owned        */
    float *rows; /**< [count][width]; owned                    */
} tutti_sparse;

/** Releases the rows; a zeroed one is allowed. */
void tutti_sparse_free(tutti_sparse *sparse);

/**
 * Turns the gradients of n looked-up rows into a sparse gradient: sorted by index, rows of the
 * same index added in their order. Local.
 * @param ids          n indices of 0 or more, in any order and with repetitions
 * @param gradients    [n][width]
 * @param[out] sparse  released with tutti_sparse_free()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names the index), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status tutti_embedding_gradient(const int64_t *ids,
        const float *gradients, int64_t n, int64_t width, tutti_sparse *sparse);

/**
 * Adds up (or averages) the sparse gradients of all ranks: two allgathers of as many rows as
 * each rank has, after an allreduce of 24 bytes by which all know that these are right. Rows of
 * the same index are added in the order of the ranks, so the bits are the same on all ranks. With
 * an average the sum is divided by the number of ranks, also where only some have the row.
 * @param mine         indices need not be ascending or distinct; 0 rows are allowed
 * @param op           TUTTI_SUM or TUTTI_AVERAGE
 * @param options      NULL, or process_set and step
 * @param[out] merged  released with tutti_sparse_free()
 * @return TUTTI_OK; TUTTI_ERR_INVALID (on all ranks: indices or rows of one of them, which is
 *         named; on this rank alone: no name, no gradient, no width);
 *         TUTTI_ERR_MISMATCH (ranks have different widths or op); TUTTI_ERR_NO_MEMORY; as
 *         tutti_allgather_async()
 */
TUTTI_MUST_USE tutti_status tutti_sparse_reduce(tutti *t, const char *name,
        const tutti_sparse *mine, tutti_reduce_op op, const tutti_options *options,
        tutti_sparse *merged);

/**
 * table[index] -= rate * row, for each row. Local.
 * @param table  [table_rows][width]
 * @return TUTTI_OK; TUTTI_ERR_INVALID if an index is outside of the table: it is named, and the
 *         table is unchanged
 */
TUTTI_MUST_USE tutti_status tutti_sparse_apply(
        const tutti_sparse *sparse, float *table, int64_t table_rows, double rate);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
