/*
 * Updates in float32, on x86 compiled for AVX2: the same operations on each element, without FMA,
 * so the same bits.
 */
#define UPDATE_KERNELS update_floats_avx2

typedef float real;

#include "optimizer/update_body.h"
