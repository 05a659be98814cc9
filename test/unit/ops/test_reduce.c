/*
 * Reductions, bit by bit against the slow reference, and the rules of their numerics one
 * by one; with all kernels that this processor has.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ops/reduce/reduce.h"
#include "test/batch/reference.h"
#include "test/unit/unit.h"

#define GUARD_BYTES ((size_t)64)
#define GUARD_VALUE 0xa5
#define OPERANDS_MAX 40

/** One comparison with the reference. */
struct trial {
    struct reduce_spec spec;
    int n; /* operands                                                    */
    int m; /* outputs                                                     */
    int in_place; /* the first so many outputs are inputs, from input `first` on */
    int first; /* see in_place; wraps around                                  */
    size_t count; /* elements                                                    */
    size_t shift; /* bytes by which all buffers are off their alignment          */
};

/** Memory between two guard bands. */
struct guarded {
    unsigned char *memory; /* owned */
    void *data; /* the bytes between the bands */
    size_t bytes;
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static struct guarded guarded_new(size_t bytes, size_t shift)
{
    struct guarded buffer = { .bytes = bytes };

    buffer.memory = mem_alloc_aligned(bytes + shift + 2 * GUARD_BYTES);
    assert_non_null(buffer.memory);
    memset(buffer.memory, GUARD_VALUE, bytes + shift + 2 * GUARD_BYTES);
    buffer.data = buffer.memory + GUARD_BYTES + shift;
    return buffer;
}

static void guarded_check(const struct guarded *buffer)
{
    const unsigned char *data = buffer->data;

    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(data[-1 - (ptrdiff_t)i], GUARD_VALUE);
        assert_int_equal(data[buffer->bytes + i], GUARD_VALUE);
    }
}

/* Bits of floats that are treated in a way of their own. */
static const uint64_t special_bits[][4] = {
    /* float16, bfloat16, float32, float64 */
    { 0x0000, 0x0000, 0x00000000, 0x0000000000000000 }, /* 0 */
    { 0x8000, 0x8000, 0x80000000, 0x8000000000000000 }, /* -0 */
    { 0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000 }, /* infinity */
    { 0xfc00, 0xff80, 0xff800000, 0xfff0000000000000 }, /* -infinity */
    { 0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000 }, /* quiet NaN */
    { 0xfc01, 0xff81, 0xff800001, 0xfff0000000000001 }, /* signalling NaN, negative */
    { 0x0001, 0x0001, 0x00000001, 0x0000000000000001 }, /* smallest subnormal */
    { 0x83ff, 0x807f, 0x807fffff,
            0x800fffffffffffff }, /* largest subnormal, negative */
    { 0x7bff, 0x7f7f, 0x7f7fffff, 0x7fefffffffffffff }, /* largest */
    { 0x3c00, 0x3f80, 0x3f800000, 0x3ff0000000000000 }, /* 1 */
};

/* Random bits; for floats mostly of moderate size, with special values among them. */
static uint64_t random_element(tutti_dtype dtype, uint64_t *random)
{
    const size_t specials = sizeof special_bits / sizeof special_bits[0];
    uint64_t bits = next_random(random);
    uint64_t choice = next_random(random) % 40;

    if (!dtype_is_float(dtype)) {
        return choice == 0 ? UINT64_MAX : choice == 1 ? 0 : bits;
    }
    if (choice < specials) {
        return special_bits[choice][dtype - TUTTI_FLOAT16];
    }
    if (choice < 20) {
        return bits;
    }
    /* Keep sign and fraction; take the exponent of a number near 1. */
    switch ((int)dtype) {
    case TUTTI_FLOAT16:
        return (bits & 0x83ff) | (14 + bits % 3) << 10;
    case TUTTI_BFLOAT16:
        return (bits & 0x807f) | (126 + bits % 3) << 7;
    case TUTTI_FLOAT32:
        return (bits & 0x807fffff) | (126 + bits % 3) << 23;
    default:
        return (bits & 0x800fffffffffffff) | (1022 + bits % 3) << 52;
    }
}

static void fill_random(void *data, tutti_dtype dtype, size_t count, uint64_t *random)
{
    size_t bytes = tutti_dtype_size(dtype);

    for (size_t i = 0; i < count; i++) {
        uint64_t element = random_element(dtype, random);

        memcpy((char *)data + i * bytes, &element, bytes);
    }
}

