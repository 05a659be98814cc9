/*
 * Data-parallel training on GPUs, the part to copy from.
 *
 *   step   the backward pass puts kernels on the stream; after those of a layer its gradients
 *          are submitted *with the stream*, so that their sum waits on the GPU for just these
 *          kernels and runs while the pass goes on. tutti_wait_stream_all() lets the stream,
 *          not the host, wait for the sums; then comes the update. The host waits for no
 *          kernel in a step: it is a whole step ahead when the GPU lets it.
 *   epoch  the images of an epoch go to the GPU in one copy; the loss and what was
 *          recognised come back in one
 *
 * Gradients lie in memory of tutti_alloc(), in the order in which they are made: several are
 * reduced in one go where they lie, without a copy. Local gradients are divided by the size
 * of the whole batch, so their SUM is the mean over the batch.
 */
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const double momentum = 0.9;
static const double weight_decay = 3e-3;

static double now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* An error of the GPU ends the training; the text is in gpu->error. */
static tutti_status gpu_status(const struct trainer *trainer)
{
    return gpu_is_well(trainer->gpu) ? TUTTI_OK : TUTTI_ERR_SYSTEM;
}

static int part_max(const struct trainer *trainer)
{
    return (trainer->options->batch + trainer->size - 1) / trainer->size;
}

/* ------------------------------------------------------------------------------ memory */

static int held_out(const struct trainer *trainer)
{
    return trainer->data->count - trainer->data->train;
}

/* This rank's held-out images, from the dataset's first on. */
static int held_out_begin(const struct trainer *trainer, int rank)
{
    return batches_part(held_out(trainer), rank, trainer->size);
}

static tutti_status allocate(struct trainer *trainer)
{
    const size_t images = (size_t)trainer->data->count;
    const size_t part = (size_t)part_max(trainer);
    struct gpu *gpu = trainer->gpu;

    trainer->pixels = calloc(part * DATA_PIXELS, sizeof *trainer->pixels);
    trainer->numbers = calloc(part, sizeof *trainer->numbers);
    trainer->host_images =
            gpu_alloc_host(gpu, images * DATA_PIXELS * sizeof *trainer->host_images);
    trainer->host_labels = gpu_alloc_host(gpu, images * sizeof *trainer->host_labels);
    trainer->host_correct = gpu_alloc_host(gpu, images * sizeof *trainer->host_correct);
    trainer->host_total = gpu_alloc_host(gpu, sizeof *trainer->host_total);
    trainer->images = gpu_alloc(gpu, images * DATA_PIXELS * sizeof *trainer->images);
    trainer->labels = gpu_alloc(gpu, images * sizeof *trainer->labels);
    if (trainer->pixels == NULL || trainer->numbers == NULL ||
            !batches_init(&trainer->batches, trainer->data, trainer->options->seed,
                    trainer->rank, trainer->size)) {
        return TUTTI_ERR_NO_MEMORY;
    }
    return gpu_status(trainer);
}

/* Copies an image to pinned memory. */
static void put_image(struct trainer *trainer, int at, const double *pixels, int label)
{
    for (int i = 0; i < DATA_PIXELS; i++) {
        trainer->host_images[(size_t)at * DATA_PIXELS + (size_t)i] = (float)pixels[i];
    }
    trainer->host_labels[at] = label;
}

/* What is to be recognised stays behind the training images for good. */
static void upload_held_out(struct trainer *trainer)
{
    const struct dataset *data = trainer->data;

    for (int i = data->train; i < data->count; i++) {
        put_image(trainer, i, data->images + (size_t)i * DATA_PIXELS, data->labels[i]);
    }
    gpu_upload(trainer->gpu, trainer->images, trainer->host_images,
            (size_t)data->count * DATA_PIXELS * sizeof *trainer->images);
    gpu_upload(trainer->gpu, trainer->labels, trainer->host_labels,
            (size_t)data->count * sizeof *trainer->labels);
    gpu_wait(trainer->gpu);
}

/* Every rank gets the parameters of rank 0. */
static tutti_status broadcast_parameters(struct trainer *trainer)
{
    tutti_options options;

    tutti_options_default(&options);
    options.stream = trainer->gpu->stream;
    return tutti_broadcast(trainer->job, "parameters", trainer->net.values,
            (int64_t)trainer->net.count, TUTTI_FLOAT32, 0, &options);
}

