/*
 * The kernels, as nvcc makes them; what they do is in the .cuh files.
 */
#include "ops/gpu/kernels/integer.cuh"
#include "ops/gpu/kernels/pack.cuh"

/* Parameters of more than 4 KiB came with CUDA 12.1. */
#if __CUDACC_VER_MAJOR__ > 12 || \
        (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 1)
#    define KERNEL_HAS_LARGE 1
#else
#    define KERNEL_HAS_LARGE 0
#endif

static __device__ __forceinline__ kernel_place here()
{
    kernel_place place;

    place.block = blockIdx.x;
    place.blocks = gridDim.x;
    place.thread = threadIdx.x;
    place.threads = blockDim.x;
    return place;
}

#define KERNEL(name, args_type, ...) \
    extern "C" __global__ void __launch_bounds__(KERNEL_THREADS) \
            tutti_##name(const __grid_constant__ args_type args) \
    { \
        __VA_ARGS__; \
    }
#define PACK_KERNEL(name, args_type, ...) \
    KERNEL(name, args_type, __VA_ARGS__(args.header, args.pieces, here()))
#if KERNEL_HAS_LARGE
#    define PACK_KERNELS(name, ...) \
        PACK_KERNEL(name##_small, pack_small, __VA_ARGS__) \
        PACK_KERNEL(name##_large, pack_large, __VA_ARGS__)
#else
#    define PACK_KERNELS(name, ...) PACK_KERNEL(name##_small, pack_small, __VA_ARGS__)
#endif
#define CONVERSION(name, in, out) PACK_KERNELS(name, pack_thread<pack_convert<in, out>>)

PACK_KERNELS(copy, pack_thread<pack_copy>)
PACK_KERNELS(integer, integer_thread)
CONVERSION(f16_f16, float16, float16)
CONVERSION(f16_f32, float16, float)
CONVERSION(f32_f16, float, float16)
CONVERSION(bf16_bf16, bfloat16, bfloat16)
CONVERSION(bf16_f32, bfloat16, float)
CONVERSION(f32_bf16, float, bfloat16)
CONVERSION(f32_f32, float, float)
CONVERSION(f64_f64, double, double)
