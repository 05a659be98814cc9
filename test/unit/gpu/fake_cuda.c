/*
 * A CUDA driver that has devices to describe and can do nothing with them: every function
 * that the product looks up, but those of fake_cuda_calls.c, which stand before these.
 */
#include "fakes.h"

/* The parameters are those of the table. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define CUDA_REQUIRED(field, symbol, parameters) \
    __attribute__((weak)) cu_result symbol parameters \
    { \
        return CU_ERROR_NOT_SUPPORTED; \
    }
#define CUDA_OPTIONAL(field, symbol, parameters) \
    CUDA_REQUIRED(field, symbol, parameters)
#include "ops/gpu/driver.def"