tutti_status trainer_init(struct trainer *trainer, tutti *job, struct gpu *gpu,
        const struct options *options, const struct dataset *data)
{
    tutti_status status;

    *trainer = (struct trainer){ .job = job,
        .gpu = gpu,
        .options = options,
        .data = data,
        .rank = tutti_rank(job),
        .size = tutti_size(job) };
    status = allocate(trainer);
    if (status == TUTTI_OK) {
        upload_held_out(trainer);
        /* each rank draws other numbers, to show what the broadcast is for */
        status = network_init(&trainer->net, gpu, job, part_max(trainer),
                options->seed + (uint64_t)trainer->rank);
    }
    if (status == TUTTI_OK) {
        status = gpu_status(trainer);
    }
    return status == TUTTI_OK ? broadcast_parameters(trainer) : status;
}

void trainer_fini(struct trainer *trainer)
{
    if (trainer->gpu == NULL) {
        return;
    }
    gpu_wait(trainer->gpu);
    network_fini(&trainer->net);
    batches_fini(&trainer->batches);
    free(trainer->pixels);
    free(trainer->numbers);
    gpu_free_host(trainer->gpu, trainer->host_images);
    gpu_free_host(trainer->gpu, trainer->host_labels);
    gpu_free_host(trainer->gpu, trainer->host_correct);
    gpu_free_host(trainer->gpu, trainer->host_total);
    gpu_free(trainer->gpu, trainer->images);
    gpu_free(trainer->gpu, trainer->labels);
    *trainer = (struct trainer){ .job = NULL };
}

/* ------------------------------------------------------------------------------- a step */

/* Submits one gradient, to be summed over the ranks where it lies, behind the stream. */
static tutti_status submit(
        struct trainer *trainer, const struct tensor *tensor, tutti_request *request)
{
    float *gradient = trainer->net.gradients + tensor->first;
    tutti_options options;

    tutti_options_default(&options);
    options.stream = trainer->gpu->stream;
    options.step = trainer->step; /* ranks in different steps get an error */
    return tutti_allreduce_async(trainer->job, tensor->name, gradient, gradient,
            (int64_t)tensor->count, TUTTI_FLOAT32, TUTTI_SUM, &options, request);
}

/* The backward pass. The sums over the ranks begin on the GPU while it runs. */
static tutti_status backward(struct trainer *trainer, tutti_request *requests)
{
    struct network *net = &trainer->net;
    tutti_status status = TUTTI_OK;

    for (int l = LAYERS - 1; l >= 0 && status == TUTTI_OK; l--) {
        const int first = 2 * (LAYERS - 1 - l);

        network_backward(net, l);
        status = submit(trainer, &net->tensors[first], &requests[first]);
        if (status == TUTTI_OK) {
            status = submit(trainer, &net->tensors[first + 1], &requests[first + 1]);
        }
    }
    return status;
}

/* The learning rate of the current step: down a cosine. */
static double current_rate(const struct trainer *trainer)
{
    const int batch = trainer->options->batch;
    const int steps = (trainer->data->train + batch - 1) / batch;
    const double total = (double)trainer->options->epochs * steps;

    return trainer->options->rate * 0.5 *
            (1.0 + cos(acos(-1.0) * (double)trainer->step / total));
}

/* One step on `part` images that begin at `first` in this rank's part of the epoch. */
static tutti_status train_step(struct trainer *trainer, int first, int part, int batch)
{
    tutti_request requests[TENSORS] = { TUTTI_REQUEST_NULL };
    struct network *net = &trainer->net;
    tutti_status status;
    tutti_status waited;

    network_forward(net, trainer->images + (size_t)first * DATA_PIXELS, part);
    network_loss(net, trainer->labels + first, part, batch);
    network_add_losses(net, part);
    status = backward(trainer, requests);
    /* also after an error: what was submitted still owns its memory */
    waited = tutti_wait_stream_all(
            trainer->job, TENSORS, requests, trainer->gpu->stream, TUTTI_FOREVER, NULL);
    if (waited != TUTTI_OK) { /* and so does what a failed job has left on the GPU */
        (void)!tutti_wait_all(trainer->job, TENSORS, requests, TUTTI_FOREVER, NULL);
    }
    if (status != TUTTI_OK || waited != TUTTI_OK) {
        return status != TUTTI_OK ? status : waited;
    }
    network_update(net, current_rate(trainer), momentum, weight_decay);
    trainer->step++;
    return gpu_status(trainer);
}

