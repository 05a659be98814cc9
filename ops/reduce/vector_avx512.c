/*
 * Vector kernels for x86-64 with AVX-512 (F, BW, DQ, VL).
 */
#include <immintrin.h>

#define VECTOR_BYTES 64

typedef __m512i vector;

static inline vector half_widen(const void *from)
{
    return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256(from)));
}

static inline void half_narrow(void *to, vector value)
{
    _mm256_storeu_si256(
            to, _mm512_cvtps_ph(_mm512_castsi512_ps(value), _MM_FROUND_TO_NEAREST_INT));
}

static inline vector word_widen(const void *from)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
}

static inline void word_narrow(void *to, vector value)
{
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16(value));
}

/* Compilers make masked moves of it. */
static inline vector pick(vector mask, vector yes, vector no)
{
    return (mask & yes) | (~mask & no);
}

#include "ops/reduce/vector_body.h"

const struct vector_set vector_avx512 = {
    .which = CONFIG_KERNELS_AVX512,
    .kernels = VECTOR_KERNELS,
    .narrow = VECTOR_NARROW,
    .widen = VECTOR_WIDEN,
};
