/*
 * The vector kernels that this processor has, bit by bit against the portable ones, which
 * test_reduce.c checks against the definition. Where two results are NaN their bits may
 * differ, unless only one operand was.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "ops/reduce/reduce.h"
#include "test/unit/unit.h"

#define OPERANDS_MAX 40
#define OUTPUTS_MAX 3
/* Room for an operand with a shift and a guard on either side. */
#define ROOM_BYTES ((size_t)65536)
#define GUARD_BYTES ((size_t)64)
#define GUARD_VALUE 0xa5

/** One comparison. */
struct trial {
    struct reduce_spec spec;
    int n, m;
    bool in_place; /* the first output is an operand */
    size_t count; /* elements */
    size_t shift; /* bytes by which operands and outputs are off their alignment */
};

/** Buffers for all trials. */
struct bench {
    unsigned char *random; /* OPERANDS_MAX rooms of elements of a dtype */
    unsigned char *inputs; /* OPERANDS_MAX rooms */
    unsigned char *outputs; /* OUTPUTS_MAX rooms */
    unsigned char *expected; /* a room */
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/** Fraction bits of a float dtype. */
static int fraction_bits(tutti_dtype dtype)
{
    if (dtype == TUTTI_FLOAT64) {
        return 52;
    }
    if (dtype == TUTTI_FLOAT32) {
        return 23;
    }
    return dtype == TUTTI_FLOAT16 ? 10 : 7;
}

static bool is_nan_element(tutti_dtype dtype, uint64_t bits)
{
    const int width = (int)tutti_dtype_size(dtype) * 8;
    const uint64_t magnitude = bits & UINT64_MAX >> (65 - width);
    const uint64_t infinity =
            (UINT64_MAX >> (65 - width)) & UINT64_MAX << fraction_bits(dtype);

    return dtype_is_float(dtype) && magnitude > infinity;
}

/*
 * Random bits; of floats two thirds near 1, and some zeros of both signs, infinities and
 * NaNs, so that few results of many operands are NaN.
 */
static uint64_t random_element(tutti_dtype dtype, uint64_t *random)
{
    const uint64_t bits = next_random(random);
    const uint64_t choice = next_random(random) % 60;
    const int width = (int)tutti_dtype_size(dtype) * 8;
    const int fraction = fraction_bits(dtype);
    const uint64_t sign = UINT64_C(1) << (width - 1);
    const uint64_t exponents = (sign - 1) & UINT64_MAX << fraction;
    const uint64_t one = exponents >> 1 & UINT64_MAX << fraction;

    if (!dtype_is_float(dtype)) {
        return choice < 4 ? 0 : bits;
    }
    switch (choice) {
    case 0: /* zero */
    case 1:
        return bits & sign;
    case 2: /* infinity */
        return (bits & sign) | exponents;
    case 3: /* NaN */
        return bits | exponents | 1;
    default:
        if (choice < 20) {
            return bits;
        }
        return (bits & (sign | ~exponents)) | one;
    }
}

static void fill_random(struct bench *bench, tutti_dtype dtype, size_t count)
{
    const size_t bytes = tutti_dtype_size(dtype);
    uint64_t random = 1;

    for (size_t k = 0; k < OPERANDS_MAX; k++) {
        for (size_t i = 0; i < count; i++) {
            const uint64_t element = random_element(dtype, &random);

            memcpy(bench->random + k * ROOM_BYTES + i * bytes, &element, bytes);
        }
    }
}

static void check_equal(const struct trial *trial, const void *got, const void *want)
{
    const tutti_dtype dtype = trial->spec.dtype;
    const size_t bytes = tutti_dtype_size(dtype);

    for (size_t i = 0; i < trial->count; i++) {
        uint64_t g = 0;
        uint64_t w = 0;

        memcpy(&g, (const char *)got + i * bytes, bytes);
        memcpy(&w, (const char *)want + i * bytes, bytes);
        if (g != w && !(is_nan_element(dtype, g) && is_nan_element(dtype, w))) {
            fail_msg("%s of %s, n %d, m %d, in place %d, count %zu, shift %zu, scales "
                     "%g "
                     "%g: element %zu is %llx instead of %llx",
                    tutti_reduce_name(trial->spec.op), tutti_dtype_name(dtype),
                    trial->n, trial->m, trial->in_place, trial->count, trial->shift,
                    trial->spec.prescale, trial->spec.postscale, i,
                    (unsigned long long)g, (unsigned long long)w);
        }
    }
}

static void check_guards(const unsigned char *data, size_t bytes)
{
    unsigned char guard[GUARD_BYTES];

    memset(guard, GUARD_VALUE, sizeof guard);
    assert_memory_equal(data - GUARD_BYTES, guard, sizeof guard);
    assert_memory_equal(data + bytes, guard, sizeof guard);
}

static void run_trial(
        struct bench *bench, const struct trial *trial, enum config_kernels which)
{
    const size_t bytes = trial->count * tutti_dtype_size(trial->spec.dtype);
    struct reduce_spec spec = trial->spec;
    const void *from[OPERANDS_MAX];
    void *to[OUTPUTS_MAX];

