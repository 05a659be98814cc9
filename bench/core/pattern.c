/*
 * One period of input and of the expected result.
 */
#include "bench/core/pattern.h"

#include <string.h>

#include "bench/core/collective.h"

size_t bench_dtype_bytes(tutti_dtype dtype)
{
    static const unsigned char bytes[] = {
#define DTYPE_BYTES(symbol, number, name, size) [number] = (size),
        TUTTI_DTYPE_MAP(DTYPE_BYTES)
#undef DTYPE_BYTES
    };

    return bytes[dtype];
}

bool bench_operation_is_valid(const struct bench_operation *operation)
{
    if (!bench_reduces(operation->collective)) {
        return true;
    }
    if (operation->dtype == TUTTI_FLOAT8_E4M3 ||
            operation->dtype == TUTTI_FLOAT8_E5M2) {
        return false;
    }
    return operation->dtype != TUTTI_BOOL || operation->op == TUTTI_MIN ||
            operation->op == TUTTI_MAX;
}

/* The largest integer up to which the type holds every integer, and enough of them. */
static unsigned exact_max(tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_INT8:
        return 127;
    case TUTTI_UINT8:
        return 255;
    case TUTTI_BFLOAT16:
        return 256;
    case TUTTI_FLOAT16:
        return 2048;
    case TUTTI_BOOL:
        return 1;
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        return 127; /* moved as bytes, so every pattern of bits is fine */
    case TUTTI_UINT16:
    case TUTTI_INT16:
        return 32767;
    case TUTTI_UINT32:
    case TUTTI_INT32:
    case TUTTI_UINT64:
    case TUTTI_INT64:
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
        return 1U << 24;
    }
    return 1;
}

/* A fixed scramble of (rank, position). */
static unsigned scramble(int rank, unsigned position)
{
    uint32_t x =
            (uint32_t)rank * UINT32_C(2654435761) + position * UINT32_C(40503) + 1U;

    x = (x ^ (x >> 15)) * UINT32_C(2246822519);
    x = (x ^ (x >> 13)) * UINT32_C(3266489917);
    return x ^ (x >> 16);
}

/* True for one rank in 61, another one at each position. */
static bool is_chosen(int rank, unsigned position)
{
    return ((unsigned)rank + position) % BENCH_PATTERN_PERIOD == 0;
}

static unsigned value_for_sum(unsigned max, int rank, int ranks, unsigned position)
{
    unsigned share = max / (unsigned)ranks;

    if (share < 3) {
        return is_chosen(rank, position) ? 1 : 0;
    }
    return scramble(rank, position) % ((share < 60 ? share : 60) + 1);
}

/*
 * The average must come out whole: up to 60 ranks hold a permutation of 0, 2, 4 ... whose
 * average is whole, the others hold that average.
 */
static unsigned value_for_average(int rank, int ranks, unsigned position)
{
    unsigned members = ranks < 60 ? (unsigned)ranks : 60U;
    unsigned base = position % 3;

    if ((unsigned)rank < members) {
        return base + 2 * (((unsigned)rank + position) % members);
    }
    return base + members - 1;
}

static unsigned value_of(
        const struct bench_operation *operation, int rank, int ranks, unsigned position)
{
    unsigned max = exact_max(operation->dtype);

    if (!bench_reduces(operation->collective)) {
        return scramble(rank, position) % ((max < 60 ? max : 60) + 1);
    }
    switch (operation->op) {
    case TUTTI_SUM:
        return value_for_sum(max, rank, ranks, position);
    case TUTTI_AVERAGE:
    case TUTTI_SET_AVERAGE:
        return value_for_average(rank, ranks, position);
    case TUTTI_PRODUCT:
        return is_chosen(rank, position) ? 2 : 1;
    case TUTTI_MIN:
    case TUTTI_MAX:
        return scramble(rank, position) % ((max < 60 ? max : 60) + 1);
    }
    return 0;
}

static double combine(tutti_reduce_op op, double left, double right)
{
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVERAGE:
    case TUTTI_SET_AVERAGE:
        return left + right;
    case TUTTI_MIN:
        return left < right ? left : right;
    case TUTTI_MAX:
        return left > right ? left : right;
    case TUTTI_PRODUCT:
        return left * right;
    }
    return 0;
}

static double reduced_at(
        const struct bench_operation *operation, int ranks, unsigned position)
{
    double result = value_of(operation, 0, ranks, position);

    for (int rank = 1; rank < ranks; rank++) {
        result = combine(
                operation->op, result, value_of(operation, rank, ranks, position));
    }
    return operation->op == TUTTI_AVERAGE ? result / ranks : result;
}

