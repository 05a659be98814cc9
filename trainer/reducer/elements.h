/*
 * Elements of the float types, as float32.
 */
#ifndef TUTTI_TRAINER_REDUCER_ELEMENTS_H
#define TUTTI_TRAINER_REDUCER_ELEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** float16, bfloat16, float32 or float64. */
bool elements_are_float(tutti_dtype dtype);

/** The address of element `index`. */
void *elements_at(tutti_dtype dtype, void *elements, int64_t index);

/** Reads n elements as float32; float64 is rounded. */
void elements_load(tutti_dtype dtype, const void *from, float *to, int64_t n);

/** Writes n elements from float32, rounded to nearest even. */
void elements_store(tutti_dtype dtype, const float *from, void *to, int64_t n);

/** Multiplies n elements by a factor, in place: float64 in float64, others in float32. */
void elements_scale(tutti_dtype dtype, void *elements, int64_t n, double factor);

/** Clamps n elements to [-limit, limit], in place. NaN stays. */
void elements_clamp(tutti_dtype dtype, void *elements, int64_t n, double limit);

/**
 * The sum of the squares of n elements, in float64: NaN or infinite if an element is. The order of
 * the additions depends on n alone, so the bits do not depend on the processor.
 */
double elements_squares(tutti_dtype dtype, const void *elements, int64_t n);

/** Their sum of squares times 2^-1200: finite if all elements are. */
double elements_scaled_squares(
        tutti_dtype dtype, const void *elements, int64_t n, double squares);

/** The sum of a[i] * b[i], likewise. */
double elements_dot(const float *a, const float *b, int64_t n);

#endif
