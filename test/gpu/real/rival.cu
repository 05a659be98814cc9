/*
 * The kernel of rival.h, for bench-pack.
 */
#include "test/gpu/real/rival.cuh"

extern "C" __global__ void __launch_bounds__(RIVAL_THREADS)
        tutti_rival_blocks(const __grid_constant__ rival_args args)
{
    kernel_place place;

    place.block = blockIdx.x;
    place.blocks = gridDim.x;
    place.thread = threadIdx.x;
    place.threads = blockDim.x;
    rival_thread(args, place);
}
