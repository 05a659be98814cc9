/*
 * The kernels of examples/digits_gpu for the simulated GPU: their bodies compiled for the host,
 * and what a launch of each reads and writes. A driver for the example: it links the
 * simulator's, and puts the kernels there when it is loaded.
 */
#include <stddef.h>

#include "examples/digits_gpu/kernels.cuh"
#include "test/gpusim/gpusim.h"

namespace
{

/* ---- what is read and written, by address ---- */

void reads(gpusim_accesses *accesses, const void *memory, size_t count)
{
    gpusim_reads(accesses, (uint64_t)(uintptr_t)memory, count * sizeof(float));
}

void writes(gpusim_accesses *accesses, const void *memory, size_t count)
{
    gpusim_writes(accesses, (uint64_t)(uintptr_t)memory, count * sizeof(float));
}

size_t in_count(const layer_view &v)
{
    return (size_t)v.images * (size_t)(v.side * v.side * v.channels);
}

size_t out_count(const layer_view &v)
{
    return (size_t)v.images * (size_t)(v.side_out * v.side_out * v.outputs);
}

size_t weight_count(const layer_view &v)
{
    return (size_t)(v.kernel * v.kernel * v.channels * v.outputs);
}

void forward_ranges(const layer_view &v, gpusim_accesses *a)
{
    reads(a, v.in, in_count(v));
    reads(a, v.weights, weight_count(v));
    reads(a, v.bias, (size_t)v.outputs);
    writes(a, v.out, out_count(v));
}

void weights_gradient_ranges(const layer_view &v, gpusim_accesses *a)
{
    reads(a, v.in, in_count(v));
    reads(a, v.delta, out_count(v));
    writes(a, v.weights_gradient, weight_count(v));
}

void bias_gradient_ranges(const layer_view &v, gpusim_accesses *a)
{
    reads(a, v.delta, out_count(v));
    writes(a, v.bias_gradient, (size_t)v.outputs);
}

void deltas_ranges(const layer_view &v, gpusim_accesses *a)
{
    reads(a, v.in, in_count(v));
    reads(a, v.delta, out_count(v));
    reads(a, v.weights, weight_count(v));
    writes(a, v.delta_in, in_count(v));
}

void loss_ranges(const loss_view &v, gpusim_accesses *a)
{
    reads(a, v.scores, (size_t)(v.images * v.classes));
    reads(a, v.labels, (size_t)v.images);
    writes(a, v.delta, (size_t)(v.images * v.classes));
    writes(a, v.losses, (size_t)v.images);
    writes(a, v.correct, (size_t)v.images);
}

void total_ranges(const loss_view &v, gpusim_accesses *a)
{
    reads(a, v.losses, (size_t)v.images);
    writes(a, v.total, 1);
}

void update_ranges(const update_view &v, gpusim_accesses *a)
{
    reads(a, v.gradients, (size_t)v.count);
    writes(a, v.values, (size_t)v.count);
    writes(a, v.velocity, (size_t)v.count);
}

/* ---- a kernel from a body ---- */

template <class View> const View &view_of(const gpusim_launch *launch)
{
    return *static_cast<const View *>(launch->parameter);
}

template <class View, void (*RANGES)(const View &, gpusim_accesses *)>
void list_ranges(const gpusim_launch *launch, gpusim_accesses *accesses)
{
    RANGES(view_of<View>(launch), accesses);
}

/* Threads of the last block that have no item do nothing, as on a GPU. */
template <class View, void (*BODY_OF)(const View &, int),
        int32_t (*ITEMS)(const View *)>
void run(const gpusim_launch *launch)
{
    const View view = view_of<View>(launch);
    const int threads = (int)(launch->blocks * launch->threads);

    for (int item = 0; item < threads && item < ITEMS(&view); item++) {
        BODY_OF(view, item);
    }
}

#define KERNEL(name, view) \
    { "digits_" #name, sizeof(view), list_ranges<view, name##_ranges>, \
        run<view, name##_body, name##_items>, KERNEL_BLOCK },
const gpusim_kernel kernels[] = { DIGITS_KERNELS(KERNEL) };

struct at_load {
    at_load()
    {
        for (const gpusim_kernel &kernel : kernels) {
            gpusim_kernel_register(&kernel);
        }
    }
} loaded;

} // namespace
