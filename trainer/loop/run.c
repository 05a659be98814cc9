/*
 * The loop: steps, and what is due after each of them.
 *
 * Besides the gradients the ranks exchange the loss and the wish to stop: one small sum, submitted
 * before the wait for the gradients, so that it travels with them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "elastic/elastic.h"
#include "error.h"
#include "loop/trainer.h"
#include "reducer/reducer.h"

/* --------------------------------------------------------------------------- one step */

/** Summed over the ranks in each step; float64 only. */
struct tally {
    double stop; /* ranks that asked to stop                    */
    double loss; /* loss * samples                              */
    double samples;
    double more; /* ranks that have another batch in this epoch */
    double told; /* ranks that tuttirun has told something      */
};

static tutti_status choose_learning_rate(tutti_trainer *trainer)
{
    const tutti_schedule *schedule = trainer->options.schedule;
    tutti_optimizer *optimizer = trainer->options.optimizer;

    if (schedule != NULL) {
        trainer->learning_rate = tutti_learning_rate(schedule, trainer->position.steps);
    } else if (optimizer != NULL) {
        trainer->learning_rate = tutti_optimizer_learning_rate(optimizer);
    }
    return schedule == NULL || optimizer == NULL
            ? TUTTI_OK
            : tutti_optimizer_set_learning_rate(optimizer, trainer->learning_rate);
}

static tutti_batch next_batch(tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;
    tutti_batch batch = {
        .step = trainer->position.steps,
        .epoch = trainer->position.epochs,
        .count = options->batch,
        .learning_rate = trainer->learning_rate,
    };

    if (options->shard != NULL) {
        batch.count =
                tutti_shard_next(options->shard, trainer->indices, options->batch);
        batch.indices = trainer->indices;
    }
    return batch;
}

/** True if this rank has another batch in this epoch, after the one that was taken. */
static bool has_more(const tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;

    if (options->shard != NULL) {
        return tutti_shard_steps(options->shard, options->batch) > 0;
    }
    return options->steps_per_epoch == 0 ||
            trainer->position.epoch_steps + 1 < options->steps_per_epoch;
}

static void count(tutti_trainer *trainer, const struct tally *sum, bool skipped)
{
    struct position *position = &trainer->position;

    position->steps++;
    position->epoch_steps++;
    position->samples += llround(sum->samples);
    position->skipped += skipped;
    if (!skipped) {
        trainer->measures.loss_sum += sum->loss;
        trainer->measures.loss_weight += sum->samples;
    }
    trainer->stopping = sum->stop > 0;
    trainer->epoch_over = sum->more == 0;
    trainer->told = sum->told > 0;
}

/**
 * Trains on the next batch, and counts it. Afterwards all ranks know whether one of them asked to
 * stop.
 */
static tutti_status train(tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;
    tutti_step_report report = { .size = sizeof report };
    tutti_options collective = trainer->group.options;
    tutti_batch batch;
    double loss = 0;
    struct tally tally;
    tutti_request request;
    tutti_status status =
            trainer_ended(trainer, choose_learning_rate(trainer), "the learning rate");
    tutti_status waited;

    if (status != TUTTI_OK) {
        return status;
    }
    batch = next_batch(trainer);
    status = trainer_ended(trainer,
            options->step(options->user, &batch, trainer, &loss), "the step callback");
    if (status != TUTTI_OK) {
        return status;
    }
    tally = (struct tally){
        .stop = atomic_load_explicit(&trainer->stop, memory_order_relaxed),
        .loss = batch.count > 0 ? loss * (double)batch.count : 0,
        .samples = (double)batch.count,
        .more = has_more(trainer),
        .told = options->elastic != NULL && elastic_told(options->elastic) != 0,
    };
    collective.step = batch.step;
    status = tutti_allreduce_async(trainer->group.t, "trainer.step", &tally, &tally,
            sizeof tally / sizeof(double), TUTTI_FLOAT64, TUTTI_SUM, &collective,
            &request);
    if (status != TUTTI_OK) {
        return trainer_ended(trainer, status, "the sum of the losses");
    }
    if (options->optimizer != NULL) {
        status = trainer_ended(trainer,
                tutti_optimizer_step(options->optimizer, &report), "the optimizer");
    }
    waited =
            tutti_wait(trainer->group.t, &request, TUTTI_FOREVER); /* lent until then */
    status = status != TUTTI_OK ? status : waited;
    if (status == TUTTI_OK) {
        count(trainer, &tally, report.overflow);
    }
    return status;
}

