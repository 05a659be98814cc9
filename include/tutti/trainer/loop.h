/*
 * A training loop with callbacks: epochs and steps, evaluation, learning rate, checkpoints and
 * resuming, early stopping, progress, metrics for TensorBoard and as JSON lines.
 *
 *     tutti_trainer_options_default(&options);
 *     options.params = params;
 *     options.param_count = n;
 *     options.optimizer_options = &adamw;
 *     options.shard_options = &data;
 *     options.batch = 32;
 *     options.epochs = 10;
 *     options.step = step;              runs forward and backward, marks the gradients
 *     options.evaluate = evaluate;      logs tutti_trainer_metric(trainer, "accuracy", ...)
 *     options.monitor.metric = "val_accuracy";
 *     options.monitor.maximize = true;
 *     options.checkpoint_directory = "run1";
 *     options.resume = true;
 *     tutti_trainer_create(t, &options, &trainer);
 *     tutti_trainer_run(trainer, NULL);
 *     tutti_trainer_destroy(trainer);
 *
 * All ranks make the same decisions (when to stop, which checkpoint is the best), because they
 * base them on values averaged over the ranks. A callback that fails on one rank aborts the job
 * with its message, like tutti_abort(), because other ranks may be inside collectives that this
 * rank will not call. An error that all ranks find together (a checkpoint that cannot be
 * written) ends the run on all of them with one message, and the job continues:
 * tutti_trainer_run() may be called again and continues the run.
 */
#ifndef TUTTI_TRAINER_LOOP_H
#define TUTTI_TRAINER_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/data.h>
#include <tutti/trainer/elastic.h>
#include <tutti/trainer/events.h>
#include <tutti/trainer/optimizer.h>
#include <tutti/trainer/state.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#    pragma GCC visibility push(default)
#endif

/** A training loop. Opaque. */
typedef struct tutti_trainer tutti_trainer;

/** What a step is to work on. */
typedef struct tutti_batch {
    int64_t step; /**< its number: steps done before, also in earlier runs       */
    int64_t epoch; /**< from 0                                                    */
    const int64_t *indices; /**< numbers of the samples of this rank, lent during the
                                 callback; NULL without options.shard             */
    int64_t count; /**< samples of this rank. With TUTTI_TAIL_UNEVEN 0 in the last step of
                        an epoch on some ranks: they mark gradients of zero         */
    double learning_rate; /**< that the optimizer will use                         */
} tutti_batch;

/**
 * Trains on a batch: runs the forward and backward pass and marks every gradient ready. The
 * loop then steps the optimizer; without options.optimizer this callback does that as well.
 * @param[in,out] loss  0; then the mean over the samples of this rank
 * @return TUTTI_OK, or an error with tutti_set_last_error(), which ends the run on all ranks
 */
typedef tutti_status (*tutti_trainer_step_callback)(
        void *user, const tutti_batch *batch, tutti_trainer *trainer, double *loss);

/**
 * Evaluates the model: on each rank its share of the held-out samples. Logs results with
 * tutti_trainer_metric() or tutti_trainer_metric_weighted(): they get "val_" in front of
 * their names. May use collectives.
 */
typedef tutti_status (*tutti_trainer_evaluate_callback)(
        void *user, tutti_trainer *trainer);

/** What a hook is told of. */
typedef enum tutti_trainer_event {
    TUTTI_TRAINER_STEP, /**< a step is done                                       */
    TUTTI_TRAINER_REPORT, /**< metrics are averaged: tutti_trainer_value()           */
    TUTTI_TRAINER_EPOCH, /**< an epoch is done                                      */
    TUTTI_TRAINER_BEST, /**< the monitored metric is the best so far               */
    TUTTI_TRAINER_END /**< the run ends                                          */
} tutti_trainer_event;

/** Something of the caller's that is to happen while a model is trained. */
typedef struct tutti_trainer_hook {
    tutti_status (*call)(void *user, tutti_trainer *trainer,
            tutti_trainer_event event); /**< on all ranks; errors as of a step       */
    void *user;
} tutti_trainer_hook;

/** When a metric is the best, and when a run that no longer improves it ends. */
typedef struct tutti_monitor {
    const char *metric; /**< of a report, for example "val_accuracy"; NULL (default):
                             there is no best, and no early stopping               */
    bool maximize; /**< more is better; default false                             */
    double min_delta; /**< least improvement over the best value; default 0            */
    int patience; /**< end the run when so many values in a row were not better; 0
                       (default): never                                           */
} tutti_monitor;

/** Progress shown by rank 0 of the set during a run. */
typedef enum tutti_progress_mode {
    TUTTI_PROGRESS_AUTO, /**< lines, and a bar if the output is a terminal            */
    TUTTI_PROGRESS_BAR, /**< both, for any output                                    */
    TUTTI_PROGRESS_LINES, /**< one line per report, and a summary                    */
    TUTTI_PROGRESS_NONE /**< nothing                                                */
} tutti_progress_mode;