/* Equal bits, or NaN for NaN. */
static void check_elements(const struct trial *trial, const void *got, const void *want)
{
    tutti_dtype dtype = trial->spec.dtype;
    size_t bytes = tutti_dtype_size(dtype);

    for (size_t i = 0; i < trial->count; i++) {
        const char *g = (const char *)got + i * bytes;
        const char *w = (const char *)want + i * bytes;

        if (reference_equal(dtype, g, w, 1)) {
            continue;
        }
        fail_msg("%s of %s, n %d, m %d, count %zu, scales %g %g: element %zu differs",
                tutti_reduce_name(trial->spec.op), tutti_dtype_name(dtype), trial->n,
                trial->m, trial->count, trial->spec.prescale, trial->spec.postscale, i);
    }
}

/* What reduce_tree() must give, but for the bits of a NaN. */
static void reduce_reference(const struct reduce_spec *spec, const void *const *inputs,
        int n, void *output, size_t count)
{
    reference_reduce(
            &(struct reduction){ .dtype = spec->dtype,
                    .op = spec->op == TUTTI_AVERAGE ? TUTTI_SET_AVERAGE : spec->op,
                    .prescale = spec->prescale,
                    .postscale = spec->postscale,
                    .n = n,
                    .members = spec->divisor,
                    .inputs = inputs },
            output, count);
}

static void run_trial(const struct trial *trial)
{
    const int n = trial->n;
    const int m = trial->m;
    size_t bytes = trial->count * tutti_dtype_size(trial->spec.dtype);
    struct guarded inputs[OPERANDS_MAX];
    struct guarded outputs[OPERANDS_MAX];
    const void *from[OPERANDS_MAX];
    void *to[OPERANDS_MAX];
    struct guarded want = guarded_new(bytes, 0);
    uint64_t random = (uint64_t)trial->n * 1000 + trial->count;

    for (int k = 0; k < n; k++) {
        inputs[k] = guarded_new(bytes, trial->shift);
        fill_random(inputs[k].data, trial->spec.dtype, trial->count, &random);
        from[k] = inputs[k].data;
    }
    for (int j = 0; j < m; j++) {
        outputs[j] = guarded_new(bytes, trial->shift);
        to[j] = j < trial->in_place ? inputs[(trial->first + j) % n].data
                                    : outputs[j].data;
    }
    reduce_reference(&trial->spec, from, n, want.data, trial->count);

    reduce_tree(&trial->spec, from, n, to, m, trial->count);

    for (int j = 0; j < m; j++) {
        check_elements(trial, to[j], want.data);
        assert_memory_equal(to[j], to[0], bytes);
        guarded_check(&outputs[j]);
        mem_free(outputs[j].memory);
    }
    for (int k = 0; k < n; k++) {
        guarded_check(&inputs[k]);
        mem_free(inputs[k].memory);
    }
    mem_free(want.memory);
}

/* Runs a trial plainly, and on floats with scale factors as well. */
static void run_for_kind(struct trial trial, tutti_dtype dtype, tutti_reduce_op op)
{
    static const double scales[][2] = { { 0.1, 1 }, { 1, 1 / 3.0 }, { -1.7, 0.5 } };
    const double *scale = scales[((size_t)trial.n + trial.count) % 3];

    if (!reduce_is_supported(dtype, op)) {
        return;
    }
    trial.spec = (struct reduce_spec){
        .dtype = dtype, .op = op, .divisor = trial.n, .prescale = 1, .postscale = 1
    };
    run_trial(&trial);
    if (op == TUTTI_AVERAGE) {
        /* Operands that are sums of several each, also of a power of two in all. */
        trial.spec.divisor = trial.n % 2 == 0 ? 4 * trial.n : 8;
        run_trial(&trial);
        trial.spec.divisor = 3 * trial.n;
        run_trial(&trial);
    }
    if (dtype_is_float(dtype)) {
        trial.spec.prescale = scale[0];
        trial.spec.postscale = scale[1];
        run_trial(&trial);
    }
}

static void run_for_all_kinds(struct trial trial)
{
    for (tutti_dtype dtype = TUTTI_UINT8; dtype <= TUTTI_BOOL; dtype++) {
        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_PRODUCT; op++) {
            run_for_kind(trial, dtype, op);
        }
    }
}

static void test_every_number_of_operands_gives_the_canonical_tree(void **state)
{
    static const size_t counts[] = { 0, 1, 5, 67 };

    (void)state;
    for (int n = 1; n <= OPERANDS_MAX; n++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            run_for_all_kinds((struct trial){ .n = n, .m = 1, .count = counts[c] });
        }
    }
}

/*
 * A block of the portable kernels is 4096 bytes of accumulators with two operands and 2688
 * with 33, of the vector kernels 1024 bytes; accumulators are 8, 4, 2 and 1 bytes long.
 */
