/*
 * The simulated NCCL in three versions: each says which it is, has the functions of the
 * product's table that its version has, and no later one. And the arithmetic of halves.
 */
#include <dlfcn.h>
#include <string.h>

#include "ops/gpu/nccl.h"
#include "test/gpusim/nccl/reduce.h"
#include "test/unit/unit.h"

/* Every function of the table, and the version that brought it; 0: the oldest has it. */
static const struct {
    const char *symbol;
    int since;
} functions[] = {
#define NCCL_REQUIRED(field, symbol, parameters) { #symbol, 0 },
#define NCCL_OPTIONAL(field, symbol, since, parameters) { #symbol, since },
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) { #symbol, 0 },
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) { #symbol, since },
#include "ops/gpu/nccl.def"
};

static void check_version(const char *library, int version)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    struct nccl_api api;
    size_t i;

    if (handle == NULL) {
        fail_msg("%s", dlerror());
    }
    for (i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if ((dlsym(handle, functions[i].symbol) != NULL) !=
                (functions[i].since <= version)) {
            fail_msg("%s: %s", library, functions[i].symbol);
        }
    }
    assert_null(dlsym(handle, "api_version"));
    assert_int_equal(nccl_load(library, &api), TUTTI_OK);
    assert_int_equal(api.version, version);
    assert_int_equal(dlclose(handle), 0);
}

UNIT_TEST(test_a_version_has_its_functions)
{
    check_version(GPUSIM_NCCL, 22809);
    check_version(GPUSIM_NCCL_2_18, 21803);
    check_version(GPUSIM_NCCL_2_12, 21212);
}

UNIT_TEST(test_halves_keep_their_bits)
{
    uint32_t bits;

    for (bits = 0; bits < 0x10000; bits++) {
        if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0) {
            continue; /* NaN */
        }
        assert_int_equal(
                reduce_half_from_float(reduce_half_to_float((uint16_t)bits)), bits);
    }
    for (bits = 0; bits < 0x10000; bits++) {
        if ((bits & 0x7f80) == 0x7f80 && (bits & 0x7f) != 0) {
            continue;
        }
        assert_int_equal(
                reduce_bfloat_from_float(reduce_bfloat_to_float((uint16_t)bits)), bits);
    }
}

UNIT_TEST(test_halves_round_to_even)
{
    assert_int_equal(reduce_half_from_float(2049), reduce_half_from_float(2048));
    assert_int_equal(reduce_half_from_float(2051), reduce_half_from_float(2052));
    assert_int_equal(reduce_half_from_float(65519), 0x7bff);
    assert_int_equal(reduce_half_from_float(65520), 0x7c00);
    assert_int_equal(reduce_half_from_float(0x1p-25F), 0);
    assert_int_equal(reduce_half_from_float(0x1.8p-24F), 2);
    assert_int_equal(reduce_half_from_float(-0x1.8p-25F), 0x8001);
    assert_int_equal(reduce_bfloat_from_float(257), 0x4380);
    assert_int_equal(reduce_bfloat_from_float(259), 0x4382);
}

UNIT_TEST(test_integers_wrap)
{
    int8_t a = 100;
    int8_t b = 100;

    reduce_fold(NCCL_INT8, NCCL_SUM, &a, &b, 1);
    assert_int_equal(a, -56);
}
