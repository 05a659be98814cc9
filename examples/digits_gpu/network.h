/*
 * The network of examples/digits on a GPU, in float32: two convolutions, a hidden layer and
 * the classes. Everything here is put on the GPU's stream and waits for nothing.
 */
#ifndef DIGITS_GPU_NETWORK_H
#define DIGITS_GPU_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "gpu.h"

enum {
    LAYERS = 4,
    TENSORS = 2 * LAYERS, /* weights and bias of each */
    CLASSES = 10
};

/** A tensor of parameters: its place in each of the arrays below. */
struct tensor {
    char name[32]; /* the same on all ranks */
    size_t first; /* where it begins; a multiple of 256 bytes, as tutti wants it */
    size_t count; /* numbers, with what fills it up to such a multiple: zeros */
};

/** The network; zeroed is valid for network_fini(). */
struct network {
    struct gpu *gpu; /* borrowed */
    tutti *job; /* borrowed; owns the gradients */
    struct layer_view layers[LAYERS];
    struct tensor tensors[TENSORS]; /* as the backward pass makes them */
    size_t count; /* numbers in each of the next three */
    float *values; /* owned, as is all that follows; device memory */
    float *velocity;
    float *gradients; /* of tutti_alloc(): reduced where they lie */
    float *scratch; /* outputs and deltas of all layers */
    float *losses; /* [images_max] */
    int32_t *correct; /* [images_max] */
    float *total; /* one number: of all losses since it was zeroed */
};

/**
 * Builds a network for passes of up to images_max images, with weights drawn from a seed.
 * @return TUTTI_OK, or an error of tutti; errors of the GPU are in gpu->error
 */
tutti_status network_init(struct network *net, struct gpu *gpu, tutti *job,
        int images_max, uint64_t seed);
void network_fini(struct network *net);

/** Runs images through: [count][8][8] in device memory. */
void network_forward(struct network *net, const float *images, int count);
/** Losses, their gradient, and which images were recognised. @param batch  of all ranks */
void network_loss(struct network *net, const int32_t *labels, int count, int batch);
/** Adds the losses of the last network_loss() to net->total. */
void network_add_losses(struct network *net, int count);
/** Gradients of layer l: tensors 2 (LAYERS - 1 - l) and the next; then deltas below it. */
void network_backward(struct network *net, int l);
/** One step of descent along the gradients. */
void network_update(struct network *net, double rate, double momentum, double decay);

#endif