    spec.divisor = trial->n * trial->m; /* of as many operands, or of more */
    for (int k = 0; k < trial->n; k++) {
        unsigned char *data = bench->inputs + (size_t)k * ROOM_BYTES + trial->shift;

        memset(data, GUARD_VALUE, bytes + 2 * GUARD_BYTES);
        data += GUARD_BYTES;
        memcpy(data, bench->random + (size_t)k * ROOM_BYTES, bytes);
        from[k] = data;
    }
    for (int j = 0; j < trial->m; j++) {
        unsigned char *data = bench->outputs + (size_t)j * ROOM_BYTES + trial->shift;

        memset(data, GUARD_VALUE, bytes + 2 * GUARD_BYTES);
        to[j] = data + GUARD_BYTES;
    }
    assert_int_equal(reduce_use(CONFIG_KERNELS_SCALAR), TUTTI_OK);
    reduce_tree(&spec, from, trial->n, &(void *){ bench->expected }, 1, trial->count);
    if (trial->in_place) { /* the last operand, which is read last */
        to[0] = bench->inputs + (size_t)(trial->n - 1) * ROOM_BYTES + trial->shift +
                GUARD_BYTES;
    }
    assert_int_equal(reduce_use(which), TUTTI_OK);

    reduce_tree(&spec, from, trial->n, to, trial->m, trial->count);

    for (int j = 0; j < trial->m; j++) {
        check_equal(trial, to[j], bench->expected);
        assert_memory_equal(to[j], to[0], bytes);
        check_guards(to[j], bytes);
    }
}

/* Calls `run` for all reductions there are, of floats with scale factors as well. */
static void for_all_reductions(struct bench *bench, enum config_kernels which,
        size_t count, void (*run)(struct bench *, struct trial, enum config_kernels))
{
    static const double scales[][2] = { { 1, 1 }, { 0.1, 1 }, { -1.7, 0.3 } };

    for (tutti_dtype dtype = TUTTI_UINT8; dtype <= TUTTI_BOOL; dtype++) {
        const size_t kinds = dtype_is_float(dtype) ? 3 : 1;

        fill_random(bench, dtype, count);
        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_PRODUCT; op++) {
            for (size_t s = 0; s < kinds && reduce_is_supported(dtype, op); s++) {
                const struct reduce_spec spec = { .dtype = dtype,
                    .op = op,
                    .prescale = scales[s][0],
                    .postscale = scales[s][1] };

                run(bench, (struct trial){ .spec = spec }, which);
            }
        }
    }
}

/* Lengths up to some vectors and a rest; the other choices change with the length. */
static void run_small(
        struct bench *bench, struct trial trial, enum config_kernels which)
{
    for (trial.n = 1; trial.n <= 9; trial.n++) {
        for (trial.count = 0; trial.count <= 200; trial.count++) {
            trial.m = 1 + (int)(trial.count % OUTPUTS_MAX);
            trial.shift = (trial.count * 7 + (size_t)trial.n) % 64;
            trial.in_place = trial.count % 2 == 0;
            run_trial(bench, &trial, which);
        }
    }
}

/* A block is 1024 bytes of accumulators: 128 to 1024 elements. */
static void run_large(
        struct bench *bench, struct trial trial, enum config_kernels which)
{
    static const int operands[] = { 1, 2, 5, 7, 16, 23, 33, OPERANDS_MAX };
    static const size_t counts[] = { 127, 128, 255, 257, 512, 1023, 1024, 1025, 2600 };