/* ----------------------------------------------------------------------------- an epoch */

/* This rank's images of all batches of an epoch, one part behind the other. */
static void upload_epoch(struct trainer *trainer, int epoch)
{
    const int images = trainer->data->train;
    int at = 0;

    batches_shuffle(&trainer->batches, epoch);
    for (int first = 0; first < images; first += trainer->options->batch) {
        const int left = images - first;
        const int batch =
                left < trainer->options->batch ? left : trainer->options->batch;
        const int part = batches_load(&trainer->batches, epoch, first, batch,
                trainer->pixels, trainer->numbers);

        for (int i = 0; i < part; i++) {
            put_image(trainer, at++, trainer->pixels + (size_t)i * DATA_PIXELS,
                    trainer->numbers[i]);
        }
    }
    gpu_upload(trainer->gpu, trainer->images, trainer->host_images,
            (size_t)at * DATA_PIXELS * sizeof *trainer->images);
    gpu_upload(trainer->gpu, trainer->labels, trainer->host_labels,
            (size_t)at * sizeof *trainer->labels);
}

/* Puts the test of this rank's held-out images on the stream. @return how many */
static int launch_evaluation(struct trainer *trainer)
{
    const int begin = held_out_begin(trainer, trainer->rank);
    const int count = held_out_begin(trainer, trainer->rank + 1) - begin;
    const int most = part_max(trainer);

    for (int at = 0; at < count; at += most) {
        const int part = count - at < most ? count - at : most;
        const size_t image = (size_t)trainer->data->train + (size_t)begin + (size_t)at;

        network_forward(&trainer->net, trainer->images + image * DATA_PIXELS, part);
        network_loss(&trainer->net, trainer->labels + image, part, part);
        gpu_download(trainer->gpu, trainer->host_correct + at, trainer->net.correct,
                (size_t)part * sizeof *trainer->host_correct);
    }
    return count;
}

/* Waits for the GPU, and sums loss and counts over the ranks, in host memory. */
static tutti_status sum_up(
        struct trainer *trainer, int tested, double weight, struct progress *progress)
{
    double sums[3] = { 0 };
    tutti_status status;

    gpu_download(trainer->gpu, trainer->host_total, trainer->net.total,
            sizeof *trainer->host_total);
    gpu_wait(trainer->gpu);
    status = gpu_status(trainer);
    if (status != TUTTI_OK) {
        return status;
    }
    sums[0] = weight * (double)*trainer->host_total;
    sums[1] = tested;
    for (int i = 0; i < tested; i++) {
        sums[2] += trainer->host_correct[i];
    }
    status = tutti_allreduce(
            trainer->job, "progress", sums, sums, 3, TUTTI_FLOAT64, TUTTI_SUM, NULL);
    progress->loss = sums[0];
    progress->accuracy = sums[2] / sums[1];
    return status;
}

tutti_status trainer_epoch(
        struct trainer *trainer, int epoch, struct progress *progress)
{
    const double begin = now();
    const int images = trainer->data->train;
    const int steps = (images + trainer->options->batch - 1) / trainer->options->batch;
    int at = 0;
    tutti_status status = TUTTI_OK;

    upload_epoch(trainer, epoch);
    gpu_zero(trainer->gpu, trainer->net.total, sizeof *trainer->net.total);
    for (int s = 0; s < steps && status == TUTTI_OK; s++) {
        const int left = images - s * trainer->options->batch;
        const int batch =
                left < trainer->options->batch ? left : trainer->options->batch;
        const int part = batches_part(batch, trainer->rank + 1, trainer->size) -
                batches_part(batch, trainer->rank, trainer->size);

        status = train_step(trainer, at, part, batch);
        at += part;
    }
    if (status == TUTTI_OK) {
        status = sum_up(trainer, launch_evaluation(trainer), 1.0 / steps, progress);
    }
    progress->seconds = now() - begin;
    return status;
}
