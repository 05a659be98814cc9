/*
 * For bench-pack only: copies of many tensors in the scheme that Horovod uses, written anew:
 * a fixed 8 blocks of 1024 threads for each tensor, and descriptors by value, 160 in each
 * launch.
 */
#ifndef TUTTI_TEST_GPU_REAL_RIVAL_H
#define TUTTI_TEST_GPU_REAL_RIVAL_H

#include <stdint.h>

/** Blocks for each tensor, threads of a block, and tensors of a launch. */
#define RIVAL_BLOCKS 8
#define RIVAL_THREADS 1024
#define RIVAL_COPIES 160

/** One tensor. */
struct rival_copy {
    uint64_t from; /* device address */
    uint64_t to; /* device address   */
    uint64_t bytes;
};

/** The parameter of the kernel "tutti_rival_blocks". */
struct rival_args {
    struct rival_copy copies[RIVAL_COPIES];
};

#endif