static void test_sizes_around_blocks_lose_no_element(void **state)
{
    static const struct {
        int n;
        size_t count;
    } sizes[] = { { 2, 511 }, { 2, 512 }, { 2, 513 }, { 2, 1023 }, { 2, 1024 },
        { 2, 1025 }, { 2, 2049 }, { 2, 4095 }, { 2, 4096 }, { 2, 4097 }, { 33, 336 },
        { 33, 337 }, { 33, 673 }, { 33, 1345 }, { 33, 2689 }, { 1, 1024 }, { 5, 127 },
        { 5, 128 }, { 7, 255 }, { 7, 257 }, { 16, 1023 }, { 23, 1025 }, { 40, 2600 } };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        run_for_all_kinds(
                (struct trial){ .n = sizes[i].n, .m = 1, .count = sizes[i].count });
    }
}

/* Lengths up to some vectors and a rest; the other choices change with the length. */
static void test_every_small_size(void **state)
{
    (void)state;
    for (size_t count = 0; count <= 200; count++) {
        const int n = 1 + (int)(count * 5 % 9);

        run_for_all_kinds((struct trial){ .n = n,
                .m = 1 + (int)(count % 3),
                .in_place = count % 2 == 0,
                .first = n - 1,
                .count = count,
                .shift = (count * 7 + (size_t)n) % 64 });
    }
}

static void test_an_output_may_be_any_input(void **state)
{
    (void)state;
    for (int n = 1; n <= 6; n++) {
        for (int first = 0; first < n; first++) {
            run_for_all_kinds((struct trial){
                    .n = n, .m = 1, .in_place = 1, .first = first, .count = 1500 });
        }
    }
}

static void test_all_outputs_get_the_same_bits(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        for (int in_place = 0; in_place <= n; in_place++) {
            run_for_all_kinds((struct trial){
                    .n = n, .m = n, .in_place = in_place, .first = 1, .count = 1100 });
        }
    }
}

static void test_pointers_need_no_alignment(void **state)
{
    (void)state;
    for (size_t shift = 1; shift < 16; shift += 2) {
        run_for_all_kinds((struct trial){
                .n = 3, .m = 2, .in_place = 1, .count = 515, .shift = shift });
    }
}

static void test_cutting_an_array_changes_no_bit(void **state)
{
    enum {
        COUNT = 3000
    };
    const struct reduce_spec spec = { .dtype = TUTTI_FLOAT32,
        .op = TUTTI_AVERAGE,
        .divisor = 5,
        .prescale = 0.3,
        .postscale = 7 };
    static float inputs[5][COUNT], whole[COUNT], pieces[COUNT];
    const void *from[5];
    uint64_t random = 1;

    (void)state;
    for (int k = 0; k < 5; k++) {
        from[k] = inputs[k];
        for (int i = 0; i < COUNT; i++) {
            inputs[k][i] = (float)(int64_t)next_random(&random);
        }
    }

    reduce_tree(&spec, from, 5, &(void *){ whole }, 1, COUNT);
    for (size_t at = 0, size = 1; at < COUNT; at += size, size = size * 3 % 401) {
        const void *cut[5];

        size = size_min(size, COUNT - at);
        for (int k = 0; k < 5; k++) {
            cut[k] = inputs[k] + at;
        }
        reduce_tree(&spec, cut, 5, &(void *){ pieces + at }, 1, size);
    }

    assert_memory_equal(whole, pieces, sizeof whole);
}

/* Maximum of x and x: every bit pattern passes the vectorised conversions. */
static void test_every_16_bit_float_passes_through(void **state)
{
    static uint16_t inputs[2][65536], output[65536];
    const void *from[2] = { inputs[0], inputs[1] };
    struct trial trial = { .spec = { .op = TUTTI_MAX, .prescale = 1, .postscale = 1 },
        .n = 2,
        .m = 1,
        .count = 65536 };

    (void)state;
    for (uint32_t i = 0; i <= UINT16_MAX; i++) {
        inputs[0][i] = inputs[1][i] = (uint16_t)i;
    }
    for (tutti_dtype dtype = TUTTI_FLOAT16; dtype <= TUTTI_BFLOAT16; dtype++) {
        trial.spec.dtype = dtype;

        reduce_tree(&trial.spec, from, 2, &(void *){ output }, 1, 65536);

        check_elements(&trial, output, inputs[0]);
    }
}

