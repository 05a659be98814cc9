/*
 * The kernels as nvcc makes them; what they do is in kernels.cuh.
 */
#include "kernels.cuh"

#define KERNEL(name, view) \
    extern "C" __global__ void __launch_bounds__(KERNEL_BLOCK) \
            digits_##name(const __grid_constant__ view v) \
    { \
        const int item = (int)(blockIdx.x * blockDim.x + threadIdx.x); \
\
        if (item < name##_items(&v)) { \
            name##_body(v, item); \
        } \
    }
DIGITS_KERNELS(KERNEL)
