/*
 * Data-parallel training with a loop that does the rest, the part to copy from.
 *
 *   start   the parameters are registered, and their gradients come from the reducer; all ranks
 *           draw the same first parameters from the seed
 *   step    each rank takes its part of the batch, with --shards one shard after the other; as
 *           soon as the backward pass has gradients they are marked ready, and are averaged over
 *           the ranks while the pass goes on
 *   loop    takes the samples of a step, waits for the gradients, updates the parameters, saves
 *           checkpoints and goes on from them, and calls back when there is something to print
 *
 * Which sequences a step takes depends on the seed alone: any number of ranks walks through the
 * same batches.
 */
#include "train.h"

#include <stdio.h>
#include <stdlib.h>

#include "../common/common.h"
#include "../digits/random.h"

/** Copies the sequences of a shard, which depend on its number alone. */
static void load(struct trainer *trainer, const int64_t *batch, int shard)
{
    int context = trainer->options->shape.context;
    const int64_t *samples = batch + (size_t)shard * (size_t)trainer->sequences;

    for (int s = 0; s < trainer->sequences; s++) {
        size_t row = (size_t)s * (size_t)context;
        size_t first = (size_t)samples[s];

        text_copy(trainer->text, first, context, trainer->tokens + row,
                trainer->targets + row);
    }
}

/** Marks gradients that are complete; they are averaged while this thread goes on. */
static void mark(struct trainer *trainer, size_t first, size_t count)
{
    for (size_t p = first; p < first + count; p++) {
        check(trainer->job, tutti_reducer_ready(trainer->reducer, p));
    }
}

/** Marks all gradients in an order of this rank's own, to show that it does not matter. */
static void mark_shuffled(struct trainer *trainer, int64_t step)
{
    size_t order[MODEL_PARAMETERS_MAX] = { 0 };
    uint64_t state = (uint64_t)(step * trainer->ranks + trainer->rank);

    for (size_t p = 0; p < trainer->model.parameter_count; p++) {
        size_t other = random_bits(&state) % (p + 1);

        order[p] = order[other];
        order[other] = p;
    }
    for (size_t p = 0; p < trainer->model.parameter_count; p++) {
        mark(trainer, order[p], 1);
    }
}

/** Forward and backward pass of a shard. @return its loss, summed over its bytes */
static double train_shard(struct trainer *trainer, const tutti_batch *batch, int shard)
{
    struct model *model = &trainer->model;
    int rows = trainer->sequences * model->shape.context;
    double loss;

    load(trainer, batch->indices, shard);
    model_forward(model, trainer->tokens, trainer->sequences);
    loss = model_loss(model, trainer->targets, 1.0F / (float)rows);
    for (int group = model->shape.layers + 1; group >= 0; group--) {
        size_t first;
        size_t count = model_backward(model, group, &first);

        if (!trainer->options->shuffle_ready) {
            mark(trainer, first, count);
        }
    }
    if (trainer->options->shuffle_ready) {
        mark_shuffled(trainer, batch->step);
    }
    return loss;
}

/** One step, which the loop ends. The loss is in nats per batch. */
static tutti_status step(
        void *user, const tutti_batch *batch, tutti_trainer *loop, double *loss)
{
    struct trainer *trainer = user;

    (void)loop;
    model_prepare(&trainer->model);
    for (int s = 0; s < trainer->shards; s++) {
        *loss += train_shard(trainer, batch, trainer->first + s);
    }
    /* losses are multiples of 2^-24, so this sum and the average are exact, on any number of
       ranks: see kernels.h */
    *loss *= trainer->ranks;
    trainer->steps++;
    return TUTTI_OK;
}

/** The loss since the last report, for the log, and every --every steps for the screen. */
static tutti_status report(void *user, tutti_trainer *loop, tutti_trainer_event event)
{
    struct trainer *trainer = user;
    const struct options *options = trainer->options;
    double bytes = (double)options->batch * options->shape.context;
    int64_t done = tutti_trainer_steps(loop);

    if (event != TUTTI_TRAINER_REPORT || trainer->rank != 0) {
        return TUTTI_OK;
    }
    trainer->loss = tutti_trainer_value(loop, "loss") / bytes;
    if (trainer->log != NULL) {
        (void)fprintf(trainer->log, "%lld %.17g\n", (long long)done, trainer->loss);
    }
    if (done % options->every == 0 || done == options->steps) {
        printf("step %6lld  loss %.6f  %9.0f tokens/s\n", (long long)done,
                trainer->loss,
                bytes * (double)(trainer->steps - trainer->shown) /
                        (now() - trainer->shown_at));
        (void)fflush(stdout);
        trainer->shown = trainer->steps;
        trainer->shown_at = now();
    }
    return TUTTI_OK;
}

