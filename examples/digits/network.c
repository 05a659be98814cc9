/*
 * The arithmetic of the network. Each inner loop runs over consecutive numbers and adds
 * to as many sums, so that the compiler can vectorise it without changing any order.
 */
#include "network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

/** A layer of this shape, without memory. */
static struct layer make_layer(const struct layer_shape *shape)
{
    int side_out =
            (shape->side + 2 * shape->padding - shape->kernel) / shape->stride + 1;

    return (struct layer){
        .shape = *shape,
        .side_out = side_out,
        .positions = (size_t)side_out * (size_t)side_out,
        .inputs =
                (size_t)shape->kernel * (size_t)shape->kernel * (size_t)shape->channels,
        .outputs = (size_t)shape->outputs,
    };
}

static size_t weight_count(const struct layer *layer)
{
    return layer->inputs * layer->outputs;
}

/** Numbers one image leaves in the output of a layer. */
static size_t output_count(const struct layer *layer)
{
    return layer->positions * layer->outputs;
}

/** Numbers one image leaves in the patches of a layer. */
static size_t patch_count(const struct layer *layer)
{
    return layer->positions * layer->inputs;
}

/** Takes n numbers from the front of a piece of memory. */
static double *take(double **memory, size_t n)
{
    double *taken = *memory;

    *memory += n;
    return taken;
}

/** Gives every layer its part of the network's memory. */
static void lay_out(struct network *net, size_t images)
{
    double *value = net->values;
    double *scratch = net->scratch;

    for (int l = 0; l < net->layer_count; l++) {
        struct layer *layer = &net->layers[l];

        layer->weights = take(&value, weight_count(layer));
        layer->bias = take(&value, layer->outputs);
        layer->transposed = take(&scratch, weight_count(layer));
        layer->patches = take(&scratch, images * patch_count(layer));
        layer->activations = take(&scratch, images * output_count(layer));
        layer->deltas = take(&scratch, images * output_count(layer));
    }
}

/** n zeros; NULL when out of memory. */
static double *zeros(size_t n)
{
    return calloc(n > 0 ? n : 1, sizeof(double));
}

bool network_init(struct network *net, const struct layer_shape *shapes, int count,
        int images_max)
{
    size_t images = (size_t)images_max;
    size_t scratch = 0;

    *net = (struct network){ .layer_count = count };
    for (int l = 0; l < count; l++) {
        struct layer *layer = &net->layers[l];

        *layer = make_layer(&shapes[l]);
        layer->parameters = weight_count(layer) + layer->outputs;
        net->parameters += layer->parameters;
        scratch += weight_count(layer) +
                images * (patch_count(layer) + 2 * output_count(layer));
    }
    net->values = zeros(net->parameters);
    net->velocity = zeros(net->parameters);
    net->scratch = zeros(scratch);
    if (net->values == NULL || net->velocity == NULL || net->scratch == NULL) {
        network_fini(net);
        return false;
    }
    lay_out(net, images);
    return true;
}

void network_fini(struct network *net)
{
    free(net->values);
    free(net->velocity);
    free(net->scratch);
    *net = (struct network){ .layer_count = 0 };
}

void network_randomize(struct network *net, uint64_t seed)
{
    for (int l = 0; l < net->layer_count; l++) {
        struct layer *layer = &net->layers[l];
        double limit = sqrt(6.0 / (double)layer->inputs);

        for (size_t w = 0; w < weight_count(layer); w++) {
            layer->weights[w] = limit * random_signed(&seed);
        }
        memset(layer->bias, 0, layer->outputs * sizeof *layer->bias);
    }
}

/** sums += factor * values */
static void add_scaled(
        double *restrict sums, double factor, const double *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sums[i] += factor * values[i];
    }
}

/**
 * out += vector * matrix, for [rows] and [rows][columns]. Zeros cost nothing: white
 * pixels and silent units are common.
 */
static void add_product(double *out, const double *vector, const double *matrix,
        size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++) {
        if (vector[r] != 0.0) {
            add_scaled(out, vector[r], matrix + r * columns, columns);
        }
    }
}