/** Takes text of the progress, with its line ends (and, of a bar, its carriage returns). */
typedef void (*tutti_trainer_output)(void *user, const char *text);

/**
 * Settings of a trainer. Fill them with tutti_trainer_options_default(). All pointers are
 * borrowed until the trainer is destroyed. Numbers must be equal on all ranks, except for the
 * batch without a shard and the settings of rank 0's output and files.
 */
typedef struct tutti_trainer_options {
    size_t size; /**< sizeof(tutti_trainer_options) as the caller knew it       */
    tutti_process_set process_set; /**< whose ranks train; default TUTTI_WORLD        */

    /* The model. With optimizer_options the trainer makes reducer and optimizer itself. */
    const tutti_param
            *params; /**< whose values are broadcast, saved and loaded       */
    size_t param_count;
    tutti_optimizer
            *optimizer; /**< of the caller; NULL: one made here, or none: then the
                                     step callback updates the parameters          */
    const tutti_optimizer_options *optimizer_options; /**< NULL: none is made here   */
    const tutti_reducer_options *reducer_options; /**< likewise; NULL: the defaults. The
                                                       process set is this one       */
    const tutti_schedule *schedule; /**< learning rate of each step; NULL: that of the
                                         optimizer                                 */
    const tutti_state_tensor
            *state; /**< more to broadcast, save and load; every rank has
                                          all of each tensor                        */
    size_t state_count;

    tutti_shard *shard; /**< of the caller, which samples each rank gets; NULL: one made
                         here, or none: then the step callback knows              */
    const tutti_shard_options *shard_options; /**< NULL: none is made here. The process
                                                   set is this one                 */
    int64_t batch; /**< samples of a step on each rank; default 1                 */
    int64_t steps_per_epoch; /**< without a shard: more than 0 if there are epochs    */

    int64_t epochs; /**< train until so many are done, and                         */
    int64_t steps; /**< until so many are done, those of earlier runs included. 0
                        (default): no such end; one of the two must be given       */

    void *user; /**< for step and evaluate                                      */
    tutti_trainer_step_callback step; /**< required                                 */
    tutti_trainer_evaluate_callback
            evaluate; /**< NULL: none                          */
    const tutti_trainer_hook *hooks; /**< called in this order                       */
    size_t hook_count;

    int64_t evaluate_every; /**< steps; 0 (default): at the end of each epoch          */
    int64_t report_every; /**< steps after which metrics are averaged and written, besides
                               evaluations and ends of epochs; 0 (default): none     */
    tutti_monitor monitor; /**< best checkpoint, and early stopping                  */

    const char
            *checkpoint_directory; /**< of tutti_checkpoint_save(); the best one is in
                                           "best" below it; NULL: no checkpoints     */
    int64_t checkpoint_every; /**< steps; 0 (default): at the end of each epoch. The end
                                   of a run saves in any case                       */
    int checkpoint_keep; /**< newest checkpoints that are kept; default 1, 0: all      */
    bool checkpoint_sharded; /**< each rank writes its part; default false           */
    bool resume; /**< go on from the last checkpoint, if there is one            */

    const char
            *log_directory; /**< for metrics.jsonl and events of TensorBoard, written by
                                    rank 0 of the set; NULL: none                  */
    tutti_progress_mode progress; /**< default TUTTI_PROGRESS_AUTO                   */
    tutti_trainer_output output; /**< NULL (default): output_fd                      */
    void *output_user;
    int output_fd; /**< default 2, standard error                                  */

    tutti_state
            *elastic; /**< of an elastic job: the loop registers its state there, goes
                               on from the newest commit, which comes before
                               `resume`, and commits. Of TUTTI_WORLD; NULL: none     */
    int64_t commit_every; /**< steps; default 1                                        */
} tutti_trainer_options;

/** Fills the first `size` bytes; call the macro without _sized. NULL is allowed. */
void tutti_trainer_options_default_sized(tutti_trainer_options *options, size_t size);

/** Fills options with the defaults and their size. */
#define tutti_trainer_options_default(options) \
    tutti_trainer_options_default_sized((options), sizeof(tutti_trainer_options))

/** Why a run ended. */
typedef enum tutti_trainer_end {
    TUTTI_TRAINER_FINISHED, /**< all epochs or steps are done                       */
    TUTTI_TRAINER_EARLY, /**< the monitored metric no longer improves            */
    TUTTI_TRAINER_STOPPED /**< tutti_trainer_stop()                               */
} tutti_trainer_end;

