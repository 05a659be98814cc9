/*
 * A small convolutional network: ReLU between the layers, softmax cross-entropy on top,
 * trained by stochastic gradient descent with momentum. Knows nothing of other ranks.
 *
 * Every layer is a convolution: at each position of its output it multiplies a patch of
 * its input with one matrix. A fully connected layer is one whose patch is all of its
 * input, so it has a single position.
 *
 * All numbers are double: runs on different numbers of ranks add up gradients in a
 * different order, and in float the difference would grow visible after some hundred
 * steps. A trainer in float32 differs from this one in its element type alone.
 */
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NETWORK_LAYERS_MAX = 8
};

/** What a layer looks like. */
struct layer_shape {
    int side; /* of the square input */
    int channels; /* of the input */
    int kernel; /* side of a patch */
    int stride; /* from one patch to the next */
    int padding; /* zeros around the input */
    int outputs; /* channels of the output */
};

/** One layer; all memory belongs to the network. Matrices are stored row by row. */
struct layer {
    struct layer_shape shape;
    int side_out; /* of the square output */
    size_t positions; /* side_out * side_out */
    size_t inputs; /* numbers in a patch */
    size_t outputs; /* numbers at a position of the output */
    size_t parameters; /* weights and bias */
    double *weights; /* [inputs][outputs] */
    double *bias; /* [outputs], right behind the weights */
    double *gradients; /* of weights and bias, summed over the images; the caller's */
    double *transposed; /* [outputs][inputs], made by network_backward() */
    double *patches; /* [images][positions][inputs] */
    double *activations; /* [images][positions][outputs] */
    double *deltas; /* likewise: d loss / d (value before ReLU) */
};

/** The network; zeroed is valid for network_fini(). */
struct network {
    int layer_count;
    struct layer layers[NETWORK_LAYERS_MAX]; /* first to last */
    size_t parameters; /* all weights and biases */
    double *values; /* [parameters], layer by layer: weights, bias; owned */
    double *velocity; /* [parameters], of the momentum; owned */
    double *scratch; /* everything else the layers point to; owned */
};

/**
 * Builds a network for passes of up to images_max images; its parameters are zero. Before the
 * first backward pass the caller gives each layer memory for its gradients.
 * @param shapes  count layers, each taking what the one before it gives
 * @return false when out of memory
 */
bool network_init(struct network *net, const struct layer_shape *shapes, int count,
        int images_max);
void network_fini(struct network *net);

/** Draws the weights (He's uniform) from a seed; biases become 0. */
void network_randomize(struct network *net, uint64_t seed);

/** Runs images through: [count][side][side][channels] of the first layer. */
void network_forward(struct network *net, const double *images, int count);

/**
 * Adds up the losses of the images of the last forward pass, each divided by `batch`,
 * and starts the backward pass with the gradient of that sum.
 */
double network_loss(struct network *net, const int *labels, int count, double batch);

/** Computes the gradients of one layer, then the deltas of the layer below it. */
void network_backward(struct network *net, int layer, int count);

/** Images of the last forward pass whose likeliest class is the label. */
int network_count_correct(const struct network *net, const int *labels, int count);

/** One step of descent along the gradients. */
void network_update(struct network *net, double rate, double momentum, double decay);

#endif
