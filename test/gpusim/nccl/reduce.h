/*
 * The arithmetic of the simulated NCCL. Operands are folded in the order of ranks, and every
 * partial result is rounded to the type, as a ring that starts at rank 0 would do.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_REDUCE_H
#define TUTTI_TEST_GPUSIM_NCCL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "ops/gpu/nccl.h"

/* Bytes of an element; 0: no such type. */
size_t reduce_type_bytes(nccl_dtype type);
/* "float16"; never NULL. */
const char *reduce_type_name(nccl_dtype type);

/* into[i] = into[i] `op` from[i], for NCCL_SUM, PROD, MAX and MIN. */
void reduce_fold(
        nccl_dtype type, nccl_op op, void *into, const void *from, size_t count);

float reduce_half_to_float(uint16_t bits);
uint16_t reduce_half_from_float(float value);
float reduce_bfloat_to_float(uint16_t bits);
uint16_t reduce_bfloat_from_float(float value);

#endif
