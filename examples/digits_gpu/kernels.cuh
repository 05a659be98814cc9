/*
 * What one thread of each kernel does. Compiled by nvcc for the GPU, and by a C++ compiler
 * for the simulated one that the tests run on. They are short, not fast; every sum has one
 * order, so a run can be repeated bit by bit.
 */
#ifndef DIGITS_GPU_KERNELS_CUH
#define DIGITS_GPU_KERNELS_CUH

#include <math.h>

#include "kernels.h"

#ifdef __CUDACC__
#    define BODY static __device__ __forceinline__
#else
#    define BODY static inline
#endif

/* Elements of the last group, which may be shorter. */
BODY int group_width(int first, int outputs)
{
    return outputs - first < KERNEL_WIDTH ? outputs - first : KERNEL_WIDTH;
}

/* sums += factor * row, for a group. */
BODY void add_group(float *sums, float factor, const float *row, int width)
{
    if (width == KERNEL_WIDTH) {
        for (int k = 0; k < KERNEL_WIDTH; k++) {
            sums[k] += factor * row[k];
        }
        return;
    }
    for (int k = 0; k < width; k++) {
        sums[k] += factor * row[k];
    }
}

/* A row of a patch, as far as it lies inside of the input, into the sums. */
BODY void forward_row(const layer_view &v, const float *in, const float *row, int x,
        float *sums, int width)
{
    for (int kx = 0; kx < v.kernel; kx++) {
        if (x + kx < 0 || x + kx >= v.side) {
            continue;
        }
        for (int c = 0; c < v.channels; c++) {
            add_group(sums, in[(x + kx) * v.channels + c],
                    row + (kx * v.channels + c) * v.outputs, width);
        }
    }
}

/* Some outputs at one position of one image. */
BODY void forward_body(const layer_view &v, int item)
{
    const int groups = groups_of(v.outputs);
    const int first = item % groups * KERNEL_WIDTH;
    const int position = item / groups % (v.side_out * v.side_out);
    const int image = item / groups / (v.side_out * v.side_out);
    const int width = group_width(first, v.outputs);
    const int y = position / v.side_out * v.stride - v.padding;
    const int x = position % v.side_out * v.stride - v.padding;
    float sums[KERNEL_WIDTH] = { 0 };
    float *out =
            v.out + (image * v.side_out * v.side_out + position) * v.outputs + first;

    add_group(sums, 1, v.bias + first, width);
    for (int ky = 0; ky < v.kernel; ky++) {
        if (y + ky >= 0 && y + ky < v.side) {
            forward_row(v, v.in + (image * v.side + y + ky) * v.side * v.channels,
                    v.weights + ky * v.kernel * v.channels * v.outputs + first, x, sums,
                    width);
        }
    }
    for (int k = 0; k < width; k++) {
        out[k] = v.relu && sums[k] < 0 ? 0 : sums[k];
    }
}

/* The gradient of some weights of one number of the patch: over all images and positions. */
BODY void weights_gradient_body(const layer_view &v, int item)
{
    const int groups = groups_of(v.outputs);
    const int first = item % groups * KERNEL_WIDTH;
    const int input = item / groups;
    const int width = group_width(first, v.outputs);
    const int c = input % v.channels;
    const int kx = input / v.channels % v.kernel - v.padding;
    const int ky = input / v.channels / v.kernel - v.padding;
    float sums[KERNEL_WIDTH] = { 0 };

    for (int row = 0; row < v.images * v.side_out; row++) {
        const int image = row / v.side_out;
        const int y = row % v.side_out * v.stride + ky;
        const float *delta = v.delta + row * v.side_out * v.outputs + first;

        for (int px = 0; px < v.side_out && y >= 0 && y < v.side; px++) {
            const int x = px * v.stride + kx;

            if (x >= 0 && x < v.side) {
                add_group(sums,
                        v.in[((image * v.side + y) * v.side + x) * v.channels + c],
                        delta + px * v.outputs, width);
            }
        }
    }
    for (int k = 0; k < width; k++) {
        v.weights_gradient[input * v.outputs + first + k] = sums[k];
    }
}

