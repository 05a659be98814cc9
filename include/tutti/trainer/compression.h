/*
 * Reductions that send less than the gradient, and others than a mean: one hook for all.
 *
 * A compressor is a small state machine for each parameter. In each stage it asks for one
 * collective, and it is called again when that is finished, until the gradient holds the
 * result. tutti's own and the caller's use the same hook.
 */
#ifndef TUTTI_TRAINER_COMPRESSION_H
#define TUTTI_TRAINER_COMPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tutti/trainer/state.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/** The collective that a compressor asks for. */
typedef struct tutti_exchange {
    tutti_collective
            collective; /**< TUTTI_ALLREDUCE, TUTTI_ALLGATHER or TUTTI_ALLTOALL       */
    const void *input; /**< lent until the next stage                              */
    void *output; /**< likewise; may equal input for an allreduce             */
    int64_t count; /**< elements, or rows of this rank. Rows need not be equal  */
    int64_t row_count; /**< elements of a row; 1 for an allreduce                   */
    const int64_t *rows_of; /**< allgather: rows of each rank, or NULL if all are equal.
                                 alltoall: rows for each rank, or NULL likewise      */
    const int64_t
            *recv_rows; /**< alltoall: rows from each rank, with rows_of; else NULL */
    tutti_dtype dtype;
    tutti_reduce_op op; /**< of an allreduce                                         */
    double error_squared; /**< set by the compressor if known: the squared 2-norm of
                               the part that it dropped on this rank             */
    double norm_squared; /**< likewise, of its input                                 */
} tutti_exchange;

/** Description of a parameter for a compressor. */
typedef struct tutti_compressor_info {
    size_t size; /**< sizeof(tutti_compressor_info)                          */
    tutti *t; /**< for tutti_alloc(): buffers there are exchanged faster     */
    const char *name; /**< of the parameter; lent as long as the state            */
    int64_t count; /**< elements                                               */
    int ndim; /**< 1 or more                                              */
    const int64_t *dims; /**< shape; lent as long as the state                       */
    int ranks; /**< of the process set                                     */
    int rank; /**< this rank in it                                        */
    const void *settings; /**< tutti_compressor.settings                              */
    bool finds_overflow; /**< undo() may be called                                   */
} tutti_compressor_info;

/** A way to reduce float32 gradients in host memory. */
typedef struct tutti_compressor {
    size_t size; /**< sizeof(tutti_compressor)                               */
    const char *name; /**< for messages                                            */
    const void *settings; /**< passed to open(); the compressor's own                 */

    /** Makes the state for one parameter. Any error is that of tutti_reducer_create(). */
    tutti_status (*open)(const tutti_compressor_info *info, void **state);

    /**
     * Runs a stage. Stage 0 sees this rank's gradient; later stages see the output of
     * what the stage before asked for. Called by one thread at a time; must not wait.
     * @param gradient  in: what was marked ready, unchanged until the last stage writes the
     *                  mean over the ranks to it
     * @param[out] next zeroed; what to exchange
     * @return TUTTI_AGAIN: `next` is filled, go on with stage + 1 afterwards; TUTTI_OK:
     *         gradient holds the result; else an error, with tutti_set_last_error()
     */
    tutti_status (*stage)(
            void *state, int stage, float *gradient, tutti_exchange *next);

    /** Frees a state. */
    void (*close)(void *state);

    /**
     * The tensors of a state that a resumed job continues with; NULL: there are none. Names
     * and dims are lent as long as the state. The data may be read and written between steps.
     * @param tensors  room for n; NULL if n is 0
     * @return how many there are, always the same for a state; those beyond n are not written
     */
    size_t (*tensors)(void *state, tutti_state_tensor *tensors, size_t n);

    /**
     * The step that has just ended overflowed, in this gradient or in another: it counts as not
     * done, and the state becomes what it was before stage 0. NULL: nothing is kept from step to
     * step.
     */
    void (*undo)(void *state);
} tutti_compressor;

