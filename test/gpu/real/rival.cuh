/*
 * What one thread of the scheme of rival.h does: vectors of 16 bytes where both sides are
 * on boundaries, otherwise words as wide as the worse of the two allows.
 */
#ifndef TUTTI_TEST_GPU_REAL_RIVAL_CUH
#define TUTTI_TEST_GPU_REAL_RIVAL_CUH

#include "ops/gpu/kernels/pack.cuh"
#include "test/gpu/real/rival.h"

template <class T>
KERNEL_FN void rival_words(const rival_copy &copy, uint64_t first, uint64_t apart)
{
    const T *from = (const T *)(uintptr_t)copy.from;
    T *to = (T *)(uintptr_t)copy.to;
    const uint64_t words = copy.bytes / sizeof(T);

    for (uint64_t i = first; i < words; i += apart) {
        to[i] = from[i];
    }
    for (uint64_t i = words * sizeof(T) + first; i < copy.bytes; i += apart) {
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    }
}

KERNEL_FN void rival_thread(const rival_args &args, const kernel_place &place)
{
    const rival_copy copy = args.copies[place.block / RIVAL_BLOCKS];
    const uint64_t first =
            (uint64_t)(place.block % RIVAL_BLOCKS) * place.threads + place.thread;
    const uint64_t apart = (uint64_t)RIVAL_BLOCKS * place.threads;
    const uint64_t alignment = copy.from | copy.to;

    if (alignment % 16 == 0) {
        rival_words<vector16>(copy, first, apart);
    } else if (alignment % 8 == 0) {
        rival_words<uint64_t>(copy, first, apart);
    } else if (alignment % 4 == 0) {
        rival_words<uint32_t>(copy, first, apart);
    } else if (alignment % 2 == 0) {
        rival_words<uint16_t>(copy, first, apart);
    } else {
        rival_words<unsigned char>(copy, first, apart);
    }
}

#endif
