/*
 * Data-parallel training, the part to copy from.
 *
 *   start   every rank draws its own parameters; a broadcast makes them those of rank 0
 *   step    each rank takes its part of the batch; as soon as the backward pass has the
 *           gradients of a layer they are submitted, and are summed over the ranks while
 *           the pass goes on to the layer below; one wait before the update
 *   epoch   each rank tests its part of the held-out images; the counts are summed
 *
 * Local gradients are divided by the size of the whole batch, so their SUM is the mean
 * over the batch even when the parts are unequal or empty. Which images a step takes
 * depends on the seed alone: any number of ranks walks through the same batches.
 */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum {
    WARM_UP_EPOCHS = 5
};

static const double momentum = 0.9;
static const double weight_decay = 3e-3;

int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int steps_per_epoch(const struct trainer *trainer)
{
    return (trainer->data->train + trainer->batch - 1) / trainer->batch;
}

static void name_tensors(struct trainer *trainer)
{
    for (int l = 0; l < trainer->net.layer_count; l++) {
        (void)snprintf(
                trainer->weights_name[l], TENSOR_NAME_BYTES, "layer%d.weights", l);
        (void)snprintf(trainer->bias_name[l], TENSOR_NAME_BYTES, "layer%d.bias", l);
    }
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
static tutti_status allocate(struct trainer *trainer)
{
    struct layer_shape shapes[NETWORK_LAYERS_MAX];
    int count = choose_shapes(trainer->options, shapes);
    /* evaluation, too, goes in pieces of this size */
    int part_max = (trainer->batch + trainer->size - 1) / trainer->size;
    void *memory;
    tutti_status status = tutti_alloc(trainer->job,
            network_parameters(shapes, count) * sizeof *trainer->gradients, TUTTI_HOST,
            &memory);

    if (status != TUTTI_OK) {
        return status;
    }
    trainer->gradients = memory;
    trainer->part_max = part_max;
    trainer->images = calloc((size_t)part_max * DATA_PIXELS, sizeof *trainer->images);
    trainer->labels = calloc((size_t)part_max, sizeof *trainer->labels);
    if (trainer->images == NULL || trainer->labels == NULL ||
            !batches_init(&trainer->batches, trainer->data, trainer->options->seed,
                    trainer->rank, trainer->size) ||
            !network_init(&trainer->net, shapes, count, part_max, trainer->gradients)) {
        return TUTTI_ERR_NO_MEMORY;
    }
    return TUTTI_OK;
}

tutti_status trainer_init(struct trainer *trainer, tutti *job,
        const struct options *options, const struct dataset *data, FILE *log)
{
    tutti_status status;
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
    status = allocate(trainer);
    if (status != TUTTI_OK) {
        return status;
    }
    name_tensors(trainer);

    /* each rank draws other numbers, to show what the broadcast is for */
    network_randomize(&trainer->net, options->seed + (uint64_t)trainer->rank);
    return tutti_broadcast(job, "parameters", trainer->net.values,
            (int64_t)trainer->net.parameters, TUTTI_FLOAT64, 0, NULL);
}

void trainer_fini(struct trainer *trainer)
{
    network_fini(&trainer->net);
    if (trainer->job != NULL) {
        (void)tutti_free(trainer->job, trainer->gradients);
    }
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

/** Submits one tensor to be summed over the ranks, in place, and adds up the time. */
static tutti_status submit(struct trainer *trainer, const char *name, double *gradient,
        size_t count, tutti_request *request)
{
    int64_t begin = now_ns();
    tutti_options options;
    tutti_status status;

    tutti_options_default(&options);
    options.step = trainer->step; /* ranks in different steps get an error */
    status = tutti_allreduce_async(trainer->job, name, gradient, gradient,
            (int64_t)count, TUTTI_FLOAT64, TUTTI_SUM, &options, request);
    trainer->communication_ns += now_ns() - begin;
    return status;
}

/**
 * The backward pass. The sums over the ranks begin while it runs.
 * @param[out] requests  two for each layer, from the last; untouched after an error
 */
static tutti_status backward(struct trainer *trainer, int part, tutti_request *requests)
{
    struct network *net = &trainer->net;
    tutti_status status = TUTTI_OK;

    for (int l = net->layer_count - 1; l >= 0 && status == TUTTI_OK; l--) {
        const struct layer *layer = &net->layers[l];

        network_backward(net, l, part);
        status = submit(trainer, trainer->weights_name[l], layer->weights_gradient,
                layer->inputs * layer->outputs, requests++);
        if (status == TUTTI_OK) {
            status = submit(trainer, trainer->bias_name[l], layer->bias_gradient,
                    layer->outputs, requests++);
        }
    }
    return status;
}

/** Waits for everything a step submitted, and adds up the time. */
static tutti_status wait_for(
        struct trainer *trainer, tutti_request *requests, size_t count)
{
    int64_t begin = now_ns();
    tutti_status status =
            tutti_wait_all(trainer->job, count, requests, TUTTI_FOREVER, NULL);

    trainer->communication_ns += now_ns() - begin;
    return status;
}

/**
 * One step on the images order[first] to order[first + batch - 1].
 * @param[out] loss  mean over the batch, equal on all ranks
 */
static tutti_status train_step(
        struct trainer *trainer, int part, int batch, double *loss)
{
    /* of the gradients, and the last one of the loss */
    tutti_request requests[2 * NETWORK_LAYERS_MAX + 1] = { TUTTI_REQUEST_NULL };
    struct network *net = &trainer->net;
    size_t count = 2 * (size_t)net->layer_count;
    double sum;
    tutti_status status;
    tutti_status waited;

    network_forward(net, trainer->images, part);
    sum = network_loss(net, trainer->labels, part, batch);
    status = submit(trainer, "loss", &sum, 1, &requests[count]);
    if (status == TUTTI_OK) {
        status = backward(trainer, part, requests);
    }
    /* also after an error: what was submitted still owns its memory */
    waited = wait_for(trainer, requests, count + 1);
    if (status != TUTTI_OK || waited != TUTTI_OK) {
        return status != TUTTI_OK ? status : waited;
    }
    network_update(net, current_rate(trainer), momentum, weight_decay);
    trainer->step++;
    *loss = sum;
    return TUTTI_OK;
}

/** Sums over the ranks, in place, and adds up the time. */
static tutti_status sum_counts(struct trainer *trainer, int64_t *counts, int64_t n)
{
    int64_t begin = now_ns();
    tutti_status status = tutti_allreduce(
            trainer->job, "counts", counts, counts, n, TUTTI_INT64, TUTTI_SUM, NULL);

    trainer->communication_ns += now_ns() - begin;
    return status;
}

/** Tests this rank's part of the held-out images; the result is over all ranks. */
static tutti_status evaluate(struct trainer *trainer, struct progress *progress)
{
    const struct dataset *data = trainer->data;
    int held_out = data->count - data->train;
    int end = data->train + batches_part(held_out, trainer->rank + 1, trainer->size);
    int at = data->train + batches_part(held_out, trainer->rank, trainer->size);
    int64_t counts[3] = { 0 }; /* recognised, tested, ns of communication */
    tutti_status status;

    while (at < end) {
        int part = end - at < trainer->part_max ? end - at : trainer->part_max;

        network_forward(&trainer->net, data->images + (size_t)at * DATA_PIXELS, part);
        counts[0] += network_count_correct(&trainer->net, data->labels + at, part);
        counts[1] += part;
        at += part;
    }
    counts[2] = trainer->communication_ns;
    status = sum_counts(trainer, counts, 3);
    if (status == TUTTI_OK) {
        progress->accuracy = (double)counts[0] / (double)counts[1];
        progress->communication = (double)counts[2] * 1e-9 / trainer->size;
    }
    return status;
}

tutti_status trainer_epoch(
        struct trainer *trainer, int epoch, struct progress *progress)
{
    int64_t begin = now_ns();
    int images = trainer->data->train;
    tutti_status status;

    *progress = (struct progress){ .loss = 0.0 };
    trainer->communication_ns = 0;
    batches_shuffle(&trainer->batches, epoch);
    for (int first = 0; first < images; first += trainer->batch) {
        int left = images - first;
        int batch = left < trainer->batch ? left : trainer->batch;
        int part = batches_load(&trainer->batches, epoch, first, batch, trainer->images,
                trainer->labels);
        double loss = 0.0;

        status = train_step(trainer, part, batch, &loss);
        if (status != TUTTI_OK) {
            return status;
        }
        if (trainer->log != NULL) {
            (void)fprintf(trainer->log, "%lld %.17g\n", (long long)trainer->step, loss);
        }
        progress->loss += loss * batch / images;
    }
    status = evaluate(trainer, progress);
    progress->seconds = (double)(now_ns() - begin) * 1e-9;
    return status;
}