/** A part of a batch for each rank, or as many shards as are asked for. */
static void divide_batch(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    int parts = options->shards > 0 ? options->shards : trainer->ranks;

    if (options->batch % parts != 0) {
        check(trainer->job,
                tutti_set_last_error(TUTTI_ERR_INVALID,
                        "--batch is not a multiple of the number of ranks"));
    }
    trainer->first = trainer->rank;
    trainer->shards = 1;
    trainer->sequences = options->batch / parts;
}

void trainer_init(struct trainer *trainer, tutti *job, const struct options *options,
        const struct text *text)
{
    struct model_shape shape = options->shape;
    size_t rows;

    *trainer = (struct trainer){
        .options = options,
        .text = text,
        .job = job,
        .rank = tutti_rank(job),
        .ranks = tutti_size(job),
    };
    divide_batch(trainer);
    shape.vocabulary = text->vocabulary;
    rows = (size_t)trainer->sequences * (size_t)shape.context;
    trainer->tokens = calloc(rows, sizeof *trainer->tokens);
    trainer->targets = calloc(rows, sizeof *trainer->targets);
    if (!model_init(&trainer->model, &shape, options->kernels, trainer->sequences) ||
            trainer->tokens == NULL || trainer->targets == NULL) {
        check(job, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    model_randomize(&trainer->model, options->seed);
    if (options->commit > 0) {
        check(job, tutti_state_create(job, &trainer->state));
    }
}

void trainer_fini(struct trainer *trainer)
{
    model_fini(&trainer->model);
    free(trainer->tokens);
    free(trainer->targets);
}

/** Registers the parameters, takes the memory of their gradients, and trains. */
static bool run(struct trainer *trainer, tutti_trainer_options *options)
{
    tutti_status status;
    struct model *model = &trainer->model;
    tutti_param params[MODEL_PARAMETERS_MAX] = { 0 };
    tutti_trainer *loop;

    for (size_t p = 0; p < model->parameter_count; p++) {
        params[p].name = model->parameters[p].name;
        params[p].value = model->parameters[p].value;
        params[p].count = (int64_t)model->parameters[p].count;
        params[p].dtype = TUTTI_FLOAT32;
        params[p].ndim = 2;
        params[p].dims = model->parameters[p].dims;
    }
    options->params = params;
    options->param_count = model->parameter_count;
    check(trainer->job, tutti_trainer_create(trainer->job, options, &loop));
    trainer->reducer = tutti_trainer_reducer(loop);
    for (size_t p = 0; p < model->parameter_count; p++) {
        model->parameters[p].gradient = tutti_reducer_gradient(trainer->reducer, p);
    }
    if (trainer->options->shards > 0) {
        tutti_reducer_shards(trainer->reducer, &trainer->first, &trainer->shards);
    }
    trainer->shown_at = now();
    status = tutti_trainer_run(loop, &trainer->summary);
    check(trainer->job, status == TUTTI_AGAIN ? TUTTI_OK : status);
    tutti_trainer_destroy(loop);
    return status == TUTTI_OK;
}

bool trainer_run(struct trainer *trainer)
{
    const struct options *given = trainer->options;
    const int64_t tenth = given->steps / 10 > 0 ? given->steps / 10 : 1;
    /* up to its peak in a tenth of the steps, then down a line */
    const tutti_schedule schedule = {
        .kind = TUTTI_SCHEDULE_LINEAR,
        .learning_rate = given->rate,
        .steps = given->steps,
        .warmup = tenth - 1,
        .warmup_from = given->rate / (double)tenth,
    };
    const tutti_trainer_hook hook = { .call = report, .user = trainer };
    tutti_reducer_options reducing;
    tutti_optimizer_options adamw;
    tutti_shard_options order;
    tutti_trainer_options options;

    tutti_reducer_options_default(&reducing);
    reducing.shards = given->shards;
    tutti_optimizer_options_default(&adamw);
    tutti_shard_options_default(&order); /* of samples that begin at each byte */
    order.samples = (int64_t)trainer->text->count - given->shape.context;
    order.seed = given->seed;
    order.tail = TUTTI_TAIL_EVEN;
    order.ranks =
            1; /* each rank takes its part itself: with --shards they are unequal */
    tutti_trainer_options_default(&options);
    options.reducer_options = &reducing;
    options.optimizer_options = &adamw;
    options.schedule = &schedule;
    options.shard_options = &order;
    options.batch = given->batch;
    options.steps = given->steps;
    options.user = trainer;
    options.step = step;
    options.hooks = &hook;
    options.hook_count = 1;
    options.report_every = given->log != NULL ? 1 : given->every;
    options.checkpoint_directory = given->checkpoint;
    options.checkpoint_every = given->every;
    options.checkpoint_keep = 2;
    options.resume = given->resume;
    options.progress = TUTTI_PROGRESS_NONE;
    trainer->summary.size = sizeof trainer->summary;
    if (trainer->state != NULL) {
        options.elastic = trainer->state;
        options.commit_every = given->commit;
    }
    return run(trainer, &options);
}
