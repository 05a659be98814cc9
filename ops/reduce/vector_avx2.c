/*
 * Vector kernels for x86-64 with AVX2 and F16C.
 */
#include <immintrin.h>

#define VECTOR_BYTES 32

typedef __m256i vector;

static inline vector half_widen(const void *from)
{
    return _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(from)));
}

static inline void half_narrow(void *to, vector value)
{
    _mm_storeu_si128(
            to, _mm256_cvtps_ph(_mm256_castsi256_ps(value), _MM_FROUND_TO_NEAREST_INT));
}

static inline vector word_widen(const void *from)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
}

static inline void word_narrow(void *to, vector value)
{
    _mm_storeu_si128(to,
            _mm_packus_epi32(
                    _mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1)));
}

static inline vector pick(vector mask, vector yes, vector no)
{
    return _mm256_blendv_epi8(no, yes, mask);
}

#include "ops/reduce/vector_body.h"

const struct vector_set vector_avx2 = {
    .which = CONFIG_KERNELS_AVX2,
    .kernels = VECTOR_KERNELS,
    .narrow = VECTOR_NARROW,
    .widen = VECTOR_WIDEN,
};