/** Settings of tutti's compressors. Fill them with tutti_compression_settings_default(). */
typedef struct tutti_compression_settings {
    size_t size; /**< sizeof(tutti_compression_settings) as the caller knew it */
    double ratio; /**< top-k: share of the elements that each rank sends, above 0 and
                       at most 1; default 0.01                                */
    int rank; /**< PowerSGD: of the approximation, 1 to 64; default 4         */
    int64_t smallest; /**< parameters with fewer elements are averaged uncompressed: their
                           time is latency. Default 1024. float16 and bfloat16 ignore it */
    bool feedback; /**< error feedback: the part that a step drops is added to the next. Costs
                        one float32 per element. Default true; Adasum drops nothing     */
} tutti_compression_settings;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_compression_settings_default_sized(
        tutti_compression_settings *settings, size_t size);

/** Fills settings with the defaults and their size. */
#define tutti_compression_settings_default(settings) \
    tutti_compression_settings_default_sized( \
            (settings), sizeof(tutti_compression_settings))

/*
 * tutti's compressors, with the default settings, never freed. Other settings:
 *
 *     tutti_compressor top_k = tutti_compressor_with(tutti_compress_top_k(), &settings);
 *
 * All give the same bits on all ranks. The dropped part of a gradient is kept in a residual and
 * added to the next gradient (error feedback). If a gradient of any rank has NaN or infinity,
 * or leaves the range of float16, so has the result, on all ranks, and its residual is not
 * changed. With options.find_overflow, clip_norm or a loss scale the step is discarded: all
 * residuals are restored, and take twice the memory. A single rank has
 * nothing to send, and its gradient is not changed.
 */

/** No compression: for a parameter that is to be averaged exactly. */
const tutti_compressor *tutti_compress_none(void);

/** float16: half the bytes. Values above 65504 become infinity: scale the loss. */
const tutti_compressor *tutti_compress_fp16(void);

/** bfloat16: half the bytes, the range of float32. */
const tutti_compressor *tutti_compress_bf16(void);

/**
 * The largest elements of each rank, by magnitude, with their indices (Stich et al. 2018,
 * "Sparsified SGD with Memory", algorithm 1; Lin et al. 2018, "Deep Gradient Compression",
 * without its momentum correction). Each rank receives 8 bytes per element sent by each rank.
 */
const tutti_compressor *tutti_compress_top_k(void);

/**
 * PowerSGD (Vogels et al. 2019, algorithms 1 and 2): a parameter of shape (n, ...) is a matrix
 * of n rows, approximated by the product of two thin ones, which start from those of the step
 * before. Vectors, and matrices that would not get smaller, are averaged uncompressed.
 */
const tutti_compressor *tutti_compress_power_sgd(void);

/**
 * One bit per element: its sign, times the mean magnitude (EF-SignSGD, Karimireddy et al.
 * 2019, algorithm 1; Seide et al. 2014). Each rank receives one bit per element from each.
 */
const tutti_compressor *tutti_compress_sign(void);

/**
 * Adasum instead of a mean (Maleki et al. 2020, arXiv 2006.02924, section 3): two gradients
 * are added without their common component,
 *   (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b,
 * along a binary tree over the ranks: a range of ranks is split at the largest power of two
 * below its length. Orthogonal gradients are summed; equal ones are averaged. The learning
 * rate is that of a single rank. Sends as much as a mean.
 */
const tutti_compressor *tutti_compress_adasum(void);

/**
 * A compressor with other settings. It must live as long as the reducers that use it.
 * @param base      one of those above
 * @param settings  borrowed until tutti_reducer_create() has returned, which refuses bad ones
 */
static inline tutti_compressor tutti_compressor_with(
        const tutti_compressor *base, const tutti_compression_settings *settings)
{
    tutti_compressor compressor;
    size_t known = base->size < sizeof compressor ? base->size : sizeof compressor;

    memset(&compressor, 0, sizeof compressor);
    memcpy(&compressor, base, known);
    compressor.size = known;
    compressor.settings = settings;
    return compressor;
}

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