BODY void bias_gradient_body(const layer_view &v, int item)
{
    const int first = item * KERNEL_WIDTH;
    const int width = group_width(first, v.outputs);
    float sums[KERNEL_WIDTH] = { 0 };

    for (int p = 0; p < v.images * v.side_out * v.side_out; p++) {
        add_group(sums, 1, v.delta + p * v.outputs + first, width);
    }
    for (int k = 0; k < width; k++) {
        v.bias_gradient[first + k] = sums[k];
    }
}

/* What one position gives back to some channels of its input. */
BODY void deltas_position(const layer_view &v, const float *delta, const float *weights,
        float *sums, int width)
{
    for (int k = 0; k < width; k++) {
        float parts[KERNEL_WIDTH] = { 0 };
        int o = 0;

        for (; o + KERNEL_WIDTH <= v.outputs; o += KERNEL_WIDTH) {
            for (int j = 0; j < KERNEL_WIDTH; j++) {
                parts[j] += delta[o + j] * weights[k * v.outputs + o + j];
            }
        }
        for (; o < v.outputs; o++) {
            parts[0] += delta[o] * weights[k * v.outputs + o];
        }
        sums[k] += parts[0] + parts[1] + (parts[2] + parts[3]);
    }
}

/* Deltas of some channels at one place of the layer below, through its ReLU. */
BODY void deltas_body(const layer_view &v, int item)
{
    const int groups = groups_of(v.channels);
    const int first = item % groups * KERNEL_WIDTH;
    const int x = item / groups % v.side + v.padding;
    const int y = item / groups / v.side % v.side + v.padding;
    const int image = item / groups / v.side / v.side;
    const int width = group_width(first, v.channels);
    const int at = item / groups * v.channels + first;
    float sums[KERNEL_WIDTH] = { 0 };

    for (int k = 0; k < v.kernel * v.kernel; k++) {
        const int py = y - k / v.kernel;
        const int px = x - k % v.kernel;

        if (py >= 0 && px >= 0 && py % v.stride == 0 && px % v.stride == 0 &&
                py / v.stride < v.side_out && px / v.stride < v.side_out) {
            deltas_position(v,
                    v.delta +
                            ((image * v.side_out + py / v.stride) * v.side_out +
                                    px / v.stride) *
                                    v.outputs,
                    v.weights + (k * v.channels + first) * v.outputs, sums, width);
        }
    }
    for (int k = 0; k < width; k++) {
        v.delta_in[at + k] = v.input_relu && v.in[at + k] <= 0 ? 0 : sums[k];
    }
}

/* -log softmax(scores)[label] of one image, and its gradient; both divided by the batch. */
BODY void loss_body(const loss_view &v, int image)
{
    const float *scores = v.scores + image * v.classes;
    const int label = v.labels[image];
    float total = 0;
    int best = 0;

    for (int c = 1; c < v.classes; c++) {
        best = scores[c] > scores[best] ? c : best;
    }
    for (int c = 0; c < v.classes; c++) {
        total += expf(scores[c] - scores[best]);
    }
    for (int c = 0; c < v.classes; c++) {
        v.delta[image * v.classes + c] =
                (expf(scores[c] - scores[best]) / total - (c == label ? 1 : 0)) /
                (float)v.batch;
    }
    v.losses[image] = (logf(total) + scores[best] - scores[label]) / (float)v.batch;
    v.correct[image] = best == label ? 1 : 0;
}

/* Adds the losses of a step, so that the host need not look before the epoch is over. */
BODY void total_body(const loss_view &v, int item)
{
    float sum = *v.total;

    (void)item;
    for (int i = 0; i < v.images; i++) {
        sum += v.losses[i];
    }
    *v.total = sum;
}

/* One parameter: momentum and weight decay. */
BODY void update_body(const update_view &v, int p)
{
    const float velocity =
            v.momentum * v.velocity[p] + v.gradients[p] + v.decay * v.values[p];

    v.velocity[p] = velocity;
    v.values[p] -= v.rate * velocity;
}

#endif