    for (size_t k = 0; k < sizeof operands / sizeof operands[0]; k++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            trial.n = operands[k];
            trial.m = 1;
            trial.count = counts[c];
            run_trial(bench, &trial, which);
        }
    }
}

static struct bench bench_new(void)
{
    struct bench bench = {
        .random = mem_alloc_aligned(OPERANDS_MAX * ROOM_BYTES),
        .inputs = mem_alloc_aligned(OPERANDS_MAX * ROOM_BYTES),
        .outputs = mem_alloc_aligned(OUTPUTS_MAX * ROOM_BYTES),
        .expected = mem_alloc_aligned(ROOM_BYTES),
    };

    assert_true(bench.random != NULL && bench.inputs != NULL && bench.outputs != NULL &&
            bench.expected != NULL);
    return bench;
}

static void bench_free(struct bench *bench)
{
    mem_free(bench->random);
    mem_free(bench->inputs);
    mem_free(bench->outputs);
    mem_free(bench->expected);
}

static const enum config_kernels vector_kernels[] = { CONFIG_KERNELS_AVX2,
    CONFIG_KERNELS_AVX512, CONFIG_KERNELS_NEON };

/* Runs a test with every set that there is, or says that there is none. */
static void with_every_set(void (*test)(enum config_kernels which))
{
    bool found = false;

    for (size_t i = 0; i < sizeof vector_kernels / sizeof vector_kernels[0]; i++) {
        if (reduce_has(vector_kernels[i])) {
            found = true;
            test(vector_kernels[i]);
        }
    }
    assert_int_equal(reduce_use(CONFIG_KERNELS_AUTO), TUTTI_OK);
    if (!found) {
        print_message("this processor or this build has no vector kernels\n");
        skip();
    }
}

static void small_arrays(enum config_kernels which)
{
    struct bench bench = bench_new();

    for_all_reductions(&bench, which, 200, run_small);
    bench_free(&bench);
}

static void test_small_arrays_of_all_kinds_get_the_same_bits(void **state)
{
    (void)state;
    with_every_set(small_arrays);
}

static void large_arrays(enum config_kernels which)
{
    struct bench bench = bench_new();

    for_all_reductions(&bench, which, 2600, run_large);
    bench_free(&bench);
}

static void test_blocks_and_many_operands_get_the_same_bits(void **state)
{
    (void)state;
    with_every_set(large_arrays);
}

/* All values of a 16-bit float, joined with `other`: got by vectors, want portably. */
static void join_with_all(tutti_dtype dtype, tutti_reduce_op op, uint16_t other,
        enum config_kernels which, uint16_t *got, uint16_t *want)
{
    static uint16_t all[UINT16_MAX + 1], others[UINT16_MAX + 1];
    const struct reduce_spec spec = {
        .dtype = dtype, .op = op, .divisor = 2, .prescale = 1, .postscale = 1
    };

    for (size_t i = 0; i <= UINT16_MAX; i++) {
        all[i] = (uint16_t)i;
        others[i] = other;
    }
    assert_int_equal(reduce_use(CONFIG_KERNELS_SCALAR), TUTTI_OK);
    reduce_tree(&spec, (const void *[]){ all, others }, 2, (void *[]){ want }, 1,
            UINT16_MAX + 1);
    assert_int_equal(reduce_use(which), TUTTI_OK);
    reduce_tree(&spec, (const void *[]){ all, others }, 2, (void *[]){ got }, 1,
            UINT16_MAX + 1);
}

/* x + -0 is x; a NaN keeps its sign and payload and is made quiet. */
static void every_value(enum config_kernels which)
{
    static uint16_t got[UINT16_MAX + 1], want[UINT16_MAX + 1];

    for (tutti_dtype dtype = TUTTI_FLOAT16; dtype <= TUTTI_BFLOAT16; dtype++) {
        const uint16_t quiet = (uint16_t)(1 << (fraction_bits(dtype) - 1));

        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_PRODUCT; op++) {
            join_with_all(dtype, op, 0x8000, which, got, want);
            assert_memory_equal(got, want, sizeof got);
        }
        join_with_all(dtype, TUTTI_SUM, 0x8000, which, got, want);
        for (uint32_t i = 0; i <= UINT16_MAX; i++) {
            assert_int_equal(got[i], i | (is_nan_element(dtype, i) ? quiet : 0));
        }
    }
}

static void test_every_16_bit_float_is_converted_as_by_the_portable_kernels(
        void **state)
{
    (void)state;
    with_every_set(every_value);
}

