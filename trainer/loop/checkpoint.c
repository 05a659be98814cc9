/*
 * Checkpoints of a run: its parameters, the state of its optimizer, and where the loop is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "loop/trainer.h"

enum {
    OWN_TENSORS = 2,
};

static const int64_t counters = sizeof(struct position) / sizeof(int64_t);
static const int64_t measures = sizeof(struct measures) / sizeof(double);

/** Adds a tensor of so many elements. Without dimensions it has one, of all of them. */
static void add(tutti_trainer *trainer, const char *name, void *data, tutti_dtype dtype,
        const int64_t *count, int ndim, const int64_t *dims)
{
    trainer->tensors[trainer->tensor_count++] = (tutti_state_tensor){
        .name = name,
        .data = data,
        .dtype = dtype,
        .ndim = ndim == 0 ? 1 : ndim,
        .dims = ndim == 0 ? count : dims,
        .count = *count,
    };
}

/** Collects the tensors. The first `shared` of them are broadcast where nothing is loaded. */
static tutti_status collect(tutti_trainer *trainer, size_t *shared)
{
    const tutti_trainer_options *options = &trainer->options;
    const size_t carried = trainer->reducer == NULL
            ? 0
            : tutti_reducer_tensors(trainer->reducer, NULL, 0);
    size_t n = 0; /* of the optimizer */
    tutti_status status = TUTTI_OK;

    if (options->optimizer != NULL) {
        status = tutti_optimizer_state(options->optimizer, NULL, 0, &n);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    free(trainer->tensors); /* of a start that failed */
    trainer->tensors = calloc(
            options->param_count + options->state_count + n + OWN_TENSORS + carried,
            sizeof *trainer->tensors);
    if (trainer->tensors == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a checkpoint");
    }
    trainer->tensor_count = 0;
    for (size_t i = 0; i < options->param_count; i++) {
        const tutti_param *param = &options->params[i];

        if (param->value != NULL) {
            add(trainer, param->name, param->value, param->dtype, &param->count,
                    param->ndim, param->dims);
        }
    }
    for (size_t i = 0; i < options->state_count; i++) {
        trainer->tensors[trainer->tensor_count++] = options->state[i];
    }
    *shared = trainer->tensor_count;
    if (options->optimizer != NULL) {
        status = tutti_optimizer_state(
                options->optimizer, trainer->tensors + *shared, n, &n);
    }
    trainer->tensor_count += n;
    add(trainer, "trainer.measures", &trainer->measures, TUTTI_FLOAT64, &measures, 0,
            NULL);
    add(trainer, "trainer.counters", &trainer->position, TUTTI_INT64, &counters, 0,
            NULL);
    if (carried > 0) {
        trainer->carried = tutti_reducer_tensors(
                trainer->reducer, trainer->tensors + trainer->tensor_count, carried);
        trainer->tensor_count += carried;
    }
    return status;
}

static tutti_checkpoint_options options_of(const tutti_trainer *trainer)
{
    tutti_checkpoint_options options;

    tutti_checkpoint_options_default(&options);
    options.process_set = trainer->options.process_set;
    options.directory = trainer->options.checkpoint_directory;
    options.step = trainer->position.steps;
    options.sharded = trainer->options.checkpoint_sharded;
    options.keep = trainer->options.checkpoint_keep;
    return options;
}

/**
 * Loads the newest checkpoint. What the reducer carries fits as many ranks as have saved it; on
 * others it begins anew.
 */
static tutti_status load(tutti_trainer *trainer, int64_t *step)
{
    tutti_checkpoint_options from = options_of(trainer);
    size_t n = trainer->tensor_count;
    struct position saved = { .ranks = trainer->group.ranks };
    tutti_state_tensor counted = trainer->tensors[n - trainer->carried - 1];
    tutti_status status = TUTTI_OK;

    from.step = TUTTI_CHECKPOINT_NEWEST;
    if (trainer->carried > 0) {
        counted.data = &saved;
        from.ignore_unknown = true;
        status = tutti_checkpoint_load(trainer->group.t, &from, &counted, 1, step);
        from.step = *step >= 0 ? *step : TUTTI_CHECKPOINT_NEWEST;
        from.ignore_unknown = saved.ranks != trainer->group.ranks;
        n -= from.ignore_unknown ? trainer->carried : 0;
    }
    return status == TUTTI_OK
            ? tutti_checkpoint_load(trainer->group.t, &from, trainer->tensors, n, step)
            : status;
}

/** Goes on where a checkpoint was saved, or a commit made. */
static tutti_status go_on(tutti_trainer *trainer, int64_t saved_steps)
{
    tutti_status status = TUTTI_OK;

    if (trainer->options.shard != NULL) {
        status = tutti_shard_resume(
                trainer->options.shard, trainer->position.shard, 0, 0);
    }
    trainer->saved_steps = saved_steps;
    return group_agree(&trainer->group, status);
}

/** The newest commit of an elastic job; number 0: none. */
static tutti_status restore(tutti_trainer *trainer, uint64_t *number)
{
    tutti_state *state = trainer->options.elastic;
    /* What the reducer carries fits as many ranks only: it begins anew. */
    tutti_status status = tutti_state_register_tensors(
            state, trainer->tensors, trainer->tensor_count - trainer->carried);

    status = group_agree(&trainer->group, status);
    return status == TUTTI_OK ? tutti_state_restore(state, number) : status;
}

tutti_status checkpoint_start(tutti_trainer *trainer)
{
    uint64_t number = 0;
    size_t shared = 0;
    int64_t step = -1;
    tutti_status status = group_agree(&trainer->group, collect(trainer, &shared));

    if (trainer->options.shard != NULL) {
        tutti_shard_epoch(trainer->options.shard, 0);
    }
    if (status == TUTTI_OK && trainer->options.elastic != NULL) {
        status = restore(trainer, &number);
        if (status != TUTTI_OK || number != 0) {
            return status == TUTTI_OK ? go_on(trainer, -1) : status;
        }
    }
    if (status == TUTTI_OK && trainer->options.resume) {
        status = load(trainer, &step);
    }
    if (status == TUTTI_OK && step >= 0) {
        return go_on(trainer, trainer->position.steps);
    }
    if (status == TUTTI_OK && shared > 0) {
        status = tutti_broadcast_state(trainer->group.t, trainer->options.process_set,
                trainer->tensors, shared, 0);
    }
    return status;
}

static void note_shard(tutti_trainer *trainer)
{
    if (trainer->options.shard != NULL) {
        trainer->position.shard = tutti_shard_get_state(trainer->options.shard);
    }
    trainer->position.ranks = trainer->group.ranks;
}

tutti_status checkpoint_commit(tutti_trainer *trainer)
{
    tutti_status status;

    if (trainer->options.elastic == NULL) {
        return TUTTI_OK;
    }
    note_shard(trainer);
    status = tutti_state_commit(trainer->options.elastic);
    trainer->leaving = status == TUTTI_AGAIN;
    return trainer->leaving ? TUTTI_OK : status;
}

static tutti_status save(
        tutti_trainer *trainer, const tutti_checkpoint_options *options)
{
    note_shard(trainer);
    return tutti_checkpoint_save(
            trainer->group.t, options, trainer->tensors, trainer->tensor_count);
}

tutti_status checkpoint_save_last(tutti_trainer *trainer)
{
    tutti_checkpoint_options options = options_of(trainer);
    tutti_status status;

    if (options.directory == NULL || options.step == trainer->saved_steps) {
        return TUTTI_OK;
    }
    status = save(trainer, &options);
    if (status == TUTTI_OK) {
        trainer->saved_steps = options.step;
    }
    return status;
}

tutti_status checkpoint_save_best(tutti_trainer *trainer)
{
    tutti_checkpoint_options options = options_of(trainer);
    char path
            [PATH_MAX]; /* what is cut off here is too long for tutti_checkpoint_save() */

    if (options.directory == NULL) {
        return TUTTI_OK;
    }
    (void)snprintf(path, sizeof path, "%s/best", options.directory);
    options.directory = path;
    options.keep = 1;
    return save(trainer, &options);
}
