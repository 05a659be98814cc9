/*
 * Data-parallel training, the part to copy from.
 *
 *   start   every rank draws its own parameters; a broadcast makes them those of rank 0
 *   step    each rank takes its part of the batch; as soon as the backward pass has the
 *           gradients of a layer they are marked ready, and are averaged over the ranks
 *           while the pass goes on to the layer below; the optimizer waits and updates
 *   epoch   each rank tests its part of the held-out images; what they count is summed
 *
 * Local gradients are divided by the batch per rank, so their average is the mean over the
 * batch even when the parts are unequal or empty. Which images a step takes depends on the
 * seed alone: any number of ranks walks through the same batches.
 */
#include "train.h"

#include <math.h>
#include <stdlib.h>

#include "../common/common.h"

enum {
    WARM_UP_EPOCHS = 5
};

static int steps_per_epoch(const struct trainer *trainer)
{
    return (trainer->data->train + trainer->batch - 1) / trainer->batch;
}

/** 3x3 filters over a square of `side` pixels. */
static struct layer_shape convolution(int side, int channels, int stride, int outputs)
{
    return (struct layer_shape){
        .side = side,
        .channels = channels,
        .kernel = 3,
        .stride = stride,
        .padding = 1,
        .outputs = outputs,
    };
}

/** Every output sees all of the input. */
static struct layer_shape connection(int side, int channels, int outputs)
{
    return (struct layer_shape){
        .side = side,
        .channels = channels,
        .kernel = side,
        .stride = 1,
        .outputs = outputs,
    };
}

/**
 * The network: two convolutions, of which the second halves the resolution, the hidden
 * layers, and the classes.
 * @param[out] shapes  room for NETWORK_LAYERS_MAX
 * @return layers
 */
static int choose_shapes(const struct options *options, struct layer_shape *shapes)
{
    int count = 0;
    int side = DATA_SIDE / 2;
    int channels = 32;

    shapes[count++] = convolution(DATA_SIDE, 1, 1, 16);
    shapes[count++] = convolution(DATA_SIDE, 16, 2, channels);
    for (int h = 0; h < options->hidden_count; h++) {
        shapes[count++] = connection(side, channels, options->hidden[h]);
        side = 1;
        channels = options->hidden[h];
    }
    shapes[count++] = connection(side, channels, DATA_CLASSES);
    return count;
}

/** Allocates what the network and the batch ask for. */
static bool allocate(struct trainer *trainer)
{
    struct layer_shape shapes[NETWORK_LAYERS_MAX];
    int count = choose_shapes(trainer->options, shapes);
    /* evaluation, too, goes in pieces of this size */
    int part_max = (trainer->batch + trainer->size - 1) / trainer->size;

    trainer->part_max = part_max;
    trainer->images = calloc((size_t)part_max * DATA_PIXELS, sizeof *trainer->images);
    trainer->labels = calloc((size_t)part_max, sizeof *trainer->labels);
    return trainer->images != NULL && trainer->labels != NULL &&
            batches_init(&trainer->batches, trainer->data, trainer->options->seed,
                    trainer->rank, trainer->size) &&
            network_init(&trainer->net, shapes, count, part_max);
}

/**
 * Registers the layers, weights and bias in one; the gradients are the reducer's, and the
 * optimizer updates the values.
 */
static void create_optimizer(struct trainer *trainer)
{
    struct network *net = &trainer->net;
    char names[NETWORK_LAYERS_MAX][16];
    tutti_param params[NETWORK_LAYERS_MAX] = { { .name = NULL } };
    tutti_optimizer_options sgd;

    for (int l = 0; l < net->layer_count; l++) {
        (void)snprintf(names[l], sizeof names[l], "layer%d", l);
        params[l].name = names[l];
        params[l].value = net->layers[l].weights;
        params[l].count = (int64_t)net->layers[l].parameters;
        params[l].dtype = TUTTI_FLOAT64;
    }
    check(trainer->job,
            tutti_reducer_create(trainer->job, params, (size_t)net->layer_count, NULL,
                    &trainer->reducer));
    for (int l = 0; l < net->layer_count; l++) {
        net->layers[l].gradients = tutti_reducer_gradient(trainer->reducer, (size_t)l);
    }
    tutti_optimizer_options_default(&sgd);
    sgd.kind = TUTTI_OPTIMIZER_SGD;
    sgd.momentum = 0.9;
    sgd.weight_decay = 3e-3;
    check(trainer->job,
            tutti_optimizer_create(trainer->reducer, &sgd, &trainer->optimizer));
}