/** Reduces one element per operand. */
static void reduce_one(tutti_dtype dtype, tutti_reduce_op op, int n,
        const void *operands, void *result)
{
    const struct reduce_spec spec = {
        .dtype = dtype, .op = op, .divisor = n, .prescale = 1, .postscale = 1
    };
    const void *from[8];

    for (int k = 0; k < n; k++) {
        from[k] = (const char *)operands + (size_t)k * tutti_dtype_size(dtype);
    }
    reduce_tree(&spec, from, n, &result, 1, 1);
}

static void test_the_sum_pairs_neighbours(void **state)
{
    /* From left to right it would be 1: 1e8F + 1 is 1e8F. */
    const float operands[] = { 1e8F, 1, -1e8F, 1 };
    float sum = -1;

    (void)state;
    reduce_one(TUTTI_FLOAT32, TUTTI_SUM, 4, operands, &sum);

    assert_true(sum == 0);
}

static void test_16_bit_floats_are_rounded_once(void **state)
{
    const uint16_t halves[] = { 0x6800, 0x3c00, 0x3c00 }; /* 2048, 1, 1 */
    const uint16_t bfloats[] = { 0x4380, 0x3f80, 0x3f80 }; /* 256, 1, 1  */
    uint16_t sum = 0;

    (void)state;
    reduce_one(TUTTI_FLOAT16, TUTTI_SUM, 3, halves, &sum);
    assert_int_equal(sum, 0x6801); /* 2050; rounded at each step it would be 2048 */
    reduce_one(TUTTI_BFLOAT16, TUTTI_SUM, 3, bfloats, &sum);
    assert_int_equal(sum, 0x4381); /* 258 */
}

static void test_an_average_is_a_quotient(void **state)
{
    const float operands[] = { 5, 0, 0 }; /* times the rounded third: 1.6666667F */
    float average = 0;

    (void)state;
    reduce_one(TUTTI_FLOAT32, TUTTI_AVERAGE, 3, operands, &average);

    assert_true(average == 5.0F / 3.0F);
}

static void test_integer_averages_are_exact_and_truncate_toward_zero(void **state)
{
    const int8_t small[] = { 127, 127, 126 };
    const int8_t negative[] = { -1, -2, -5 };
    const uint32_t large[] = { UINT32_MAX, UINT32_MAX - 1 };
    int8_t byte = 0;
    uint32_t word = 0;

    (void)state;
    reduce_one(TUTTI_INT8, TUTTI_AVERAGE, 3, small, &byte);
    assert_int_equal(byte, 126);
    reduce_one(TUTTI_INT8, TUTTI_AVERAGE, 3, negative, &byte);
    assert_int_equal(byte, -2); /* -8 / 3 */
    reduce_one(TUTTI_UINT32, TUTTI_AVERAGE, 2, large, &word);
    assert_true(word == UINT32_MAX - 1);
}

static void test_integer_sums_and_products_wrap(void **state)
{
    const uint16_t words[] = { 65535, 65535 };
    const int64_t longs[] = { INT64_MAX, 1 };
    uint16_t word = 0;
    int64_t wide = 0;

    (void)state;
    reduce_one(TUTTI_UINT16, TUTTI_PRODUCT, 2, words, &word);
    assert_int_equal(word, 1);
    reduce_one(TUTTI_INT64, TUTTI_SUM, 2, longs, &wide);
    assert_true(wide == INT64_MIN);
    reduce_one(TUTTI_INT64, TUTTI_AVERAGE, 2, longs, &wide);
    assert_true(wide == INT64_MIN / 2);
}

static void test_a_nan_wins_in_min_and_max(void **state)
{
    const float left[] = { NAN, 1 };
    const float right[] = { 1, NAN };
    float result = 0;

    (void)state;
    for (tutti_reduce_op op = TUTTI_MIN; op <= TUTTI_MAX; op++) {
        reduce_one(TUTTI_FLOAT32, op, 2, left, &result);
        assert_true(isnan(result));
        reduce_one(TUTTI_FLOAT32, op, 2, right, &result);
        assert_true(isnan(result));
    }
}

static void test_minus_zero_is_below_zero(void **state)
{
    const double operands[] = { -0.0, 0.0, -0.0 };
    double result = 1;

    (void)state;
    for (int first = 0; first < 2; first++) {
        reduce_one(TUTTI_FLOAT64, TUTTI_MIN, 2, operands + first, &result);
        assert_true(result == 0 && signbit(result) != 0);
        reduce_one(TUTTI_FLOAT64, TUTTI_MAX, 2, operands + first, &result);
        assert_true(result == 0 && signbit(result) == 0);
    }
}

