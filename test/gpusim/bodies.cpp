/*
 * The bodies of the kernels, as a C++ compiler makes them. Each launch runs its blocks and
 * threads one after the other; what one of them does is the very code that nvcc compiles.
 */
#include "test/gpusim/bodies.h"

#include "ops/gpu/kernels/integer.cuh"
#include "ops/gpu/kernels/pack.cuh"
#include "ops/gpu/kernels/sum.cuh"

namespace
{

template <class Args, void (*THREAD)(const Args &, const kernel_place &)>
void launch(const void *args, uint32_t blocks, uint32_t threads)
{
    const Args &own = *static_cast<const Args *>(args);

    for (uint32_t block = 0; block < blocks; block++) {
        for (uint32_t thread = 0; thread < threads; thread++) {
            const kernel_place place = { block, blocks, thread, threads };

            THREAD(own, place);
        }
    }
}

typedef pack_convert<float16, float16> convert_f16_f16;
typedef pack_convert<float16, float> convert_f16_f32;
typedef pack_convert<float, float16> convert_f32_f16;
typedef pack_convert<bfloat16, bfloat16> convert_bf16_bf16;
typedef pack_convert<bfloat16, float> convert_bf16_f32;
typedef pack_convert<float, bfloat16> convert_f32_bf16;
typedef pack_convert<float, float> convert_f32_f32;
typedef pack_convert<double, double> convert_f64_f64;
typedef pack_convert<double, float> convert_f64_f32;
typedef pack_convert<float, double> convert_f32_f64;

} // namespace

/* In the order of their numbers. */
static const kernel_body bodies[KERNEL_COUNT] = {
    launch<pack_small, pack_thread<pack_copy, pack_small>>,
    launch<pack_large, pack_thread<pack_copy, pack_large>>,
    launch<pack_table, pack_thread<pack_copy, pack_table>>,
    launch<pack_small, integer_thread<pack_small>>,
    launch<pack_large, integer_thread<pack_large>>,
    launch<pack_table, integer_thread<pack_table>>,
#define CONVERSION(symbol, name) \
    launch<pack_small, pack_thread<convert_##name, pack_small>>, \
            launch<pack_large, pack_thread<convert_##name, pack_large>>, \
            launch<pack_table, pack_thread<convert_##name, pack_table>>,
    PACK_FLOAT_MAP(CONVERSION)
#undef CONVERSION
            launch<sum_args, sum_thread<float16>>,
    launch<sum_args, sum_thread<bfloat16>>,
    launch<sum_args, sum_thread<float>>,
    launch<sum_args, sum_thread<double>>,
};

kernel_body kernel_body_of(int kernel)
{
    return bodies[kernel];
}
