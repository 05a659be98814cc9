/*
 * An NCCL that can do nothing but tell its version, which is FAKE_NCCL_VERSION of the
 * environment. It has all functions, whatever its version, as the vendor's preliminary
 * builds have some.
 */
#include "fakes.h"

/* The parameters are those of the table. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NCCL_REQUIRED(field, symbol, parameters) \
    __attribute__((weak)) nccl_result symbol parameters \
    { \
        return NCCL_INTERNAL_ERROR; \
    }
#define NCCL_OPTIONAL(field, symbol, since, parameters) \
    NCCL_REQUIRED(field, symbol, parameters)
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) \
    __attribute__((weak)) const char *symbol parameters \
    { \
        return NULL; \
    }
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    NCCL_TEXT_REQUIRED(field, symbol, parameters)
#include "ops/gpu/nccl.def"
