/*
 * The functions that the two simulated libraries export, declared from the product's tables:
 * a signature that differs from the table's does not compile.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_CALLS_H
#define TUTTI_TEST_GPUSIM_NCCL_CALLS_H

#include "ops/gpu/driver.h"
#include "ops/gpu/nccl.h"
#include "test/gpusim/gpusim.h"

#define CUDA_REQUIRED(field, symbol, parameters) GPUSIM_API cu_result symbol parameters;
#define CUDA_OPTIONAL(field, symbol, parameters) GPUSIM_API cu_result symbol parameters;
#include "ops/gpu/driver.def"

#define NCCL_ID struct nccl_id
#define NCCL_CONFIG struct nccl_config
#define NCCL_REQUIRED(field, symbol, parameters) \
    GPUSIM_API nccl_result symbol parameters;
#define NCCL_OPTIONAL(field, symbol, since, parameters) \
    GPUSIM_API nccl_result symbol parameters;
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) \
    GPUSIM_API const char *symbol parameters;
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    GPUSIM_API const char *symbol parameters;
#include "ops/gpu/nccl.def"

#undef NCCL_ID
#undef NCCL_CONFIG

#endif