/* ---------------------------------------------------------------- what is due after it */

static tutti_status call_hooks(tutti_trainer *trainer, tutti_trainer_event event)
{
    const tutti_trainer_options *options = &trainer->options;
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < options->hook_count && status == TUTTI_OK; i++) {
        status = options->hooks[i].call(options->hooks[i].user, trainer, event);
    }
    return trainer_ended(trainer, status, "a hook");
}

static tutti_status evaluate(tutti_trainer *trainer)
{
    tutti_status status;

    trainer->evaluating = true;
    status = trainer->options.evaluate(trainer->options.user, trainer);
    trainer->evaluating = false;
    return trainer_ended(trainer, status, "the evaluation");
}

/** Looks whether the monitored metric is the best, after a report. */
static tutti_status watch(tutti_trainer *trainer, bool evaluated)
{
    const char *name = trainer->options.monitor.metric;
    const struct metric *metric = name == NULL ? NULL : metrics_find(trainer, name);
    char names[400];
    tutti_status status;

    if (metric == NULL && name != NULL &&
            (evaluated || trainer->options.evaluate == NULL)) {
        return error_set(TUTTI_ERR_INVALID,
                "the metric \"%s\" is monitored and was never logged; there are %s",
                name, metrics_names(trainer, names, sizeof names));
    }
    if (metric == NULL || !metric->fresh || !monitor_update(trainer, metric->value)) {
        return TUTTI_OK;
    }
    status = checkpoint_save_best(trainer);
    return status == TUTTI_OK ? call_hooks(trainer, TUTTI_TRAINER_BEST) : status;
}

static tutti_status report(tutti_trainer *trainer, bool evaluation)
{
    tutti_status status = evaluation ? evaluate(trainer) : TUTTI_OK;

    if (status == TUTTI_OK) {
        status = report_make(trainer);
    }
    if (status == TUTTI_OK) {
        status = watch(trainer, evaluation);
    }
    return status == TUTTI_OK ? call_hooks(trainer, TUTTI_TRAINER_REPORT) : status;
}

static void end_epoch(tutti_trainer *trainer)
{
    trainer->position.epochs++;
    trainer->position.epoch_steps = 0;
    if (trainer->options.shard != NULL) {
        tutti_shard_epoch(trainer->options.shard, trainer->position.epochs);
    }
}

static bool is_due(int64_t every, int64_t step, bool otherwise)
{
    return every > 0 ? step % every == 0 : otherwise;
}

/** Does what is due after a step. A checkpoint comes last: it then holds what was decided. */
static tutti_status after_step(tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;
    const int64_t steps = trainer->position.steps;
    const bool epoch = trainer->epoch_over;
    const bool last = options->steps > 0 && steps >= options->steps;
    const bool evaluation = options->evaluate != NULL &&
            (last || is_due(options->evaluate_every, steps, epoch));
    tutti_status status;

    if (epoch) {
        end_epoch(trainer);
    }
    status = call_hooks(trainer, TUTTI_TRAINER_STEP);
    if (status == TUTTI_OK &&
            (evaluation || epoch || last ||
                    is_due(options->report_every, steps, false))) {
        status = report(trainer, evaluation);
    }
    if (status == TUTTI_OK && epoch) {
        status = call_hooks(trainer, TUTTI_TRAINER_EPOCH);
    }
    if (status == TUTTI_OK && is_due(options->checkpoint_every, steps, epoch)) {
        status = checkpoint_save_last(trainer);
    }
    if (status == TUTTI_OK &&
            (trainer->told || is_due(options->commit_every, steps, false))) {
        status = checkpoint_commit(trainer);
    }
    return status;
}

/* ---------------------------------------------------------------------------- the run */

