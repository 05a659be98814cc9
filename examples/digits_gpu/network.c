#include "network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../digits/random.h"

/* Numbers to a boundary of 256 bytes. */
#define BOUNDARY ((size_t)64)

/* Sides of the inputs, channels, ...: as in examples/digits. */
static const struct layer_view shapes[LAYERS] = {
    { .side = 8, .channels = 1, .kernel = 3, .stride = 1, .padding = 1, .outputs = 16 },
    { .side = 8,
            .channels = 16,
            .kernel = 3,
            .stride = 2,
            .padding = 1,
            .outputs = 32 },
    { .side = 4,
            .channels = 32,
            .kernel = 4,
            .stride = 1,
            .padding = 0,
            .outputs = 64 },
    { .side = 1,
            .channels = 64,
            .kernel = 1,
            .stride = 1,
            .padding = 0,
            .outputs = CLASSES },
};

static size_t output_count(const struct layer_view *v)
{
    return (size_t)v->side_out * (size_t)v->side_out * (size_t)v->outputs;
}

static size_t patch_count(const struct layer_view *v)
{
    return (size_t)v->kernel * (size_t)v->kernel * (size_t)v->channels;
}

/* The tensors of layer l: gradients lie in the order in which they are made. */
static struct tensor *tensors_of(struct network *net, int l)
{
    return net->tensors + 2 * (size_t)(LAYERS - 1 - l);
}