/** matrix += column * row, for [rows][columns], [rows] and [columns]. */
static void add_outer_product(double *matrix, const double *column, const double *row,
        size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++) {
        if (column[r] != 0.0) {
            add_scaled(matrix + r * columns, column[r], row, columns);
        }
    }
}

/** Where a row of a patch lies in the input of its layer, which may be partly outside. */
struct patch_row {
    size_t input; /* first number of the input that is in the row */
    size_t skip; /* numbers of the row that lie before the input's edge */
    size_t count; /* numbers that lie inside */
};

static struct patch_row locate_row(const struct layer *layer, size_t position, int row)
{
    const struct layer_shape *shape = &layer->shape;
    int y = (int)position / layer->side_out * shape->stride - shape->padding + row;
    int x = (int)position % layer->side_out * shape->stride - shape->padding;
    int begin = x < 0 ? 0 : x;
    int end = x + shape->kernel > shape->side ? shape->side : x + shape->kernel;
    size_t channels = (size_t)shape->channels;

    if (y < 0 || y >= shape->side) {
        return (struct patch_row){ .count = 0 };
    }
    return (struct patch_row){
        .input = ((size_t)y * (size_t)shape->side + (size_t)begin) * channels,
        .skip = (size_t)(begin - x) * channels,
        .count = (size_t)(end - begin) * channels,
    };
}

/** Copies the patch of a position out of a layer's input; outside it is zero. */
static void gather_patch(
        const struct layer *layer, size_t position, const double *in, double *patch)
{
    size_t row_count = layer->inputs / (size_t)layer->shape.kernel;

    memset(patch, 0, layer->inputs * sizeof *patch);
    for (int row = 0; row < layer->shape.kernel; row++) {
        struct patch_row part = locate_row(layer, position, row);

        memcpy(patch + (size_t)row * row_count + part.skip, in + part.input,
                part.count * sizeof *patch);
    }
}

/** Adds a patch of deltas back to where its numbers came from. */
static void scatter_patch(
        const struct layer *layer, size_t position, const double *patch, double *deltas)
{
    size_t row_count = layer->inputs / (size_t)layer->shape.kernel;

    for (int row = 0; row < layer->shape.kernel; row++) {
        struct patch_row part = locate_row(layer, position, row);

        add_scaled(deltas + part.input, 1.0,
                patch + (size_t)row * row_count + part.skip, part.count);
    }
}

/** One patch through one layer. */
static void forward_patch(
        const struct layer *layer, const double *patch, bool relu, double *out)
{
    memcpy(out, layer->bias, layer->outputs * sizeof *out);
    add_product(out, patch, layer->weights, layer->inputs, layer->outputs);
    for (size_t o = 0; relu && o < layer->outputs; o++) {
        out[o] = out[o] > 0.0 ? out[o] : 0.0;
    }
}

/** All images through one layer. */
static void forward_layer(struct layer *layer, const double *in, bool relu, int count)
{
    size_t in_count = (size_t)layer->shape.side * (size_t)layer->shape.side *
            (size_t)layer->shape.channels;
    double *patch = layer->patches;
    double *out = layer->activations;

    for (int image = 0; image < count; image++) {
        for (size_t p = 0; p < layer->positions; p++) {
            gather_patch(layer, p, in, patch);
            forward_patch(layer, patch, relu, out);
            patch += layer->inputs;
            out += layer->outputs;
        }
        in += in_count;
    }
}

void network_forward(struct network *net, const double *images, int count)
{
    const double *in = images;

    for (int l = 0; l < net->layer_count; l++) {
        forward_layer(&net->layers[l], in, l + 1 < net->layer_count, count);
        in = net->layers[l].activations;
    }
}

/** Index of the largest of n values. */
static size_t largest_index(const double *values, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++) {
        best = values[i] > values[best] ? i : best;
    }
    return best;
}

