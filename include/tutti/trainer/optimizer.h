/*
 * Optimizers that own the step: they take the averaged gradients from the reducer and update the
 * parameters, each as soon as its gradient is averaged, while others are still in flight.
 *
 *     tutti_optimizer_options_default(&options);
 *     options.kind = TUTTI_OPTIMIZER_ADAMW;
 *     options.learning_rate = 3e-4;
 *     options.sharded = true;
 *     tutti_optimizer_create(reducer, &options, &optimizer);
 *     each step:
 *         tutti_reducer_ready(reducer, i);         for every gradient
 *         tutti_optimizer_step(optimizer, NULL);   in place of tutti_reducer_wait()
 *     tutti_optimizer_destroy(optimizer);          before the reducer
 *
 * With options.sharded each rank keeps the optimizer's state of its part of each parameter
 * alone, updates that part, and the parts are gathered: stage 1 of ZeRO (Rajbhandari et al.
 * 2020, arXiv:1910.02054, section 5.1). The values after a step have the same bits either way,
 * except with LAMB.
 *
 * Arithmetic is in float32, for float64 parameters in float64. Parameters of float16 and
 * bfloat16 have a float32 copy in the optimizer, the master; the value is the master rounded
 * to nearest even. A value that the caller changes between steps takes the place of its
 * master.
 */
#ifndef TUTTI_TRAINER_OPTIMIZER_H
#define TUTTI_TRAINER_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/reducer.h>
#include <tutti/trainer/state.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/* --------------------------------------------------------------- optimizers */

/**
 * How a parameter w with the gradient g is updated in its step t = 1, 2, ...; r is the learning
 * rate, d the weight decay. All but LAMB are PyTorch's optimizers of the same name.
 */
typedef enum tutti_optimizer_kind {
    /** g += d w; b = momentum b + g; w -= r b, or with Nesterov's momentum r (g + momentum b) */
    TUTTI_OPTIMIZER_SGD = 0,
    /** Kingma and Ba 2015, algorithm 1, with the decay in the gradient: g += d w;
        m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g^2;
        w -= r m' / (sqrt(v') + epsilon), m' = m / (1 - beta1^t), v' = v / (1 - beta2^t) */
    TUTTI_OPTIMIZER_ADAM = 1,
    /** Loshchilov and Hutter 2019, algorithm 2: w -= r d w first, then as Adam without decay */
    TUTTI_OPTIMIZER_ADAMW = 2,
    /** You et al. 2020, algorithm 2: u = m' / (sqrt(v') + epsilon) + d w;
        w -= r u |w| / |u|, norms over the whole parameter; if one is 0, w -= r u */
    TUTTI_OPTIMIZER_LAMB = 3,
    /** options.update does it */
    TUTTI_OPTIMIZER_CUSTOM = 4
} tutti_optimizer_kind;

/** Elements that a custom update is to change. */
typedef struct tutti_update {
    size_t size; /**< sizeof(tutti_update)                                    */
    const char *name; /**< of the parameter                                        */
    size_t param; /**< its index                                               */
    int64_t first; /**< the elements are first to first + count - 1 of it       */
    int64_t count; /**< 0 on a rank whose part is empty                         */
    tutti_dtype dtype; /**< of value and gradient                                   */
    void *value; /**< element `first`; to be updated in place                 */
    const void
            *gradient; /**< element `first` of the average                          */
    double gradient_scale; /**< factor for the gradient: clipping, loss scale           */
    void *state; /**< options.state_bytes for each of the elements, zero before the
                          first step; NULL if state_bytes is 0                     */
    double learning_rate; /**< of this step                                            */
    int64_t step; /**< updates of this parameter, including this one           */
} tutti_update;

/**
 * Updates elements of a parameter, in the call that ends the step, on its thread. If the
 * optimizer is sharded, the new value of an element may depend only on its own gradient, value
 * and state. Must not wait and must not submit.
 */
