/*
 * The bodies of the kernels, as a C++ compiler makes them. Each launch runs its blocks and
 * threads one after the other; what one of them does is the very code that nvcc compiles.
 */
#include "test/gpusim/bodies.h"

#include "ops/gpu/kernels/integer.cuh"
#include "ops/gpu/kernels/pack.cuh"

namespace
{

typedef void (*pack_thread_fn)(
        const pack_header &, const pack_piece *, const kernel_place);

template <class Args, pack_thread_fn THREAD>
void run_pack(const void *parameter, uint32_t blocks, uint32_t threads)
{
    const Args &args = *static_cast<const Args *>(parameter);

    for (uint32_t block = 0; block < blocks; block++) {
        for (uint32_t thread = 0; thread < threads; thread++) {
            const kernel_place place = { block, blocks, thread, threads };

            THREAD(args.header, args.pieces, place);
        }
    }
}

/* The threads of a family that packs, by the name in PACK_FAMILY_MAP. */
constexpr pack_thread_fn copy = pack_thread<pack_copy>;
constexpr pack_thread_fn integer = integer_thread;
constexpr pack_thread_fn f16_f16 = pack_thread<pack_convert<float16, float16>>;
constexpr pack_thread_fn f16_f32 = pack_thread<pack_convert<float16, float>>;
constexpr pack_thread_fn f32_f16 = pack_thread<pack_convert<float, float16>>;
constexpr pack_thread_fn bf16_bf16 = pack_thread<pack_convert<bfloat16, bfloat16>>;
constexpr pack_thread_fn bf16_f32 = pack_thread<pack_convert<bfloat16, float>>;
constexpr pack_thread_fn f32_bf16 = pack_thread<pack_convert<float, bfloat16>>;
constexpr pack_thread_fn f32_f32 = pack_thread<pack_convert<float, float>>;
constexpr pack_thread_fn f64_f64 = pack_thread<pack_convert<double, double>>;

} // namespace

/* In the order of their numbers. */
static const kernel_body bodies[KERNEL_COUNT] = {
#define PACK_BODIES(symbol, name) \
    run_pack<pack_small, name>, run_pack<pack_large, name>,
    PACK_FAMILY_MAP(PACK_BODIES)
};

kernel_body kernel_body_of(int kernel)
{
    return bodies[kernel];
}