void trainer_init(struct trainer *trainer, tutti *job, const struct options *options,
        const struct dataset *data, FILE *log)
{
    int size = tutti_size(job);

    *trainer = (struct trainer){
        .job = job,
        .options = options,
        .data = data,
        .log = log,
        .rank = tutti_rank(job),
        .size = size,
        .batch = options->batch != 0 ? options->batch : options->batch_per_rank * size,
        .rate = options->scale_rate ? options->rate * size : options->rate,
    };
    if (options->scale_rate) {
        trainer->warm_up_steps = WARM_UP_EPOCHS * steps_per_epoch(trainer);
    }
    if (!allocate(trainer)) {
        check(job, tutti_set_last_error(TUTTI_ERR_NO_MEMORY, "out of memory"));
    }
    create_optimizer(trainer);

    /* each rank draws other numbers, to show what the broadcast is for */
    network_randomize(&trainer->net, options->seed + (uint64_t)trainer->rank);
    check(job,
            tutti_broadcast(job, "parameters", trainer->net.values,
                    (int64_t)trainer->net.parameters, TUTTI_FLOAT64, 0, NULL));
}

void trainer_fini(struct trainer *trainer)
{
    check(trainer->job, tutti_optimizer_destroy(trainer->optimizer));
    check(trainer->job, tutti_reducer_destroy(trainer->reducer));
    network_fini(&trainer->net);
    free(trainer->images);
    free(trainer->labels);
    batches_fini(&trainer->batches);
    *trainer = (struct trainer){ .job = NULL };
}

/** The learning rate of the current step: warm-up to the peak, then down a cosine. */
static double current_rate(const struct trainer *trainer)
{
    int64_t total = (int64_t)trainer->options->epochs * steps_per_epoch(trainer);
    int64_t step = trainer->step;

    if (step < trainer->warm_up_steps) {
        double from = trainer->options->rate;
        double done = (double)(step + 1) / trainer->warm_up_steps;

        return from + (trainer->rate - from) * done;
    }
    return trainer->rate * 0.5 * (1.0 + cos(acos(-1.0) * (double)step / (double)total));
}

/**
 * One step on the images order[first] to order[first + batch - 1].
 * @return the mean loss of the batch, equal on all ranks
 */
static double train_step(struct trainer *trainer, int part, int batch)
{
    struct network *net = &trainer->net;
    double loss;
    double begin;

    network_forward(net, trainer->images, part);
    loss = network_loss(net, trainer->labels, part, (double)batch / trainer->size);
    check(trainer->job, tutti_reducer_average(trainer->reducer, "loss", &loss));
    for (int l = net->layer_count - 1; l >= 0; l--) {
        network_backward(net, l, part);
        begin = now();
        check(trainer->job, tutti_reducer_ready(trainer->reducer, (size_t)l));
        trainer->communication += now() - begin;
    }
    check(trainer->job,
            tutti_optimizer_set_learning_rate(
                    trainer->optimizer, current_rate(trainer)));
    begin = now();
    check(trainer->job, tutti_optimizer_step(trainer->optimizer, NULL));
    trainer->communication += now() - begin;
    trainer->step++;
    return loss;
}

/** Tests this rank's part of the held-out images; the result is over all ranks. */
static void evaluate(struct trainer *trainer, struct progress *progress)
{
    const struct dataset *data = trainer->data;
    int held_out = data->count - data->train;
    int end = data->train + batches_part(held_out, trainer->rank + 1, trainer->size);
    int at = data->train + batches_part(held_out, trainer->rank, trainer->size);
    double sums[3] = { 0 }; /* recognised, tested, seconds of communication */

    while (at < end) {
        int part = end - at < trainer->part_max ? end - at : trainer->part_max;

        network_forward(&trainer->net, data->images + (size_t)at * DATA_PIXELS, part);
        sums[0] += network_count_correct(&trainer->net, data->labels + at, part);
        sums[1] += part;
        at += part;
    }
    sums[2] = trainer->communication;
    check(trainer->job,
            tutti_allreduce(trainer->job, "evaluation", sums, sums, 3, TUTTI_FLOAT64,
                    TUTTI_SUM, NULL));
    progress->accuracy = sums[0] / sums[1];
    progress->communication = sums[2] / trainer->size;
}

void trainer_epoch(struct trainer *trainer, int epoch, struct progress *progress)
{
    double begin = now();
    int images = trainer->data->train;

    *progress = (struct progress){ .loss = 0.0 };
    trainer->communication = 0.0;
    batches_shuffle(&trainer->batches, epoch);
    for (int first = 0; first < images; first += trainer->batch) {
        int left = images - first;
        int batch = left < trainer->batch ? left : trainer->batch;
        int part = batches_load(&trainer->batches, epoch, first, batch, trainer->images,
                trainer->labels);
        double loss = train_step(trainer, part, batch);

        if (trainer->log != NULL) {
            (void)fprintf(trainer->log, "%lld %.17g\n", (long long)trainer->step, loss);
        }
        progress->loss += loss * batch / images;
    }
    evaluate(trainer, progress);
    progress->seconds = now() - begin;
}
