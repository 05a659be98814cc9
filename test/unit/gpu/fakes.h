/*
 * The functions that the fake libraries define, declared from the tables of the product.
 */
#ifndef TUTTI_TEST_UNIT_GPU_FAKES_H
#define TUTTI_TEST_UNIT_GPU_FAKES_H

#include "ops/gpu/driver.h"
#include "ops/gpu/nccl.h"

#define CUDA_REQUIRED(field, symbol, parameters) cu_result symbol parameters;
#define CUDA_OPTIONAL(field, symbol, parameters) cu_result symbol parameters;
#include "ops/gpu/driver.def"

#define NCCL_ID struct nccl_id
#define NCCL_CONFIG struct nccl_config
#define NCCL_REQUIRED(field, symbol, parameters) nccl_result symbol parameters;
#define NCCL_OPTIONAL(field, symbol, since, parameters) nccl_result symbol parameters;
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) const char *symbol parameters;
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    const char *symbol parameters;
#include "ops/gpu/nccl.def"

#endif