/* An integer of at most 11 significant bits as IEEE binary16. */
static uint16_t half_from_integer(unsigned value)
{
    unsigned exponent = 0;

    if (value == 0) {
        return 0;
    }
    while (value >> (exponent + 1) != 0) {
        exponent++;
    }
    if (exponent > 10) {
        value >>= exponent - 10;
    } else {
        value <<= 10 - exponent;
    }
    return (uint16_t)(((exponent + 15) << 10) | (value & 0x3ff));
}

/* Stores a small integer as an element; the low bytes first on every machine we run on. */
static void encode(unsigned char *element, tutti_dtype dtype, double value)
{
    uint64_t integer = (uint64_t)value;
    float single = (float)value;
    uint16_t half = half_from_integer((unsigned)integer);
    uint32_t bits;

    switch (dtype) {
    case TUTTI_FLOAT16:
        memcpy(element, &half, sizeof half);
        break;
    case TUTTI_BFLOAT16:
        memcpy(&bits, &single, sizeof bits);
        half = (uint16_t)(bits >> 16);
        memcpy(element, &half, sizeof half);
        break;
    case TUTTI_FLOAT32:
        memcpy(element, &single, sizeof single);
        break;
    case TUTTI_FLOAT64:
        memcpy(element, &value, sizeof value);
        break;
    case TUTTI_UINT8:
    case TUTTI_INT8:
    case TUTTI_UINT16:
    case TUTTI_INT16:
    case TUTTI_UINT32:
    case TUTTI_INT32:
    case TUTTI_UINT64:
    case TUTTI_INT64:
    case TUTTI_BOOL:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        for (size_t i = 0; i < bench_dtype_bytes(dtype); i++) {
            element[i] = (unsigned char)(integer >> (8 * i));
        }
        break;
    }
}

void bench_pattern_init(struct bench_pattern *pattern,
        const struct bench_operation *operation, int rank, int ranks)
{
    *pattern = (struct bench_pattern){
        .element_bytes = bench_dtype_bytes(operation->dtype),
    };
    for (unsigned i = 0; i < BENCH_PATTERN_PERIOD; i++) {
        size_t offset = i * pattern->element_bytes;

        encode(pattern->input + offset, operation->dtype,
                value_of(operation, rank, ranks, i));
        if (bench_reduces(operation->collective)) {
            encode(pattern->expected + offset, operation->dtype,
                    reduced_at(operation, ranks, i));
        }
    }
    if (!bench_reduces(operation->collective)) {
        bench_pattern_expect_input_of(pattern, operation, operation->root, ranks);
    }
}

void bench_pattern_expect_input_of(struct bench_pattern *pattern,
        const struct bench_operation *operation, int source, int ranks)
{
    for (unsigned i = 0; i < BENCH_PATTERN_PERIOD; i++) {
        encode(pattern->expected + i * pattern->element_bytes, operation->dtype,
                value_of(operation, source, ranks, i));
    }
}

/* A run of elements that lie together both in the buffer and in the period. */
struct run {
    size_t tile; /* byte offset in the period */
    size_t buffer; /* byte offset in the buffer */
    size_t bytes; /* length */
};

/* The run that starts at element `at`. */
static struct run run_at(
        size_t element_bytes, uint64_t count, uint64_t phase, uint64_t at)
{
    size_t position = (size_t)((at + phase) % BENCH_PATTERN_PERIOD);
    size_t length = BENCH_PATTERN_PERIOD - position;

    if (length > count - at) {
        length = (size_t)(count - at);
    }
    return (struct run){
        .tile = position * element_bytes,
        .buffer = (size_t)at * element_bytes,
        .bytes = length * element_bytes,
    };
}

void bench_pattern_fill(const struct bench_pattern *pattern, void *buffer,
        uint64_t count, uint64_t phase)
{
    unsigned char *to = buffer;

    for (uint64_t at = 0; at < count;) {
        struct run run = run_at(pattern->element_bytes, count, phase, at);

        memcpy(to + run.buffer, pattern->input + run.tile, run.bytes);
        at += run.bytes / pattern->element_bytes;
    }
}

static uint64_t count_different(const unsigned char *left, const unsigned char *right,
        struct run run, size_t size)
{
    uint64_t different = 0;

    for (size_t i = 0; i < run.bytes; i += size) {
        if (memcmp(left + run.buffer + i, right + run.tile + i, size) != 0) {
            different++;
        }
    }
    return different;
}

uint64_t bench_pattern_count_wrong(const struct bench_pattern *pattern,
        const void *buffer, uint64_t count, uint64_t phase)
{
    const unsigned char *from = buffer;
    uint64_t wrong = 0;

    for (uint64_t at = 0; at < count;) {
        struct run run = run_at(pattern->element_bytes, count, phase, at);

        if (memcmp(from + run.buffer, pattern->expected + run.tile, run.bytes) != 0) {
            wrong += count_different(
                    from, pattern->expected, run, pattern->element_bytes);
        }
        at += run.bytes / pattern->element_bytes;
    }
    return wrong;
}
