/*
 * Makes and frees trainers, and answers questions about them.
 */
#include "loop/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "options.h"

void tutti_trainer_options_default_sized(tutti_trainer_options *options, size_t size)
{
    const tutti_trainer_options defaults = {
        .size = size,
        .process_set = TUTTI_WORLD,
        .batch = 1,
        .checkpoint_keep = 1,
        .output_fd = 2,
        .commit_every = 1,
    };

    options_give(options, size, &defaults, sizeof defaults);
}

static tutti_status refuse(const char *why)
{
    return error_set(TUTTI_ERR_INVALID, "tutti_trainer_create: %s", why);
}

static bool has_shard(const tutti_trainer_options *options)
{
    return options->shard != NULL || options->shard_options != NULL;
}

static tutti_status check_numbers(const tutti_trainer_options *options)
{
    const struct {
        const char *name;
        int64_t value;
        int64_t least;
    } numbers[] = {
        { "batch", options->batch, 1 },
        { "epochs", options->epochs, 0 },
        { "steps", options->steps, 0 },
        { "epochs or steps", options->epochs > 0 || options->steps > 0, 1 },
        { "steps_per_epoch", options->steps_per_epoch,
                options->epochs > 0 && !has_shard(options) },
        { "evaluate_every", options->evaluate_every, 0 },
        { "report_every", options->report_every, 0 },
        { "checkpoint_every", options->checkpoint_every, 0 },
        { "checkpoint_keep", options->checkpoint_keep, 0 },
        { "commit_every", options->commit_every, 1 },
        { "monitor.patience", options->monitor.patience, 0 },
        { "output_fd", options->output_fd, options->output == NULL ? 0 : -1 },
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value < numbers[i].least) {
            return error_set(TUTTI_ERR_INVALID,
                    "tutti_trainer_create: %s is %lld; it must be %lld or more",
                    numbers[i].name, (long long)numbers[i].value,
                    (long long)numbers[i].least);
        }
    }
    return TUTTI_OK;
}

static tutti_status check(const tutti_trainer_options *options)
{
    const struct {
        bool wrong;
        const char *why;
    } rules[] = {
        { options->step == NULL, "the step callback is missing" },
        { (options->params == NULL && options->param_count > 0) ||
                        (options->state == NULL && options->state_count > 0) ||
                        (options->hooks == NULL && options->hook_count > 0),
                "params, state or hooks is NULL, but its count is not 0" },
        { options->optimizer != NULL && options->optimizer_options != NULL,
                "both optimizer and optimizer_options are set" },
        { options->shard != NULL && options->shard_options != NULL,
                "both shard and shard_options are set" },
        { options->elastic != NULL && options->process_set != TUTTI_WORLD,
                "elastic is set, and process_set is not TUTTI_WORLD" },
        { options->resume && options->checkpoint_directory == NULL,
                "resume is set, but checkpoint_directory is not" },
        { options->monitor.metric == NULL && options->monitor.patience > 0,
                "monitor.patience is set, but monitor.metric is not" },
        { !(options->monitor.min_delta >= 0), "monitor.min_delta must be 0 or more" },
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].wrong) {
            return refuse(rules[i].why);
        }
    }
    for (size_t i = 0; i < options->hook_count; i++) {
        if (options->hooks[i].call == NULL) {
            return refuse("a hook has no function");
        }
    }
    return check_numbers(options);
}

/** What the ranks decide by, and what they call collectives by, must be equal. */
static tutti_status agree(const struct state_group *group, tutti_status status,
        const tutti_trainer_options *options)
{
    static const tutti_schedule constant = { .kind = TUTTI_SCHEDULE_CONSTANT };
    const tutti_monitor *monitor = &options->monitor;
    const tutti_schedule *schedule =
            options->schedule != NULL ? options->schedule : &constant;
    const struct setting settings[] = {
        number_setting("epochs", (double)options->epochs),
        number_setting("steps", (double)options->steps),
        number_setting("steps_per_epoch", (double)options->steps_per_epoch),
        number_setting("batch", has_shard(options) ? (double)options->batch : 0),
        number_setting("evaluate_every", (double)options->evaluate_every),
        number_setting("report_every", (double)options->report_every),
        number_setting("checkpoint_every", (double)options->checkpoint_every),
        number_setting("checkpoint_sharded", options->checkpoint_sharded),
        number_setting("commit_every", (double)options->commit_every),
        number_setting("elastic (set or not)", options->elastic != NULL),
        number_setting("resume", options->resume),
        number_setting("param_count", (double)options->param_count),
        number_setting("state_count", (double)options->state_count),
        number_setting("optimizer (set or not)", options->optimizer != NULL),
        number_setting(
                "optimizer_options (set or not)", options->optimizer_options != NULL),
        number_setting("shard (set or not)", options->shard != NULL),
        number_setting("shard_options (set or not)", options->shard_options != NULL),
        number_setting("evaluate (set or not)", options->evaluate != NULL),
        number_setting("checkpoint_directory (set or not)",
                options->checkpoint_directory != NULL),
        number_setting("log_directory (set or not)", options->log_directory != NULL),
        text_setting("monitor.metric", monitor->metric == NULL ? "" : monitor->metric),
        number_setting("monitor.min_delta", monitor->min_delta),
        number_setting("monitor.maximize", monitor->maximize),
        number_setting("monitor.patience", monitor->patience),
        number_setting("schedule (set or not)", options->schedule != NULL),
        number_setting("schedule.kind", schedule->kind),
        number_setting("schedule.learning_rate", schedule->learning_rate),
        number_setting("schedule.final_rate", schedule->final_rate),
        number_setting("schedule.steps", (double)schedule->steps),
        number_setting("schedule.warmup", (double)schedule->warmup),
        number_setting("schedule.warmup_from", schedule->warmup_from),
        number_setting("schedule.period", (double)schedule->period),
        number_setting("schedule.factor", schedule->factor),
    };

    return group_same(
            group, status, settings, sizeof settings / sizeof *settings, NULL);
}

