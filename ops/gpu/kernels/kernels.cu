/*
 * The kernels, as nvcc makes them; what they do is in the .cuh files.
 */
#include "ops/gpu/kernels/integer.cuh"
#include "ops/gpu/kernels/pack.cuh"
#include "ops/gpu/kernels/sum.cuh"

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

#define KERNEL(name, args_type, body) \
    extern "C" __global__ void __launch_bounds__(KERNEL_THREADS) \
            tutti_##name(const __grid_constant__ args_type args) \
    { \
        body(args, here()); \
    }
#if KERNEL_HAS_LARGE
#    define PACK_KERNELS(name, small_body, large_body, table_body) \
        KERNEL(name##_small, pack_small, small_body) \
        KERNEL(name##_large, pack_large, large_body) \
        KERNEL(name##_table, pack_table, table_body)
#else
#    define PACK_KERNELS(name, small_body, large_body, table_body) \
        KERNEL(name##_small, pack_small, small_body) \
        KERNEL(name##_table, pack_table, table_body)
#endif
#define PACK_OPERATION(name, ...) \
    PACK_KERNELS(name, (pack_thread<__VA_ARGS__, pack_small>), \
            (pack_thread<__VA_ARGS__, pack_large>), \
            (pack_thread<__VA_ARGS__, pack_table>))
#define PACK_CONVERSION(name, in, out) \
    typedef pack_convert<in, out> convert_##name; \
    PACK_OPERATION(name, convert_##name)

PACK_OPERATION(copy, pack_copy)
PACK_KERNELS(integer, integer_thread, integer_thread, integer_thread)
PACK_CONVERSION(f16_f16, float16, float16)
PACK_CONVERSION(f16_f32, float16, float)
PACK_CONVERSION(f32_f16, float, float16)
PACK_CONVERSION(bf16_bf16, bfloat16, bfloat16)
PACK_CONVERSION(bf16_f32, bfloat16, float)
PACK_CONVERSION(f32_bf16, float, bfloat16)
PACK_CONVERSION(f32_f32, float, float)
PACK_CONVERSION(f64_f64, double, double)
PACK_CONVERSION(f64_f32, double, float)
PACK_CONVERSION(f32_f64, float, double)
KERNEL(sum_f16, sum_args, sum_thread<float16>)
KERNEL(sum_bf16, sum_args, sum_thread<bfloat16>)
KERNEL(sum_f32, sum_args, sum_thread<float>)
KERNEL(sum_f64, sum_args, sum_thread<double>)
