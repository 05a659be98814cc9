/*
 * Local SGD: each rank trains by itself, and the parameters meet every `period` steps.
 *
 *     tutti_local_sgd_options_default(&options);     or ..._diloco()
 *     tutti_local_sgd_create(t, params, n, &options, &local);
 *     each step:
 *         update the parameters with this rank's gradients
 *         tutti_local_sgd_step(local, NULL);
 *
 * Periodic averaging (Stich 2019, "Local SGD Converges Fast and Communicates Little", algorithm
 * 1): the parameters become their mean over the ranks. With `start`, post-local SGD (Lin et al.
 * 2020, "Don't Use Large Mini-Batches, Use Local SGD", section 3): a mean after each of the first
 * steps.
 *
 * DiLoCo (Douillard et al. 2023, algorithm 1): the way that the parameters went since they last
 * met, averaged over the ranks, is the gradient of an outer optimizer, SGD with Nesterov momentum.
 */
#ifndef TUTTI_TRAINER_LOCAL_SGD_H
#define TUTTI_TRAINER_LOCAL_SGD_H

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

/** Settings of local SGD. Fill them with tutti_local_sgd_options_default() or _diloco(). */
typedef struct tutti_local_sgd_options {
    size_t size; /**< sizeof(tutti_local_sgd_options) as the caller knew it */
    tutti_process_set process_set; /**< default TUTTI_WORLD                       */
    const char *prefix; /**< in front of all names; copied; default "local_sgd"    */
    int64_t period; /**< local steps between two meetings; default 16, DiLoCo 500 */
    int64_t start; /**< the first steps, after each of which the ranks meet; default 0 */
    int64_t first_step; /**< number of the first step, for a resumed job; default 0 */
    double outer_learning_rate; /**< default 1, DiLoCo 0.7                         */
    double outer_momentum; /**< at least 0 and below 1; default 0, DiLoCo 0.9      */
    bool nesterov; /**< default false, DiLoCo true                             */
} tutti_local_sgd_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_local_sgd_options_default_sized(
        tutti_local_sgd_options *options, size_t size);
/** The same for DiLoCo. */
void tutti_local_sgd_options_diloco_sized(
        tutti_local_sgd_options *options, size_t size);

/** Fills options for periodic averaging, with their size. */
#define tutti_local_sgd_options_default(options) \
    tutti_local_sgd_options_default_sized((options), sizeof(tutti_local_sgd_options))
/** Fills options for DiLoCo, with their size. */
#define tutti_local_sgd_options_diloco(options) \
    tutti_local_sgd_options_diloco_sized((options), sizeof(tutti_local_sgd_options))

/** Local SGD over a set of parameters. Opaque. */
typedef struct tutti_local_sgd tutti_local_sgd;

/**
 * Registers parameters, whose values must be equal on all ranks: broadcast them first.
 * Collective over the set, one such call at a time: the ranks compare names, counts, types and
 * settings.
 * @param params      n parameters of which name, value, count and dtype are used; copied, the
 *                    values borrowed: host memory
 * @param options     NULL for the defaults. With an outer learning rate other than 1, or a
 *                    momentum, two more elements are kept for each one, and parameters must be
 *                    float32 or float64; a mean alone takes any float type and keeps nothing
 * @param[out] local  destroyed with tutti_local_sgd_destroy(), before tutti_finalize()
 * @return TUTTI_OK; on all ranks TUTTI_ERR_INVALID (names the parameter or the setting, and the
 *         value), TUTTI_ERR_UNSUPPORTED (the type), TUTTI_ERR_NO_MEMORY, TUTTI_ERR_MISMATCH (ranks
 *         differ: names the setting, two ranks and both values); on this rank alone
 *         TUTTI_ERR_INVALID (no result, no size, not in the set)
 */
TUTTI_MUST_USE tutti_status tutti_local_sgd_create(tutti *t, const tutti_param *params,
        size_t n, const tutti_local_sgd_options *options, tutti_local_sgd **local);

/** Frees it; the parameters stay as they are. NULL is allowed. */
void tutti_local_sgd_destroy(tutti_local_sgd *local);

/**
 * To be called after each update of the parameters, by one thread at a time. After every
 * `period`th step the ranks meet: collective. Every rank makes the same number of steps.
 * @param[out] met  NULL, or whether the parameters are equal on all ranks now: the time to
 *                  evaluate, and to save
 * @return TUTTI_OK, and the statuses of tutti_allreduce(): the parameters are undefined then
 */
TUTTI_MUST_USE tutti_status tutti_local_sgd_step(tutti_local_sgd *local, bool *met);

/** Number of the current step; options.first_step before the first has ended. */
int64_t tutti_local_sgd_current_step(const tutti_local_sgd *local);

/**
 * The outer optimizer's state, equal on all ranks: of each parameter "NAME.anchor" and
 * "NAME.velocity". None with a mean alone. To be saved when the ranks have met, with the
 * parameters, and the step for options.first_step.
 * @param tensors  room for n; NULL if n is 0. Lent until `local` is destroyed
 * @return how many there are; those beyond n are not written
 */
size_t tutti_local_sgd_tensors(
        tutti_local_sgd *local, tutti_state_tensor *tensors, size_t n);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