/** What a run came to; equal on all ranks except for times and shares. */
typedef struct tutti_trainer_summary {
    size_t size; /**< sizeof(tutti_trainer_summary), set by the caller           */
    tutti_trainer_end end;
    int64_t steps; /**< done, those before a resume included                       */
    int64_t epochs; /**< likewise                                                   */
    int64_t samples; /**< of all ranks, likewise                                     */
    int64_t skipped; /**< steps that updated nothing because of an overflow, likewise */
    double seconds; /**< of this run                                                */
    double samples_per_s; /**< of all ranks in this run                               */
    double communication; /**< 0 to 1: share of this rank's time spent waiting in tutti */
    double loss; /**< of the last report; NaN if there was none                  */
    double best; /**< of the monitored metric; NaN: none                          */
    int64_t best_step; /**< steps that were done then; -1: none                     */
    int64_t lost_reports; /**< that could not be written to log_directory; on rank 0   */
} tutti_trainer_summary;

/**
 * Creates a trainer. Collective over the set: the ranks compare all options that affect decisions.
 * @param options       required: step, and epochs or steps; copied, but its pointers are borrowed
 * @param[out] trainer  destroyed with tutti_trainer_destroy(), before the borrowed objects
 * @return TUTTI_OK; on all ranks TUTTI_ERR_INVALID (names the option and its value),
 *         TUTTI_ERR_MISMATCH (the option, two ranks, both values), TUTTI_ERR_NO_MEMORY, and the
 *         statuses of tutti_reducer_create(), tutti_optimizer_create() and tutti_shard_create()
 */
TUTTI_MUST_USE tutti_status tutti_trainer_create(
        tutti *t, const tutti_trainer_options *options, tutti_trainer **trainer);

/** Frees a trainer, with the optimizer, the reducer and the shard that it made. Local; not while it runs. NULL
 *  is allowed. */
void tutti_trainer_destroy(tutti_trainer *trainer);

/** The reducer that the trainer made, whose gradients a step marks; NULL if it made none. */
tutti_reducer *tutti_trainer_reducer(const tutti_trainer *trainer);

/**
 * Trains. Collective over the set. The initial state is that of the last checkpoint, with
 * options.resume, or else a broadcast from rank 0. A resumed run with as many ranks has the same
 * bits as an uninterrupted one, if the callbacks depend only on the batch and the state. Means of
 * the caller's own metrics restart at a checkpoint between two reports; the loss does not.
 *
 * The metrics of a report are "loss", the metrics logged since the last one, and the loop's own
 * "learning_rate" (with an optimizer or a schedule), "samples_per_s" and "communication". A
 * step whose gradients overflowed updates nothing, and its loss is left out.
 * @param[in,out] summary  NULL, or summary->size set
 * @return TUTTI_OK; TUTTI_AGAIN (options.elastic: the ranks must leave, and the step is
 *         committed; if the job has to end, a checkpoint is saved as well);
 *         TUTTI_ERR_MISMATCH (ranks have different metrics, or have done different steps);
 *         TUTTI_ERR_INVALID (the monitored metric was never logged, or an epoch has no step: too few
 *         samples for one whole batch on each rank); the error of a callback,
 *         TUTTI_ERR_CONTEXT_FAILED with its message on the other ranks; on all ranks the statuses
 *         of tutti_checkpoint_save(), tutti_checkpoint_load() and tutti_events_open()
 */
TUTTI_MUST_USE tutti_status tutti_trainer_run(
        tutti_trainer *trainer, tutti_trainer_summary *summary);

/**
 * Makes a run end after the current step, with a checkpoint and a summary. One rank is
 * enough, all end after the same step. Any thread, and signal handlers.
 */
void tutti_trainer_stop(tutti_trainer *trainer);

/**
 * Adds a value to a metric. The next report has the mean of all values of all ranks. Inside
 * callbacks; in evaluate() the name gets "val_" in front. Every rank must log the same metrics
 * between two reports, in any order and any number of times.
 * @param name  up to 96 bytes of printable UTF-8; up to 64 metrics; copied. Not step, epoch, time,
 *              loss, learning_rate, samples_per_s or communication, which the loop writes, but in
 *              evaluate()
 * @return TUTTI_OK, TUTTI_ERR_INVALID
 */
TUTTI_MUST_USE tutti_status tutti_trainer_metric(
        tutti_trainer *trainer, const char *name, double value);

/**
 * tutti_trainer_metric() for the mean of several samples.
 * @param weight  samples; 0: there is no value on this rank, only the name counts
 */
TUTTI_MUST_USE tutti_status tutti_trainer_metric_weighted(
        tutti_trainer *trainer, const char *name, double value, double weight);

/**
 * The mean of a metric as of the last report that had it, by the name that a report has: "loss",
 * "val_accuracy". Equal on all ranks.
 * @return NaN if there is none
 */
double tutti_trainer_value(const tutti_trainer *trainer, const char *name);

/** Steps that are done, those of earlier runs included. In a step: its number. */
int64_t tutti_trainer_steps(const tutti_trainer *trainer);

/** Epochs that are done, likewise. */
int64_t tutti_trainer_epochs(const tutti_trainer *trainer);

#if defined(__GNUC__)
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