/** Loss of one image: -log softmax(scores)[label]; deltas: its gradient / batch. */
static double image_loss(
        const double *scores, size_t classes, int label, double batch, double *deltas)
{
    double highest = scores[largest_index(scores, classes)];
    double total = 0.0;

    for (size_t c = 0; c < classes; c++) {
        total += exp(scores[c] - highest);
    }
    for (size_t c = 0; c < classes; c++) {
        deltas[c] = exp(scores[c] - highest) / total / batch;
    }
    deltas[label] -= 1.0 / batch;
    return log(total) + highest - scores[label];
}

double network_loss(struct network *net, const int *labels, int count, double batch)
{
    const struct layer *top = &net->layers[net->layer_count - 1];
    double sum = 0.0;

    for (int image = 0; image < count; image++) {
        size_t at = (size_t)image * top->outputs;

        sum += image_loss(top->activations + at, top->outputs, labels[image], batch,
                top->deltas + at);
    }
    return sum / batch;
}

/** Gradients of a layer: outer products of patches and deltas, summed. */
static void sum_gradients(struct layer *layer, int count)
{
    const double *patch = layer->patches;
    const double *delta = layer->deltas;
    double *bias_gradient = layer->gradients + weight_count(layer);

    memset(layer->gradients, 0, layer->parameters * sizeof *layer->gradients);
    for (size_t p = 0; p < (size_t)count * layer->positions; p++) {
        add_outer_product(
                layer->gradients, patch, delta, layer->inputs, layer->outputs);
        add_scaled(bias_gradient, 1.0, delta, layer->outputs);
        patch += layer->inputs;
        delta += layer->outputs;
    }
}

static void transpose_weights(struct layer *layer)
{
    for (size_t i = 0; i < layer->inputs; i++) {
        for (size_t o = 0; o < layer->outputs; o++) {
            layer->transposed[o * layer->inputs + i] =
                    layer->weights[i * layer->outputs + o];
        }
    }
}

/** Deltas of the layer below for one image: through the weights and its ReLU. */
static void propagate(const struct layer *layer, const struct layer *below, int image)
{
    size_t at = (size_t)image;
    const double *delta = layer->deltas + at * output_count(layer);
    const double *active = below->activations + at * output_count(below);
    double *out = below->deltas + at * output_count(below);
    /* the patches are no longer needed: the gradients have been summed */
    double *patch = layer->patches + at * patch_count(layer);

    memset(out, 0, output_count(below) * sizeof *out);
    for (size_t p = 0; p < layer->positions; p++) {
        memset(patch, 0, layer->inputs * sizeof *patch);
        add_product(patch, delta, layer->transposed, layer->outputs, layer->inputs);
        scatter_patch(layer, p, patch, out);
        delta += layer->outputs;
    }
    for (size_t i = 0; i < output_count(below); i++) {
        out[i] = active[i] > 0.0 ? out[i] : 0.0;
    }
}

void network_backward(struct network *net, int layer, int count)
{
    sum_gradients(&net->layers[layer], count);
    if (layer == 0) {
        return;
    }
    transpose_weights(&net->layers[layer]);
    for (int image = 0; image < count; image++) {
        propagate(&net->layers[layer], &net->layers[layer - 1], image);
    }
}

int network_count_correct(const struct network *net, const int *labels, int count)
{
    const struct layer *top = &net->layers[net->layer_count - 1];
    int correct = 0;

    for (int image = 0; image < count; image++) {
        const double *scores = top->activations + (size_t)image * top->outputs;

        correct += largest_index(scores, top->outputs) == (size_t)labels[image] ? 1 : 0;
    }
    return correct;
}

void network_update(struct network *net, double rate, double momentum, double decay)
{
    double *velocity = net->velocity;

    for (int l = 0; l < net->layer_count; l++) {
        struct layer *layer = &net->layers[l];

        for (size_t p = 0; p < layer->parameters; p++) {
            velocity[p] = momentum * velocity[p] + layer->gradients[p] +
                    decay * layer->weights[p];
            layer->weights[p] -= rate * velocity[p];
        }
        velocity += layer->parameters;
    }
}
