/*
 * Elements of the float types, as float32: blocks are converted, so that each pass is written
 * once. float64 has loops of its own.
 */
#include "reducer/elements.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = 512, /* elements that are converted at once */
    LANES = 8 /* partial sums, so that the compiler may use vectors */
};

bool elements_are_float(tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16 ||
            dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT64;
}

void *elements_at(tutti_dtype dtype, void *elements, int64_t index)
{
    return (unsigned char *)elements + (size_t)index * tutti_dtype_size(dtype);
}

static float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The exponent is moved from binary16's place to binary32's; a product then gives subnormal
   numbers their leading bit, and keeps infinity and NaN apart. */
static float float_of_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    const float value = float_of_bits(rest) * 0x1p112F;
    const uint32_t bits = rest >= 0x0f800000 ? rest | 0x7f800000 : bits_of_float(value);

    return float_of_bits(bits | sign);
}

static uint16_t half_of_float(float value)
{
    const uint32_t bits = bits_of_float(value);
    const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
    const uint32_t rest = bits & 0x7fffffff;
    uint32_t half;

    if (rest > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00);
    }
    if (rest >= 0x477ff000) { /* 65520 rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (rest < 0x38800000) { /* subnormal: the sum has them in its last bits */
        half = bits_of_float(float_of_bits(rest) + 0.5F) - bits_of_float(0.5F);
    } else {
        half = (rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13;
    }
    return (uint16_t)(sign | half);
}

static uint16_t bfloat_of_float(float value)
{
    const uint32_t bits = bits_of_float(value);

    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)((bits >> 16) | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void elements_load(tutti_dtype dtype, const void *from, float *to, int64_t n)
{
    const uint16_t *halves = from;
    const double *doubles = from;

    if (dtype == TUTTI_FLOAT16) {
        for (int64_t i = 0; i < n; i++) {
            to[i] = float_of_half(halves[i]);
        }
    } else if (dtype == TUTTI_BFLOAT16) {
        for (int64_t i = 0; i < n; i++) {
            to[i] = float_of_bits((uint32_t)halves[i] << 16);
        }
    } else if (dtype == TUTTI_FLOAT64) {
        for (int64_t i = 0; i < n; i++) {
            to[i] = (float)doubles[i];
        }
    } else {
        memcpy(to, from, (size_t)n * sizeof *to);
    }
}

void elements_store(tutti_dtype dtype, const float *from, void *to, int64_t n)
{
    uint16_t *halves = to;
    double *doubles = to;

    if (dtype == TUTTI_FLOAT16) {
        for (int64_t i = 0; i < n; i++) {
            halves[i] = half_of_float(from[i]);
        }
    } else if (dtype == TUTTI_BFLOAT16) {
        for (int64_t i = 0; i < n; i++) {
            halves[i] = bfloat_of_float(from[i]);
        }
    } else if (dtype == TUTTI_FLOAT64) {
        for (int64_t i = 0; i < n; i++) {
            doubles[i] = from[i];
        }
    } else {
        memcpy(to, from, (size_t)n * sizeof *from);
    }
}

/** A pass over elements of either type of the arithmetic. */
struct pass {
    void (*floats)(float *elements, int64_t n, float argument);
    void (*doubles)(double *elements, int64_t n, double argument);
};

/* 16-bit elements go through a block of float32. */
static void run(
        struct pass pass, tutti_dtype dtype, void *elements, int64_t n, double argument)
{
    float block[BLOCK];

    if (dtype == TUTTI_FLOAT64) {
        pass.doubles(elements, n, argument);
        return;
    }
    if (dtype == TUTTI_FLOAT32) {
        pass.floats(elements, n, (float)argument);
        return;
    }
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t count = n - at < BLOCK ? n - at : BLOCK;
        void *place = elements_at(dtype, elements, at);

        elements_load(dtype, place, block, count);
        pass.floats(block, count, (float)argument);
        elements_store(dtype, block, place, count);
    }
}

static void scale_floats(float *elements, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++) {
        elements[i] *= factor;
    }
}

static void scale_doubles(double *elements, int64_t n, double factor)
{
    for (int64_t i = 0; i < n; i++) {
        elements[i] *= factor;
    }
}

void elements_scale(tutti_dtype dtype, void *elements, int64_t n, double factor)
{
    run((struct pass){ .floats = scale_floats, .doubles = scale_doubles }, dtype,
            elements, n, factor);
}

static void clamp_floats(float *elements, int64_t n, float limit)
{
    for (int64_t i = 0; i < n; i++) {
        const float low = elements[i] < -limit ? -limit : elements[i];

        elements[i] = low > limit ? limit : low;
    }
}

static void clamp_doubles(double *elements, int64_t n, double limit)
{
    for (int64_t i = 0; i < n; i++) {
        const double low = elements[i] < -limit ? -limit : elements[i];

        elements[i] = low > limit ? limit : low;
    }
}

void elements_clamp(tutti_dtype dtype, void *elements, int64_t n, double limit)
{
    run((struct pass){ .floats = clamp_floats, .doubles = clamp_doubles }, dtype,
            elements, n, limit);
}

static inline double element(const void *elements, bool doubles, int64_t i)
{
    return doubles ? ((const double *)elements)[i]
                   : (double)((const float *)elements)[i];
}

/* Inline, so that there are loops for each type. */
static inline double dot(const void *a, const void *b, bool doubles, int64_t n)
{
    double sums[LANES] = { 0 };
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            sums[lane] += element(a, doubles, i + lane) * element(b, doubles, i + lane);
        }
    }
    for (int lane = 0; i < n; i++, lane++) {
        sums[lane] += element(a, doubles, i) * element(b, doubles, i);
    }
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
            ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double elements_dot(const float *a, const float *b, int64_t n)
{
    return dot(a, b, false, n);
}

double elements_squares(tutti_dtype dtype, const void *elements, int64_t n)
{
    float block[BLOCK];
    double sum = 0;

    if (dtype == TUTTI_FLOAT64) {
        return dot(elements, elements, true, n);
    }
    if (dtype == TUTTI_FLOAT32) {
        return elements_dot(elements, elements, n);
    }
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t count = n - at < BLOCK ? n - at : BLOCK;

        elements_load(dtype, (const uint16_t *)elements + at, block, count);
        sum += elements_dot(block, block, count);
    }
    return sum;
}

double elements_scaled_squares(
        tutti_dtype dtype, const void *elements, int64_t n, double squares)
{
    const double *doubles = elements;
    double sum = 0;

    if (dtype != TUTTI_FLOAT64 || isfinite(squares)) {
        return squares * 0x1p-600 * 0x1p-600;
    }
    for (int64_t i = 0; i < n; i++) {
        sum += doubles[i] * 0x1p-600 * (doubles[i] * 0x1p-600);
    }
    return sum;
}
