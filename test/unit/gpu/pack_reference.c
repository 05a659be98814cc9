#include "test/unit/gpu/pack_reference.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "test/batch/half_reference.h"

/* The value of an element of any float; exact. */
static double float_value(tutti_dtype dtype, const void *element)
{
    uint16_t half = 0;
    float single = 0;
    double value = 0;

    if (dtype == TUTTI_FLOAT64) {
        memcpy(&value, element, sizeof value);
        return value;
    }
    if (dtype == TUTTI_FLOAT32) {
        memcpy(&single, element, sizeof single);
        return (double)single;
    }
    memcpy(&half, element, sizeof half);
    return small_float_decode(
            dtype == TUTTI_FLOAT16 ? &float16_format : &bfloat16_format, half);
}

static void set_float(tutti_dtype dtype, double value, void *element)
{
    const float single = (float)value;
    uint16_t half;

    if (dtype == TUTTI_FLOAT64) {
        memcpy(element, &value, sizeof value);
    } else if (dtype == TUTTI_FLOAT32) {
        memcpy(element, &single, sizeof single);
    } else {
        half = small_float_encode(
                dtype == TUTTI_FLOAT16 ? &float16_format : &bfloat16_format, value);
        memcpy(element, &half, sizeof half);
    }
}

/* Through volatile: each step is rounded to its type, whatever the compiler does. */
static double float_step(const struct pack_step *step, double x)
{
    if (step->from == TUTTI_FLOAT64 || step->to == TUTTI_FLOAT64) {
        volatile double quotient = step->divisor == 1 ? x : x / step->divisor;
        volatile double result = step->scale == 1 ? quotient : quotient * step->scale;

        return result;
    }
    {
        volatile float value = (float)x;
        volatile float quotient =
                step->divisor == 1 ? value : value / (float)step->divisor;
        volatile float result =
                step->scale == 1 ? quotient : quotient * (float)step->scale;

        return (double)result;
    }
}

static bool is_signed_type(tutti_dtype dtype)
{
    return dtype == TUTTI_INT8 || dtype == TUTTI_INT16 || dtype == TUTTI_INT32 ||
            dtype == TUTTI_INT64;
}

/* Little-endian. */
static void integer_step(const struct pack_step *step, const void *from, void *to)
{
    const size_t bytes = tutti_dtype_size(step->from);
    uint64_t value = 0;

    memcpy(&value, from, bytes);
    if (is_signed_type(step->from) && (value >> (8 * bytes - 1) & 1) != 0) {
        value |= bytes == 8 ? 0 : UINT64_MAX << (8 * bytes);
        value = 0 - (0 - value) / (uint64_t)step->divisor;
    } else {
        value /= (uint64_t)step->divisor;
    }
    if (step->is_bool) {
        value = value != 0;
    }
    memcpy(to, &value, tutti_dtype_size(step->to));
}

void pack_reference(const struct pack_step *step, const void *from, void *to)
{
    if (step->from == step->to && step->scale == 1 && step->divisor == 1 &&
            !step->is_bool) {
        memcpy(to, from, tutti_dtype_size(step->from));
    } else if (dtype_is_float(step->from)) {
        set_float(step->to, float_step(step, float_value(step->from, from)), to);
    } else {
        integer_step(step, from, to);
    }
}

bool pack_same(tutti_dtype dtype, const void *a, const void *b)
{
    if (dtype_is_float(dtype) && isnan(float_value(dtype, a))) {
        return isnan(float_value(dtype, b));
    }
    return memcmp(a, b, tutti_dtype_size(dtype)) == 0;
}
