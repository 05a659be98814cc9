/*
 * The reducer: averages the gradients of a model over the ranks.
 *
 * The parameters are registered once. In each step the backward pass marks each gradient
 * ready, from any thread and in any order, and its reduction starts at once; one wait ends
 * the step. The reducer numbers the steps and gives the number to every operation, so a
 * gradient that a rank left out is an error and is never paired with one of another step.
 *
 *     tutti_reducer_create(t, params, n, NULL, &reducer);
 *     each step:
 *         for (i = n; i-- > 0;) {
 *             backward(i, tutti_reducer_gradient(reducer, i));
 *             tutti_reducer_ready(reducer, i);
 *         }
 *         tutti_reducer_wait(reducer, NULL);
 *         update();
 */
#ifndef TUTTI_TRAINER_REDUCER_H
#define TUTTI_TRAINER_REDUCER_H

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

struct tutti_compressor;
struct tutti_state_tensor;

/** A tensor that is trained. Zero it, then fill it. */
typedef struct tutti_param {
    const char *name; /**< 1 to 200 bytes, unique in its reducer; copied            */
    void *value; /**< the parameter, borrowed. NULL if nothing of the trainer's layer
                      shall update or store it                                   */
    void *gradient; /**< borrowed. NULL: the reducer allocates it where it is reduced
                         with the fewest copies; see tutti_reducer_gradient()    */
    int64_t count; /**< elements; more than 0                                      */
    tutti_dtype dtype; /**< of value and gradient: float16, bfloat16, float32 or
                            float64                                              */
    int ndim; /**< dimensions in dims; 0: one, of count elements             */
    const int64_t *dims; /**< shape, compared across ranks; copied               */
    const struct tutti_compressor *compressor; /**< NULL: that of the reducer; borrowed
                                                    until the reducer is destroyed */
} tutti_param;

