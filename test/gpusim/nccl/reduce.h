/*
 * The arithmetic of the simulated NCCL. Operands are folded in the order of ranks, and every
 * partial result is rounded to the type, as a ring that starts at rank 0 would do.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_REDUCE_H
#define TUTTI_TEST_GPUSIM_NCCL_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/gpu/nccl.h"

/* Bytes of an element; 0: no such type. */
size_t reduce_type_bytes(nccl_dtype type);
/* "float16"; never NULL. */
const char *reduce_type_name(nccl_dtype type);
/* False for types that are only moved: the 8-bit floats. */
bool reduce_has_type(nccl_dtype type);

/* into[i] = into[i] `op` from[i], for NCCL_SUM, PROD, MAX and MIN. */
void reduce_fold(
        nccl_dtype type, nccl_op op, void *into, const void *from, size_t count);
/* data[i] *= *scalar, which is of the type. */
void reduce_scale(nccl_dtype type, void *data, const void *scalar, size_t count);
/* data[i] /= divisor, towards zero; integers only. */
void reduce_divide(nccl_dtype type, void *data, int divisor, size_t count);
/* *scalar = value, rounded to a type of floats. False: the type has integers. */
bool reduce_scalar(nccl_dtype type, double value, void *scalar);

float reduce_half_to_float(uint16_t bits);
uint16_t reduce_half_from_float(float value);
float reduce_bfloat_to_float(uint16_t bits);
uint16_t reduce_bfloat_from_float(float value);

#endif
