/*
 * The kernels of the trainer, as the host launches them: what each takes, and over how many
 * items it runs. The bodies are in kernels.cuh.
 */
#ifndef DIGITS_GPU_KERNELS_H
#define DIGITS_GPU_KERNELS_H

#include <stdint.h>

/** Before functions that the host and the GPU call. */
#ifdef __CUDACC__
#    define ON_BOTH __host__ __device__
#else
#    define ON_BOTH
#endif

/** Threads of a block. */
#define KERNEL_BLOCK 128
/** Neighbouring outputs, or channels, that one thread computes. */
#define KERNEL_WIDTH 4

/**
 * A layer, and the images that go through it. Every layer is a convolution; a connected one
 * is one whose patch is all of its input. Pointers are to device memory.
 */
struct layer_view {
    int32_t side; /* of the square input                                      */
    int32_t channels; /* of the input                                         */
    int32_t kernel; /* side of a patch                                        */
    int32_t stride; /* from one patch to the next                             */
    int32_t padding; /* zeros around the input                                */
    int32_t side_out; /* of the square output                                 */
    int32_t outputs; /* channels of the output                                */
    int32_t relu; /* not 0: negative outputs become 0                         */
    int32_t images; /* of this pass                                           */
    int32_t input_relu; /* not 0: the layer below has ReLU                    */
    const float *weights; /* [kernel][kernel][channels][outputs]              */
    const float *bias; /* [outputs]                                           */
    float *weights_gradient; /* like weights, summed over the images          */
    float *bias_gradient; /* [outputs]                                        */
    const float *in; /* [images][side][side][channels]                        */
    float *out; /* [images][side_out][side_out][outputs]                      */
    float *delta; /* like out: d loss / d (value before ReLU)                 */
    float *delta_in; /* like in: that of the layer below; NULL: there is none */
};

/** The top of the network. */
struct loss_view {
    const float *scores; /* [images][classes]                                 */
    const int32_t *labels; /* [images]                                        */
    float *delta; /* like scores: the gradient of the loss                    */
    float *losses; /* [images], each divided by batch                         */
    int32_t *correct; /* [images], 1 where the likeliest class is the label   */
    float *total; /* one number to which the losses are added                 */
    int32_t images; /* of this rank                                           */
    int32_t classes; /* of which one is right                                 */
    int32_t batch; /* images over all ranks                                   */
};

/** Parameters to update. */
struct update_view {
    float *values; /* [count]                                                 */
    float *velocity; /* [count], of the momentum                              */
    const float *gradients; /* [count]                                        */
    int32_t count; /* parameters                                              */
    float rate, momentum, decay; /* of stochastic gradient descent            */
};

/** The kernels: X(name, struct of the one parameter); <name>_items() says over how many. */
#define DIGITS_KERNELS(X) \
    X(forward, layer_view) \
    X(weights_gradient, layer_view) \
    X(bias_gradient, layer_view) \
    X(deltas, layer_view) \
    X(loss, loss_view) \
    X(total, loss_view) \
    X(update, update_view)

/** Groups of KERNEL_WIDTH. */
ON_BOTH static inline int32_t groups_of(int32_t outputs)
{
    return (outputs + KERNEL_WIDTH - 1) / KERNEL_WIDTH;
}

/** Items of each kernel: a thread does one. */
ON_BOTH static inline int32_t forward_items(const struct layer_view *v)
{
    return v->images * v->side_out * v->side_out * groups_of(v->outputs);
}

ON_BOTH static inline int32_t weights_gradient_items(const struct layer_view *v)
{
    return v->kernel * v->kernel * v->channels * groups_of(v->outputs);
}

ON_BOTH static inline int32_t bias_gradient_items(const struct layer_view *v)
{
    return groups_of(v->outputs);
}

ON_BOTH static inline int32_t deltas_items(const struct layer_view *v)
{
    return v->images * v->side * v->side * groups_of(v->channels);
}

ON_BOTH static inline int32_t loss_items(const struct loss_view *v)
{
    return v->images;
}

ON_BOTH static inline int32_t total_items(const struct loss_view *v)
{
    (void)v;
    return 1;
}

ON_BOTH static inline int32_t update_items(const struct update_view *v)
{
    return v->count;
}

#endif