/** Settings of a reducer. Fill them with tutti_reducer_options_default(). */
typedef struct tutti_reducer_options {
    size_t size; /**< sizeof(tutti_reducer_options) as the caller knew it   */
    tutti_process_set
            process_set; /**< whose ranks share the work; default TUTTI_WORLD    */
    const char *prefix; /**< in front of all names, so that two reducers may live side
                             by side; default "gradient"                         */
    tutti_memory_kind
            memory; /**< of gradients that the reducer allocates; default host  */
    tutti_reduce_op op; /**< TUTTI_AVERAGE (default) or TUTTI_SUM                    */
    int accumulate; /**< backward passes per step, each of which marks every
                         gradient; only the last one communicates. The caller adds up the
                         gradients in place; an average is also over the passes.
                         Default 1                                               */
    bool unused; /**< true: a step may leave gradients out; the ranks agree on
                      which, and a rank that left one out counts as zero. A gradient that
                      all ranks left out is zeroed. Costs one small allreduce per step.
                      Default false: a gradient left out is an error             */
    bool uneven; /**< true: ranks may run out of data and call
                      tutti_reducer_join(). Default false                        */
    double clip_norm; /**< gradients are scaled down to this global 2-norm; 0 (default):
                           not                                                   */
    double clip_value; /**< elements are clamped to [-clip_value, clip_value] before the norm
                            is taken, and after the overflow is looked for; 0 (default): not */
    bool find_overflow; /**< look for NaN and infinity; default false, true with a loss
                             scale                                               */
    double loss_scale; /**< first value of a dynamic loss scale: the caller multiplies the
                            loss by tutti_reducer_loss_scale(); it is halved after
                            an overflow and doubled after 2000 steps without one. 0
                            (default): none                                      */
    int shards; /**< V > 0: the batch is V virtual shards and sums follow one tree over
                     their numbers, so the bits do not depend on the number of ranks
                     (docs/trainer/any-width.md). 0 (default): off               */
    int64_t first_step; /**< number of the first step, for a resumed job; default 0     */
    const struct tutti_compressor
            *compressor; /**< for all parameters without one of their
                                                    own; default NULL: none      */
    int verify_results; /**< n > 0: after one step in n the ranks compare what must have the
                             same bits on all of them: the gradients or, with an optimizer,
                             the parameters (docs/integrity.md). 0: never. Default -1:
                             TUTTI_VERIFY_RESULTS, or 0; never in device memory  */
} tutti_reducer_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_reducer_options_default_sized(tutti_reducer_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_reducer_options_default(options) \
    tutti_reducer_options_default_sized((options), sizeof(tutti_reducer_options))

/** What a step came to; equal on all ranks except for the times and bytes. */
typedef struct tutti_step_report {
    size_t size; /**< sizeof(tutti_step_report), set by the caller           */
    int64_t step; /**< its number                                              */
    double norm; /**< global 2-norm of the gradients before clipping; 0 unless
                      clip_norm or find_overflow is set                          */
    double clip_scale; /**< 1, or the factor that clipping applied                  */
    bool overflow; /**< a gradient has NaN or infinity: nothing was updated       */
    const char *
            overflow_name; /**< the first such parameter; NULL: none. Lent until the reducer
                                    is destroyed                                 */
    double loss_scale; /**< that the step used; 1 without one                      */
    int unused; /**< gradients that all ranks left out                          */
    int64_t gradient_bytes; /**< of all gradients                                       */
    int64_t sent_bytes; /**< of what the collectives were given: less with
                             compression                                         */
    double compression_error; /**< 2-norm of what compression left out on this rank, divided
                                   by that of the gradients; 0 without compression */
    int64_t wait_ns; /**< this thread's time in the wait                          */
} tutti_step_report;

/** A reducer. Opaque. */
typedef struct tutti_reducer tutti_reducer;

/**
 * Registers parameters. Collective over the set, one such call at a time: the ranks compare
 * names, shapes, types and settings, those of tutti's compressors as well.
 * @param params        n parameters in the order of the forward pass; copied, their memory
 *                      borrowed
 * @param n             1 or more
 * @param options       NULL for the defaults
 * @param[out] reducer  destroyed with tutti_reducer_destroy(), before tutti_finalize()
 * @return TUTTI_OK; on all ranks TUTTI_ERR_INVALID (names the parameter and the value),
 *         TUTTI_ERR_UNSUPPORTED (a type; settings that exclude each other, or need host memory),
 *         TUTTI_ERR_DUPLICATE (a name is registered already), TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_MISMATCH (ranks differ: names the setting, two ranks and both values); on this
 *         rank alone TUTTI_ERR_INVALID (no result, no size, not in the set)
 */
TUTTI_MUST_USE tutti_status tutti_reducer_create(tutti *t, const tutti_param *params,
        size_t n, const tutti_reducer_options *options, tutti_reducer **reducer);

/**
 * Frees a reducer and the gradients that it allocated. No step may be under way: wait first.
 * With a callback, a step in which a mark has returned TUTTI_ERR_CONTEXT_FAILED is over when
 * nothing of it is in flight any more: try again. NULL is allowed.
 * @return TUTTI_OK; TUTTI_ERR_INVALID if gradients are marked and not waited for, or an optimizer
 *         takes them: nothing has changed
 */
tutti_status tutti_reducer_destroy(tutti_reducer *reducer);

/** The gradient of parameter i: the caller's memory, or the reducer's; NULL if i is no
 *  parameter. The address never changes. */
void *tutti_reducer_gradient(tutti_reducer *reducer, size_t i);

/** The index of a parameter by its name; the number of parameters if there is none. */
size_t tutti_reducer_find(const tutti_reducer *reducer, const char *name);

/**
 * Marks the gradient of parameter i as complete. With its last mark of the step its reduction
 * starts; the gradient is lent to tutti until the step has ended. Any thread; threads may
 * mark different parameters at the same time. Does not wait.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no such parameter; marked more often than
 *         options.accumulate in this step; the step is being waited for), and the statuses of
 *         tutti_submit(): of those a TUTTI_ERR_DUPLICATE may be repeated, with the gradient as it is
 */
TUTTI_MUST_USE tutti_status tutti_reducer_ready(tutti_reducer *reducer, size_t i);

/** tutti_reducer_ready() for a gradient in device memory that work on `stream` writes. */
TUTTI_MUST_USE tutti_status tutti_reducer_ready_on(
        tutti_reducer *reducer, size_t i, tutti_stream stream);

/**
 * Averages a number over the ranks with the gradients of this step: a loss or a metric. The
 * result is there when the step has been waited for.
 * @param name   the same on all ranks, once per step; copied
 * @param value  read now, written by the wait unless the step fails; lent until then
 * @return TUTTI_OK, TUTTI_ERR_DUPLICATE (the name is in this step already),
 *         TUTTI_ERR_INVALID, TUTTI_ERR_NO_MEMORY, and the statuses of tutti_submit()
 */
TUTTI_MUST_USE tutti_status tutti_reducer_average(
        tutti_reducer *reducer, const char *name, double *value);

/**
 * Ends the step: waits until all gradients are averaged, clips them and gives them back. One
 * thread at a time. Every gradient must be marked (unless options.unused); otherwise the call
 * is refused, nothing has changed, and the missing gradients can still be marked. In a failed
 * context the wait ends the step with that error, so that the reducer can be destroyed.
 * @param[in,out] report  NULL, or report->size set
 * @return TUTTI_OK (also with an overflow: see the report), TUTTI_ERR_INVALID (a gradient is
 *         missing: the message names it and the step), TUTTI_ERR_MISMATCH (ranks differ in a
 *         gradient or in the step; with options.verify_results also in their results: the
 *         message names the ranks and the parameter), and the statuses of tutti_wait(). After another error than
 *         TUTTI_ERR_INVALID the step has ended and its gradients are undefined
 */
TUTTI_MUST_USE tutti_status tutti_reducer_wait(
        tutti_reducer *reducer, tutti_step_report *report);

/**
 * Ends the step of gradients in device memory: work put on `stream` afterwards sees the
 * averages. The host does not wait for the GPU.
 * @return as tutti_reducer_wait(); TUTTI_ERR_UNSUPPORTED if settings need the values on the
 *         host
 */
TUTTI_MUST_USE tutti_status tutti_reducer_wait_stream(
        tutti_reducer *reducer, tutti_stream stream, tutti_step_report *report);

/**
 * Ends every following step by a callback instead of a wait: it is called when all gradients
 * of a step are averaged, on the thread that runs the engine. It may mark gradients of the
 * next step, and must not wait. To be called between steps. NULL: waits again.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a step is under way), TUTTI_ERR_UNSUPPORTED (with
 *         `unused`, or an optimizer)
 */
TUTTI_MUST_USE tutti_status tutti_reducer_set_callback(
        tutti_reducer *reducer, tutti_callback callback, void *user);

/**
 * The report of the last step that has ended, as the wait gives it, without its time: for steps
 * that end with a callback, inside it or before the next step ends.
 * @param[in,out] report  report->size set
 * @return TUTTI_OK; TUTTI_ERR_INVALID (NULL, no size, or no step has ended)
 */
TUTTI_MUST_USE tutti_status tutti_reducer_report(
        const tutti_reducer *reducer, tutti_step_report *report);

/**
 * Declares that this rank has no more data, with options.uneven. Returns when all ranks have
 * joined; meanwhile the others average without this rank. All then have the step and the loss
 * scale of the rank that joined last, and with an optimizer its parameters and their state. Without
 * one the parameters are the caller's: broadcast them (tutti_broadcast_state()). No step may be
 * under way.
 * @param[out] last  NULL, or the rank in the set that joined last, the same on all ranks
 * @return as tutti_join() and tutti_broadcast_state(); TUTTI_ERR_INVALID without
 *         options.uneven, or in a step
 */
TUTTI_MUST_USE tutti_status tutti_reducer_join(tutti_reducer *reducer, int *last);

/**
 * What the reducer carries from step to step, to be saved with the parameters: the loss scale,
 * residuals of compressors, one row for each rank, so that they fit a resumed job of as many ranks
 * only, and the bases of PowerSGD. To be read and written between steps. A job that does not
 * load them begins with the first loss scale, and loses once what the residuals held.
 * @param tensors  room for n; NULL if n is 0. Lent until the reducer is destroyed
 * @return how many there are, always the same; those beyond n are not written
 */
size_t tutti_reducer_tensors(
        tutti_reducer *reducer, struct tutti_state_tensor *tensors, size_t n);

/** The number of the current step. */
int64_t tutti_reducer_step(const tutti_reducer *reducer);

/** By what the caller multiplies the loss of this step; 1 without a loss scale. */
double tutti_reducer_loss_scale(const tutti_reducer *reducer);

/**
 * The virtual shards of this rank with options.shards: numbers first to first + count - 1.
 * For each the caller runs the backward pass and marks every gradient, in ascending order. A
 * gradient that is marked is taken and zeroed at once, so the next shard may add to it; the
 * last mark lends it as always, and after the wait it is the average. count may differ
 * between ranks, and is 0 on ranks beyond the number of shards, which mark nothing.
 */
void tutti_reducer_shards(const tutti_reducer *reducer, int *first, int *count);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