typedef void (*tutti_update_callback)(void *user, const tutti_update *update);

/** Settings of an optimizer. Fill them with tutti_optimizer_options_default(). */
typedef struct tutti_optimizer_options {
    size_t size; /**< sizeof(tutti_optimizer_options) as the caller knew it   */
    tutti_optimizer_kind
            kind; /**< default TUTTI_OPTIMIZER_ADAMW                           */
    double learning_rate; /**< 0 or more; default 1e-3                                 */
    double momentum; /**< of SGD: 0 (default) or more                             */
    bool nesterov; /**< of SGD, with a momentum; default false                  */
    double beta1; /**< 0 or more and below 1; default 0.9                      */
    double beta2; /**< 0 or more and below 1; default 0.999                    */
    double epsilon; /**< 0 or more; default 1e-8                                 */
    double weight_decay; /**< 0 or more; default 0 (PyTorch's AdamW has 0.01)         */
    bool sharded; /**< keep only the state of this rank's part; default false  */
    const char
            *prefix; /**< of the names of the state's tensors, up to 40 bytes, copied;
                             default "optimizer"                                  */
    tutti_update_callback
            update; /**< of TUTTI_OPTIMIZER_CUSTOM                               */
    void *user; /**< passed to it                                            */
    size_t state_bytes; /**< of a custom update, for each element, up to 64; default 0 */
} tutti_optimizer_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_optimizer_options_default_sized(
        tutti_optimizer_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_optimizer_options_default(options) \
    tutti_optimizer_options_default_sized((options), sizeof(tutti_optimizer_options))

/** An optimizer. Opaque. */
typedef struct tutti_optimizer tutti_optimizer;

/**
 * Gives the gradients of a reducer to an optimizer. Collective over the reducer's process set: the
 * ranks compare their settings, and if one rank cannot create its optimizer, none does. All
 * parameters of the reducer must have values, in host memory; memory of tutti_alloc() is gathered
 * with the fewest copies. Logs the memory of the state at info level.
 * @param reducer         between two steps; borrowed until the optimizer is destroyed. Its steps
 *                        can then end with tutti_optimizer_step() only
 * @param options         NULL for the defaults
 * @param[out] optimizer  destroyed with tutti_optimizer_destroy()
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names the option and its value; a parameter without a
 *         value; a step is under way; the reducer has an optimizer or a callback; or another
 *         rank failed), TUTTI_ERR_UNSUPPORTED (device memory; sharded with uneven data; sharded
 *         LAMB with reducer_options.shards, whose bits would depend on the number of ranks),
 *         TUTTI_ERR_MISMATCH (ranks differ in a setting: the text names it),
 *         TUTTI_ERR_NO_MEMORY, TUTTI_ERR_CONTEXT_FAILED
 */
TUTTI_MUST_USE tutti_status tutti_optimizer_create(tutti_reducer *reducer,
        const tutti_optimizer_options *options, tutti_optimizer **optimizer);

/**
 * Frees an optimizer and its state, and gives the gradients of later steps to the caller again. A
 * local call. NULL is allowed.
 * @return TUTTI_OK; TUTTI_ERR_INVALID if a step is under way: nothing has changed
 */
tutti_status tutti_optimizer_destroy(tutti_optimizer *optimizer);

/**
 * Ends the step in place of tutti_reducer_wait(): waits for the gradients, updates the parameters,
 * and returns when all values are there. In a step with an overflow (report->overflow) nothing
 * is updated, and no step is counted. A parameter whose gradient all ranks left out
 * (reducer_options.unused) is not updated.
 * @param[in,out] report  NULL, or report->size set
 * @return as tutti_reducer_wait(). After another error than TUTTI_ERR_INVALID the step has ended,
 *         and some parameters may have been updated: load a checkpoint
 */
TUTTI_MUST_USE tutti_status tutti_optimizer_step(
        tutti_optimizer *optimizer, tutti_step_report *report);

/**
 * Sets the learning rate of the following steps, between steps. All ranks must set the same one.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (negative or not finite: nothing has changed)
 */
TUTTI_MUST_USE tutti_status tutti_optimizer_set_learning_rate(
        tutti_optimizer *optimizer, double learning_rate);

/** The learning rate of the next step. */
double tutti_optimizer_learning_rate(const tutti_optimizer *optimizer);

/**
 * The state, as tensors to be saved, loaded and broadcast between steps. Their memory is the
 * optimizer's own: values written there are used in the next step. Names and order depend only on
 * the parameters and the kind; with options.sharded a rank has its part of each tensor
 * (tutti_part() of the elements), so that a checkpoint can be read at any number of ranks, sharded
 * or not.
 *
 *     optimizer.step               int64, for each parameter: how often it was updated
 *     optimizer.NAME.moment1       the momentum of SGD, m of the others
 *     optimizer.NAME.moment2       v
 *     optimizer.NAME.master        of float16 and bfloat16
 *     optimizer.NAME.state         of a custom update: bytes, [elements, state_bytes]
 *
 * @param[out] tensors  NULL to ask for the number, or room for `capacity` tensors; lent until the
 *                      optimizer is destroyed
 * @param[out] count    number of tensors; also written if the capacity is too small
 * @return TUTTI_OK, TUTTI_ERR_INVALID (count is NULL, or the capacity is too small)
 */
TUTTI_MUST_USE tutti_status tutti_optimizer_state(const tutti_optimizer *optimizer,
        tutti_state_tensor *tensors, size_t capacity, size_t *count);

/**
 * Bytes of the state on this rank, and those of the whole state. Either pointer may be NULL.
 */
void tutti_optimizer_memory(
        const tutti_optimizer *optimizer, int64_t *here, int64_t *replicated);

/* ------------------------------------------------------------ learning rates */

/** How the learning rate goes on after the warm-up. */
typedef enum tutti_schedule_kind {
    TUTTI_SCHEDULE_CONSTANT =
            0, /**< learning_rate                                     */
    TUTTI_SCHEDULE_STEP =
            1, /**< times `factor` every `period` steps after the warm-up */
    TUTTI_SCHEDULE_COSINE = 2, /**< half a cosine down to final_rate at `steps`
                                    (Loshchilov and Hutter 2017, equation 5)          */
    TUTTI_SCHEDULE_LINEAR = 3 /**< a straight line down to final_rate at `steps`      */
} tutti_schedule_kind;

/** A learning rate for each step. Zero it, then fill it. */
typedef struct tutti_schedule {
    tutti_schedule_kind kind;
    double learning_rate; /**< after the warm-up                                       */
    double final_rate; /**< cosine and linear: from step `steps` on                 */
    int64_t steps; /**< cosine and linear: length, warm-up included             */
    int64_t warmup; /**< steps in which the rate grows evenly; 0: none           */
    double warmup_from; /**< rate of step 0 of a warm-up                             */
    int64_t period; /**< step: steps between two factors; less than 1: never     */
    double factor; /**< step: e.g. 0.1                                          */
} tutti_schedule;

/**
 * The learning rate of a step. A pure function of its arguments.
 * @param step  counted from 0; a negative one is taken as 0
 */
double tutti_learning_rate(const tutti_schedule *schedule, int64_t step);

/**
 * The linear scaling rule: with n times the batch, n times the learning rate (Goyal et al. 2017,
 * arXiv:1706.02677, section 2.1). Begin with the unscaled rate and grow to this one during
 * the first epochs (section 2.2): warmup_from and learning_rate of tutti_schedule.
 * @param learning_rate  that is right for the batch of one rank
 * @param ranks          that average their gradients; less than 1 is taken as 1
 */
double tutti_scale_lr(double learning_rate, int ranks);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