static void add_tensor(struct network *net, struct tensor *tensor, size_t count)
{
    tensor->first = net->count;
    tensor->count = (count + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
    net->count += tensor->count;
}

static void make_layers(struct network *net)
{
    for (int l = LAYERS - 1; l >= 0; l--) {
        struct layer_view *v = &net->layers[l];
        struct tensor *tensors = tensors_of(net, l);

        *v = shapes[l];
        v->side_out = (v->side + 2 * v->padding - v->kernel) / v->stride + 1;
        v->relu = l + 1 < LAYERS;
        v->input_relu = l > 0;
        add_tensor(net, &tensors[0], patch_count(v) * (size_t)v->outputs);
        add_tensor(net, &tensors[1], (size_t)v->outputs);
        (void)snprintf(tensors[0].name, sizeof tensors[0].name, "layer%d.weights", l);
        (void)snprintf(tensors[1].name, sizeof tensors[1].name, "layer%d.bias", l);
    }
}

static tutti_status allocate(struct network *net, int images_max)
{
    const size_t images = (size_t)images_max;
    size_t scratch = 0;
    void *memory = NULL;
    const tutti_status status = tutti_alloc(
            net->job, net->count * sizeof *net->gradients, TUTTI_DEVICE, &memory);

    if (status != TUTTI_OK) {
        return status;
    }
    net->gradients = memory;
    for (int l = 0; l < LAYERS; l++) {
        scratch += 2 * images * output_count(&net->layers[l]);
    }
    net->values = gpu_alloc(net->gpu, net->count * sizeof *net->values);
    net->velocity = gpu_alloc(net->gpu, net->count * sizeof *net->velocity);
    net->scratch = gpu_alloc(net->gpu, scratch * sizeof *net->scratch);
    net->losses = gpu_alloc(net->gpu, images * sizeof *net->losses);
    net->correct = gpu_alloc(net->gpu, images * sizeof *net->correct);
    net->total = gpu_alloc(net->gpu, sizeof *net->total);
    return TUTTI_OK;
}

/* Tells every layer where its memory lies. */
static void lay_out(struct network *net, int images_max)
{
    float *scratch = net->scratch;

    for (int l = 0; l < LAYERS; l++) {
        struct layer_view *v = &net->layers[l];
        const struct tensor *tensors = tensors_of(net, l);
        const size_t outputs = (size_t)images_max * output_count(v);

        v->weights = net->values + tensors[0].first;
        v->bias = net->values + tensors[1].first;
        v->weights_gradient = net->gradients + tensors[0].first;
        v->bias_gradient = net->gradients + tensors[1].first;
        v->out = scratch;
        v->delta = scratch + outputs;
        v->in = l > 0 ? net->layers[l - 1].out : NULL;
        v->delta_in = l > 0 ? net->layers[l - 1].delta : NULL;
        scratch += 2 * outputs;
    }
}

/* Weights (He's uniform) go up once; biases, and what fills tensors up, are 0. */
static void randomize(struct network *net, uint64_t seed)
{
    float *values = calloc(net->count, sizeof *values);

    for (int l = 0; l < LAYERS && values != NULL; l++) {
        const struct layer_view *v = &net->layers[l];
        const float limit = sqrtf(6.0F / (float)patch_count(v));

        for (size_t w = 0; w < patch_count(v) * (size_t)v->outputs; w++) {
            values[tensors_of(net, l)[0].first + w] =
                    limit * (float)random_signed(&seed);
        }
    }
    if (values == NULL) {
        (void)snprintf(net->gpu->error, sizeof net->gpu->error, "out of memory");
    }
    gpu_upload(net->gpu, net->values, values, net->count * sizeof *values);
    gpu_wait(net->gpu);
    free(values);
}

tutti_status network_init(
        struct network *net, struct gpu *gpu, tutti *job, int images_max, uint64_t seed)
{
    tutti_status status;

    *net = (struct network){ .gpu = gpu, .job = job };
    make_layers(net);
    status = allocate(net, images_max);
    if (status == TUTTI_OK) {
        lay_out(net, images_max);
        randomize(net, seed);
    }
    return status;
}

void network_fini(struct network *net)
{
    if (net->gpu == NULL) {
        return;
    }
    gpu_wait(net->gpu);
    gpu_free(net->gpu, net->values);
    gpu_free(net->gpu, net->velocity);
    gpu_free(net->gpu, net->scratch);
    gpu_free(net->gpu, net->losses);
    gpu_free(net->gpu, net->correct);
    gpu_free(net->gpu, net->total);
    if (net->gradients != NULL) {
        (void)tutti_free(net->job, net->gradients);
    }
    *net = (struct network){ .gpu = NULL };
}

/* ------------------------------------------------------------------------------ passes */

void network_forward(struct network *net, const float *images, int count)
{
    net->layers[0].in = images;
    for (int l = 0; l < LAYERS; l++) {
        struct layer_view *v = &net->layers[l];

        v->images = count;
        gpu_launch(net->gpu, KERNEL_forward, forward_items(v), v);
    }
}

static struct loss_view loss_of(struct network *net, int count)
{
    const struct layer_view *top = &net->layers[LAYERS - 1];

    return (struct loss_view){ .scores = top->out,
        .delta = top->delta,
        .losses = net->losses,
        .correct = net->correct,
        .total = net->total,
        .images = count,
        .classes = CLASSES };
}

void network_loss(struct network *net, const int32_t *labels, int count, int batch)
{
    struct loss_view loss = loss_of(net, count);

    loss.labels = labels;
    loss.batch = batch;
    gpu_launch(net->gpu, KERNEL_loss, loss_items(&loss), &loss);
}

void network_add_losses(struct network *net, int count)
{
    struct loss_view loss = loss_of(net, count);

    gpu_launch(net->gpu, KERNEL_total, total_items(&loss), &loss);
}

void network_backward(struct network *net, int l)
{
    struct layer_view *v = &net->layers[l];

    gpu_launch(net->gpu, KERNEL_weights_gradient, weights_gradient_items(v), v);
    gpu_launch(net->gpu, KERNEL_bias_gradient, bias_gradient_items(v), v);
    if (l > 0) {
        gpu_launch(net->gpu, KERNEL_deltas, deltas_items(v), v);
    }
}

void network_update(struct network *net, double rate, double momentum, double decay)
{
    struct update_view update = { .values = net->values,
        .velocity = net->velocity,
        .gradients = net->gradients,
        .count = (int32_t)net->count,
        .rate = (float)rate,
        .momentum = (float)momentum,
        .decay = (float)decay };

    gpu_launch(net->gpu, KERNEL_update, update_items(&update), &update);
}