static tutti_status compare_positions(const tutti_trainer *trainer)
{
    const struct setting settings[] = {
        number_setting("started", trainer->started),
        number_setting("the steps that are done", (double)trainer->position.steps),
        number_setting(
                "the steps of the last checkpoint", (double)trainer->saved_steps),
    };

    return group_same(&trainer->group, TUTTI_OK, settings,
            sizeof settings / sizeof *settings, NULL);
}

/** An epoch of whole batches alone may have none: then nothing would be trained. */
static tutti_status check_epoch(tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;
    int64_t steps = 1;
    tutti_status status;

    if (options->shard != NULL && tutti_shard_get_state(options->shard).position == 0) {
        steps = tutti_shard_steps(options->shard, options->batch);
    }
    status = group_heard(trainer->group.t,
            tutti_allreduce(trainer->group.t, "trainer.epoch", &steps, &steps, 1,
                    TUTTI_INT64, TUTTI_MAX, &trainer->group.options));
    if (status == TUTTI_OK && steps == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "an epoch has no step: the samples do not make one batch of %lld for "
                "each of %d ranks, and TUTTI_TAIL_EVEN drops what is less; take a "
                "smaller batch, fewer ranks or TUTTI_TAIL_PADDED",
                (long long)options->batch, trainer->group.ranks);
    }
    return status;
}

static tutti_status begin(tutti_trainer *trainer)
{
    const bool logs = trainer->options.log_directory != NULL;
    tutti_status status = compare_positions(trainer);

    if (status == TUTTI_OK && !trainer->started) {
        status = checkpoint_start(trainer);
        trainer->started = status == TUTTI_OK;
    }
    if (status == TUTTI_OK) {
        status = check_epoch(trainer);
    }
    if (status == TUTTI_OK && logs) { /* the first rank writes; all get its error */
        status = trainer->group.rank == 0 ? metrics_log_open(trainer) : TUTTI_OK;
        status = group_agree(&trainer->group, status);
    }
    trainer->stopping = false;
    report_begin(trainer);
    return status;
}

static bool is_over(const tutti_trainer *trainer)
{
    const tutti_trainer_options *options = &trainer->options;
    const struct position *position = &trainer->position;

    return trainer->stopping || trainer->leaving || monitor_exhausted(trainer) ||
            (options->epochs > 0 && position->epochs >= options->epochs) ||
            (options->steps > 0 && position->steps >= options->steps);
}

/* After a mismatch the job goes on, and other gradients of the step may never come. */
static tutti_status give_up(const tutti_trainer *trainer, tutti_status status)
{
    char text[1000];

    if (trainer->reducer == NULL || status == TUTTI_ERR_MISMATCH) {
        return status;
    }
    (void)snprintf(text, sizeof text, "%s", tutti_last_error());
    reducer_give_up(trainer->reducer);
    return error_set(status, "%s", text);
}

/* In new processes, from what was committed: nothing is to be saved. */
static bool goes_on(const tutti_trainer *trainer)
{
    return trainer->leaving &&
            tutti_state_notice(trainer->options.elastic) == TUTTI_NOTICE_HOSTS;
}

tutti_status tutti_trainer_run(tutti_trainer *trainer, tutti_trainer_summary *summary)
{
    tutti_trainer_summary own = { .size = sizeof own };
    tutti_status status;

    if (trainer == NULL || (summary != NULL && summary->size == 0)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_trainer_run: the trainer or the size of the summary is missing");
    }
    status = begin(trainer);
    while (status == TUTTI_OK && !is_over(trainer)) {
        status = train(trainer);
        if (status == TUTTI_OK) {
            report_progress(trainer);
            status = after_step(trainer);
        }
    }
    if (status == TUTTI_OK && !goes_on(trainer)) {
        status = checkpoint_save_last(trainer);
    }
    if (status == TUTTI_OK && !trainer->leaving) {
        status = call_hooks(trainer, TUTTI_TRAINER_END);
    }
    atomic_store_explicit(&trainer->stop, 0, memory_order_relaxed);
    metrics_log_close(trainer);
    if (status != TUTTI_OK) {
        return give_up(trainer, status);
    }
    report_end(trainer, summary != NULL ? summary : &own);
    return trainer->leaving ? TUTTI_AGAIN : TUTTI_OK;
}
