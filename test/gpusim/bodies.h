/*
 * The product's kernels, compiled for the host: for the simulator and for unit tests.
 */
#ifndef TUTTI_TEST_GPUSIM_BODIES_H
#define TUTTI_TEST_GPUSIM_BODIES_H

#include <stdint.h>

#include "ops/gpu/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A whole launch: all threads of all blocks, one after the other. */
typedef void (*kernel_body)(const void *args, uint32_t blocks, uint32_t threads);

/** The body of a kernel, by number (kernels.h). */
kernel_body kernel_body_of(int kernel);

#ifdef __cplusplus
}
#endif

#endif