/* Products of two values need up to twice the fraction bits: ties, overflow, underflow. */
static void rounding(enum config_kernels which)
{
    static uint16_t got[UINT16_MAX + 1], want[UINT16_MAX + 1];
    uint64_t random = 5;

    for (int round = 0; round < 60; round++) {
        const tutti_dtype dtype = round % 2 == 0 ? TUTTI_FLOAT16 : TUTTI_BFLOAT16;
        const tutti_reduce_op op = round % 3 == 0 ? TUTTI_SUM : TUTTI_PRODUCT;
        const uint16_t other = (uint16_t)random_element(dtype, &random);

        join_with_all(dtype, op, other, which, got, want);
        for (size_t i = 0; i <= UINT16_MAX; i++) {
            if (!is_nan_element(dtype, got[i]) || !is_nan_element(dtype, want[i])) {
                assert_int_equal(got[i], want[i]);
            }
        }
    }
}

static void test_results_are_rounded_as_by_the_portable_kernels(void **state)
{
    (void)state;
    with_every_set(rounding);
}

/* Memory whose last byte is the last that may be touched; page by page. */
static unsigned char *page_before_a_hole(size_t page)
{
    unsigned char *memory = mmap(
            NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    return memory;
}

static void arrays_before_a_hole(enum config_kernels which)
{
    enum {
        OPERANDS = 5
    };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory[OPERANDS];
    const void *from[OPERANDS];

    assert_int_equal(reduce_use(which), TUTTI_OK);
    for (int k = 0; k < OPERANDS; k++) {
        memory[k] = page_before_a_hole(page);
    }
    for (tutti_dtype dtype = TUTTI_UINT8; dtype <= TUTTI_BOOL; dtype++) {
        const struct reduce_spec spec = {
            .dtype = dtype, .op = TUTTI_MAX, .prescale = 1, .postscale = 1
        };

        for (size_t count = 0; count <= 150; count++) {
            const size_t bytes = count * tutti_dtype_size(dtype);

            for (int k = 0; k < OPERANDS; k++) {
                from[k] = memory[k] + page - bytes;
            }
            for (int n = 2; n <= OPERANDS; n++) { /* n - 1: in place */
                reduce_tree(&spec, from, n, (void *[]){ memory[n - 1] + page - bytes },
                        1, count);
            }
        }
    }
    for (int k = 0; k < OPERANDS; k++) {
        assert_int_equal(munmap(memory[k], 2 * page), 0);
    }
}

static void test_nothing_behind_an_array_is_touched(void **state)
{
    (void)state;
    with_every_set(arrays_before_a_hole);
}

static void test_the_choice_is_kept_and_what_is_missing_is_refused(void **state)
{
    bool vectors = false;

    (void)state;
    assert_int_equal(reduce_use(CONFIG_KERNELS_SCALAR), TUTTI_OK);
    assert_int_equal(reduce_in_use(), CONFIG_KERNELS_SCALAR);
    for (size_t i = 0; i < sizeof vector_kernels / sizeof vector_kernels[0]; i++) {
        const enum config_kernels before = reduce_in_use();
        const enum config_kernels which = vector_kernels[i];

        if (reduce_has(which)) {
            vectors = true;
            assert_int_equal(reduce_use(which), TUTTI_OK);
            assert_int_equal(reduce_in_use(), which);
        } else {
            assert_int_equal(reduce_use(which), TUTTI_ERR_CONFIG);
            assert_non_null(strstr(tutti_last_error(), "kernels cannot be "));
            assert_int_equal(reduce_in_use(), before);
        }
    }
    assert_int_equal(reduce_use(CONFIG_KERNELS_AUTO), TUTTI_OK);
    assert_true(vectors == (reduce_in_use() != CONFIG_KERNELS_SCALAR));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_choice_is_kept_and_what_is_missing_is_refused),
        cmocka_unit_test(test_small_arrays_of_all_kinds_get_the_same_bits),
        cmocka_unit_test(test_blocks_and_many_operands_get_the_same_bits),
        cmocka_unit_test(
                test_every_16_bit_float_is_converted_as_by_the_portable_kernels),
        cmocka_unit_test(test_results_are_rounded_as_by_the_portable_kernels),
        cmocka_unit_test(test_nothing_behind_an_array_is_touched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