/** Makes what this rank can make alone. The options are checked. */
static tutti_status make(const struct state_group *group,
        const tutti_trainer_options *options, tutti_trainer *made)
{
    *made = (tutti_trainer){
        .group = *group,
        .options = *options,
        .position = { .best_step = -1 },
        .measures = { .best = NAN },
        .learning_rate = NAN,
        .saved_steps = -1,
    };
    if (has_shard(options)) {
        made->indices = calloc((size_t)options->batch, sizeof *made->indices);
        if (made->indices == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY,
                    "no memory for batches of %lld samples", (long long)options->batch);
        }
    }
    return TUTTI_OK;
}

/** Makes the reducer and the optimizer that options.optimizer_options describe. */
static tutti_status make_optimizer(tutti_trainer *made)
{
    const tutti_trainer_options *options = &made->options;
    tutti_reducer_options reduction;
    tutti_status status;

    tutti_reducer_options_default(&reduction);
    options_take(&reduction, sizeof reduction, options->reducer_options);
    reduction.size = sizeof reduction;
    reduction.process_set = options->process_set;
    status = tutti_reducer_create(made->group.t, options->params, options->param_count,
            &reduction, &made->reducer);
    return status != TUTTI_OK
            ? status
            : tutti_optimizer_create(made->reducer, options->optimizer_options,
                      &made->options.optimizer);
}

/** Makes the shard that options.shard_options describe; the status is that of all ranks. */
static tutti_status make_shard(tutti_trainer *made)
{
    const tutti_shard_options *given = made->options.shard_options;
    tutti_shard_options settings;

    tutti_shard_options_default(&settings);
    options_take(&settings, sizeof settings, given);
    settings.process_set = made->options.process_set;
    return group_agree(&made->group,
            tutti_shard_create(made->group.t, &settings, &made->options.shard));
}

tutti_status tutti_trainer_create(
        tutti *t, const tutti_trainer_options *options, tutti_trainer **trainer)
{
    tutti_trainer_options settings;
    struct state_group group;
    tutti_trainer *made = NULL;
    tutti_status status;

    if (t == NULL || options == NULL || options->size == 0 || trainer == NULL) {
        return refuse("the context, the options, their size or the result is missing");
    }
    tutti_trainer_options_default(&settings);
    options_take(&settings, sizeof settings, options);
    status = group_init(&group, t, settings.process_set);
    if (status != TUTTI_OK) {
        return status;
    }
    status = check(&settings);
    if (status == TUTTI_OK) {
        made = calloc(1, sizeof *made);
        status = made == NULL
                ? error_set(TUTTI_ERR_NO_MEMORY, "no memory for a trainer")
                : make(&group, &settings, made);
    }
    status = agree(&group, status, &settings);
    if (status == TUTTI_OK && made != NULL && settings.shard_options != NULL) {
        status = make_shard(made);
    }
    if (status == TUTTI_OK && made != NULL && settings.optimizer_options != NULL) {
        status = make_optimizer(made);
    }
    if (status != TUTTI_OK) {
        tutti_trainer_destroy(made);
        return status;
    }
    *trainer = made;
    return TUTTI_OK;
}

void tutti_trainer_destroy(tutti_trainer *trainer)
{
    if (trainer == NULL) {
        return;
    }
    if (trainer->reducer != NULL) {
        (void)tutti_optimizer_destroy(trainer->options.optimizer);
        (void)tutti_reducer_destroy(trainer->reducer);
    }
    if (trainer->options.shard_options != NULL) {
        tutti_shard_destroy(trainer->options.shard);
    }
    free(trainer->indices);
    free(trainer->tensors);
    free(trainer);
}

tutti_status trainer_ended(
        tutti_trainer *trainer, tutti_status status, const char *what)
{
    char text[1000];

    if (status == TUTTI_OK) {
        return tutti_set_last_error(TUTTI_OK, "%s", ""); /* no old message later */
    }
    if (status == TUTTI_ERR_CONTEXT_FAILED || status == TUTTI_ERR_MISMATCH ||
            status == TUTTI_ERR_FINALIZED) {
        return status;
    }
    (void)snprintf(text, sizeof text, "%s failed in step %lld: %s%s%s", what,
            (long long)trainer->position.steps, tutti_status_name(status),
            tutti_last_error()[0] == '\0' ? "" : ": ", tutti_last_error());
    (void)tutti_abort(trainer->group.t, text);
    return error_set(status, "%s", text);
}

tutti_reducer *tutti_trainer_reducer(const tutti_trainer *trainer)
{
    return trainer == NULL ? NULL : trainer->reducer;
}

void tutti_trainer_stop(tutti_trainer *trainer)
{
    if (trainer != NULL) {
        /* pairs with nothing: the step's allreduce tells the others */
        atomic_store_explicit(&trainer->stop, 1, memory_order_relaxed);
    }
}

int64_t tutti_trainer_steps(const tutti_trainer *trainer)
{
    return trainer == NULL ? 0 : trainer->position.steps;
}

int64_t tutti_trainer_epochs(const tutti_trainer *trainer)
{
    return trainer == NULL ? 0 : trainer->position.epochs;
}