static void test_min_and_max_of_bool_are_and_and_or(void **state)
{
    const uint8_t operands[] = { 0, 4, 2 };
    uint8_t result = 9;

    (void)state;
    reduce_one(TUTTI_BOOL, TUTTI_MIN, 2, operands + 1, &result);
    assert_int_equal(result, 1); /* any byte but 0 is true */
    reduce_one(TUTTI_BOOL, TUTTI_MIN, 3, operands, &result);
    assert_int_equal(result, 0);
    reduce_one(TUTTI_BOOL, TUTTI_MAX, 3, operands, &result);
    assert_int_equal(result, 1);
    reduce_one(TUTTI_BOOL, TUTTI_MAX, 1, operands + 1, &result);
    assert_int_equal(result, 1);
}

static void test_only_what_has_a_meaning_is_supported(void **state)
{
    (void)state;
    for (tutti_dtype dtype = TUTTI_UINT8; dtype <= TUTTI_FLOAT64; dtype++) {
        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_PRODUCT; op++) {
            assert_true(reduce_is_supported(dtype, op));
        }
    }
    assert_true(reduce_is_supported(TUTTI_BOOL, TUTTI_MIN));
    assert_true(reduce_is_supported(TUTTI_BOOL, TUTTI_MAX));
    assert_false(reduce_is_supported(TUTTI_BOOL, TUTTI_SUM));
    assert_false(reduce_is_supported(TUTTI_BOOL, TUTTI_AVERAGE));
    assert_false(reduce_is_supported(TUTTI_BOOL, TUTTI_PRODUCT));
    assert_false(reduce_is_supported(TUTTI_FLOAT8_E4M3, TUTTI_SUM));
    assert_false(reduce_is_supported(TUTTI_FLOAT8_E5M2, TUTTI_MAX));
    assert_false(reduce_is_supported((tutti_dtype)99, TUTTI_SUM));
    assert_false(reduce_is_supported(TUTTI_FLOAT32, (tutti_reduce_op)99));
}

static void test_a_million_operands_fit_the_stack(void **state)
{
    uint32_t ones[37], sums[37]; /* vectors and a rest */
    const struct reduce_spec spec = {
        .dtype = TUTTI_UINT32, .op = TUTTI_SUM, .prescale = 1, .postscale = 1
    };
    /* One less: as many partial results at once as there can be. */
    const int n = REDUCE_OPERANDS_MAX - 1;
    const void **inputs = mem_calloc(REDUCE_OPERANDS_MAX, sizeof *inputs);

    (void)state;
    assert_non_null(inputs);
    for (size_t i = 0; i < 37; i++) {
        ones[i] = 1;
    }
    for (int k = 0; k < REDUCE_OPERANDS_MAX; k++) {
        inputs[k] = ones;
    }

    for (int more = 0; more < 2; more++) {
        reduce_tree(&spec, inputs, n + more, &(void *){ sums }, 1, 37);
        for (size_t i = 0; i < 37; i++) {
            assert_int_equal(sums[i], n + more);
        }
    }
    mem_free(inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_of_operands_gives_the_canonical_tree),
        cmocka_unit_test(test_sizes_around_blocks_lose_no_element),
        cmocka_unit_test(test_every_small_size),
        cmocka_unit_test(test_an_output_may_be_any_input),
        cmocka_unit_test(test_all_outputs_get_the_same_bits),
        cmocka_unit_test(test_pointers_need_no_alignment),
        cmocka_unit_test(test_cutting_an_array_changes_no_bit),
        cmocka_unit_test(test_every_16_bit_float_passes_through),
        cmocka_unit_test(test_the_sum_pairs_neighbours),
        cmocka_unit_test(test_16_bit_floats_are_rounded_once),
        cmocka_unit_test(test_an_average_is_a_quotient),
        cmocka_unit_test(test_integer_averages_are_exact_and_truncate_toward_zero),
        cmocka_unit_test(test_integer_sums_and_products_wrap),
        cmocka_unit_test(test_a_nan_wins_in_min_and_max),
        cmocka_unit_test(test_minus_zero_is_below_zero),
        cmocka_unit_test(test_min_and_max_of_bool_are_and_and_or),
        cmocka_unit_test(test_only_what_has_a_meaning_is_supported),
        cmocka_unit_test(test_a_million_operands_fit_the_stack),
    };

    int failed = 0;

    for (int which = CONFIG_KERNELS_SCALAR; which <= CONFIG_KERNELS_NEON; which++) {
        if (reduce_has((enum config_kernels)which)) {
            failed += reduce_use((enum config_kernels)which) != TUTTI_OK;
            failed += cmocka_run_group_tests(tests, NULL, NULL);
        }
    }
    return failed;
}
