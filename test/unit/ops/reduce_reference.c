/*
 * Reductions, slow and by their definition.
 */
#include "test/unit/ops/reduce_reference.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "test/unit/ops/half_reference.h"

/** An accumulator; the dtype tells which member counts. */
union value {
    float f; /* float16, bfloat16, float32 */
    double d; /* float64                    */
    uint64_t u; /* unsigned integers, bool    */
    int64_t i; /* signed integers            */
};

struct reduction_of_element {
    const struct reduce_spec *spec;
    const void *const *inputs;
    size_t index;
};

static bool is_signed_dtype(tutti_dtype dtype)
{
    return dtype == TUTTI_INT8 || dtype == TUTTI_INT16 || dtype == TUTTI_INT32 ||
            dtype == TUTTI_INT64;
}

static union value load(tutti_dtype dtype, const void *element)
{
    union value value = { .u = 0 };
    size_t bytes = tutti_dtype_size(dtype);
    uint16_t half = 0;

    memcpy(&half, element, bytes < sizeof half ? bytes : sizeof half);
    if (dtype == TUTTI_FLOAT16) {
        value.f = (float)small_float_decode(&float16_format, half);
    } else if (dtype == TUTTI_BFLOAT16) {
        value.f = (float)small_float_decode(&bfloat16_format, half);
    } else {
        memcpy(&value, element, bytes); /* little-endian integers and the floats */
    }
    if (is_signed_dtype(dtype) && (value.u >> (8 * bytes - 1) & 1) != 0) {
        value.u |= ~(UINT64_MAX >> (64 - 8 * bytes)); /* the sign */
    }
    if (dtype == TUTTI_BOOL) {
        value.u = value.u != 0;
    }
    return value;
}

static void store(tutti_dtype dtype, union value value, void *element)
{
    uint16_t half;

    if (dtype == TUTTI_FLOAT16) {
        half = small_float_encode(&float16_format, (double)value.f);
        memcpy(element, &half, sizeof half);
    } else if (dtype == TUTTI_BFLOAT16) {
        half = small_float_encode(&bfloat16_format, (double)value.f);
        memcpy(element, &half, sizeof half);
    } else {
        memcpy(element, &value, tutti_dtype_size(dtype));
    }
}

static double min_or_max(tutti_reduce_op op, double x, double y)
{
    if (isnan(x) || isnan(y)) {
        return (double)NAN;
    }
    if (x == y) { /* -0 is below +0 */
        return (signbit(x) != 0) == (op == TUTTI_MIN) ? x : y;
    }
    return (x < y) == (op == TUTTI_MIN) ? x : y;
}

static float combine_float(tutti_reduce_op op, float x, float y)
{
    if (op == TUTTI_SUM || op == TUTTI_AVERAGE) {
        return x + y;
    }
    return op == TUTTI_PRODUCT ? x * y : (float)min_or_max(op, (double)x, (double)y);
}

static double combine_double(tutti_reduce_op op, double x, double y)
{
    if (op == TUTTI_SUM || op == TUTTI_AVERAGE) {
        return x + y;
    }
    return op == TUTTI_PRODUCT ? x * y : min_or_max(op, x, y);
}

static union value combine_integer(
        const struct reduce_spec *spec, union value x, union value y)
{
    bool x_less = is_signed_dtype(spec->dtype) ? x.i < y.i : x.u < y.u;

    if (spec->op == TUTTI_SUM || spec->op == TUTTI_AVERAGE) {
        return (union value){ .u = x.u + y.u };
    }
    if (spec->op == TUTTI_PRODUCT) {
        return (union value){ .u = x.u * y.u };
    }
    return x_less == (spec->op == TUTTI_MIN) ? x : y;
}

static union value combine(const struct reduce_spec *spec, union value x, union value y)
{
    if (spec->dtype == TUTTI_FLOAT64) {
        return (union value){ .d = combine_double(spec->op, x.d, y.d) };
    }
    if (dtype_is_float(spec->dtype)) {
        return (union value){ .f = combine_float(spec->op, x.f, y.f) };
    }
    return combine_integer(spec, x, y);
}

static union value scale(tutti_dtype dtype, union value value, double factor)
{
    if (dtype == TUTTI_FLOAT64) {
        value.d *= factor;
    } else if (dtype_is_float(dtype)) {
        value.f *= (float)factor;
    }
    return value;
}

static union value divide(tutti_dtype dtype, union value value, int n)
{
    if (dtype == TUTTI_FLOAT64) {
        value.d /= n;
    } else if (dtype_is_float(dtype)) {
        value.f /= (float)n;
    } else if (is_signed_dtype(dtype)) {
        value.i /= n;
    } else {
        value.u /= (uint64_t)n;
    }
    return value;
}

/* The operands first to first + n - 1. The tree is the point, and n is small. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static union value reduce_range(const struct reduction_of_element *r, int first, int n)
{
    tutti_dtype dtype = r->spec->dtype;
    const char *input = r->inputs[first];
    int split = 1;

    if (n == 1) {
        union value leaf = load(dtype, input + r->index * tutti_dtype_size(dtype));

        return scale(dtype, leaf, r->spec->prescale);
    }
    while (split * 2 < n) {
        split *= 2;
    }
    return combine(r->spec, reduce_range(r, first, split),
            reduce_range(r, first + split, n - split));
}

void reduce_reference(const struct reduce_spec *spec, const void *const *inputs, int n,
        void *output, size_t count)
{
    size_t bytes = tutti_dtype_size(spec->dtype);

    for (size_t i = 0; i < count; i++) {
        struct reduction_of_element r = { .spec = spec, .inputs = inputs, .index = i };
        union value value = reduce_range(&r, 0, n);

        if (spec->op == TUTTI_AVERAGE) {
            value = divide(spec->dtype, value, spec->divisor);
        }
        value = scale(spec->dtype, value, spec->postscale);
        store(spec->dtype, value, (char *)output + i * bytes);
    }
}
