/*
 * Metadata: what makes two submissions different, in memory, on the wire and in words.
 */
#include <math.h>
#include <string.h>

#include "agree/meta.h"
#include "base/mem.h"
#include "test/unit/unit.h"

static const int64_t shape[] = { 4, -1, INT64_C(5000000000) };
static const int64_t other_shape[] = { 4, -1, 7 };
static const int64_t with_parts[] = { 4, -1, INT64_C(5000000000), 8, 9 };

static struct meta sample(void)
{
    return (struct meta){ .count = INT64_C(3000000000),
        .dtype = TUTTI_BFLOAT16,
        .op = TUTTI_AVERAGE,
        .root = 3,
        .prescale = 0.1,
        .postscale = -2,
        .group = UINT64_C(0xfedcba9876543210),
        .group_size = 7,
        .ndim = 3,
        .dims = shape };
}

/* Each differs from the sample in one field. */
static struct meta variation(int which)
{
    struct meta meta = sample();

    switch (which) {
    case 0:
        meta.dtype = TUTTI_FLOAT16;
        break;
    case 1:
        meta.dims = other_shape;
        break;
    case 2:
        meta.count++;
        break;
    case 3:
        meta.op = TUTTI_MAX;
        break;
    case 4:
        meta.root = 0;
        break;
    case 5:
        meta.prescale = 0.1000001;
        break;
    case 6:
        meta.postscale = 2;
        break;
    case 7:
        meta.group++;
        break;
    case 8:
        meta.ndim = 0;
        meta.dims = NULL;
        break;
    case 9:
        meta.group = 0;
        meta.group_size = 0;
        break;
    case 10:
        meta.form = META_LISTED;
        break;
    case 11:
        meta.row_count = 6;
        break;
    case 12:
        meta.space = OP_DEVICE;
        break;
    default:
        meta.part_count = 2;
        meta.dims = with_parts;
        break;
    }
    return meta;
}

enum {
    VARIATIONS = 14
};

UNIT_TEST(test_any_difference_makes_metadata_unequal)
{
    const struct meta a = sample();
    const struct meta b = sample();

    assert_true(meta_equal(&a, &b));
    for (int i = 0; i < VARIATIONS; i++) {
        const struct meta c = variation(i);

        assert_false(meta_equal(&a, &c));
        assert_false(meta_equal(&c, &a));
    }
}

UNIT_TEST(test_a_mixed_spot_stands_for_any)
{
    struct meta a = sample();
    struct meta b = sample();

    b.spot = 5;
    assert_false(meta_equal(&a, &b));
    assert_true(meta_equal_elsewhere(&a, &b));
    a.spot = META_SPOT_MIXED;
    assert_true(meta_equal(&a, &b));
    assert_false(meta_equal(&b, &a));
    b.count++;
    assert_false(meta_equal(&a, &b) || meta_equal_elsewhere(&a, &b));
}

UNIT_TEST(test_a_difference_is_told_in_words)
{
    static const char *const expected[VARIATIONS][3] = {
        { "dtype differs", "bfloat16", "float16" },
        { "shape differs", "[4, *, 5000000000]", "[4, *, 7]" },
        { "count differs", "3000000000", "3000000001" },
        { "reduction differs", "average", "max" },
        { "root differs", "3", "0" },
        { "scale factors differ", "prescale 0.10000000000000001, postscale -2",
                "prescale 0.10000009999999999, postscale -2" },
        { "scale factors differ", "prescale 0.10000000000000001, postscale -2",
                "prescale 0.10000000000000001, postscale 2" },
        { "group differs", "one of 7 members (fedcba9876543210)",
                "one of 7 members (fedcba9876543211)" },
        { "shape differs", "[4, *, 5000000000]", "none" },
        { "group differs", "one of 7 members (fedcba9876543210)", "none" },
        { "form differs", "equal parts", "listed rows" },
        { "row_count differs", "0", "6" },
        { "memory differs", "host memory", "device memory" },
        { "rows_of differs", "none", "[8, 9]" },
    };
    const struct meta a = sample();
    char text_a[160];
    char text_b[160];

    for (int i = 0; i < VARIATIONS; i++) {
        const struct meta b = variation(i);

        assert_string_equal(
                meta_difference(&a, &b, text_a, text_b, sizeof text_a), expected[i][0]);
        assert_string_equal(text_a, expected[i][1]);
        assert_string_equal(text_b, expected[i][2]);
    }
}

/* Writes and reads back. */
static tutti_status round_trip(
        const struct meta *meta, struct meta *back, int64_t **dims)
{
    struct wire_writer out = { .data = NULL };
    struct wire_reader in;
    size_t capacity = 0;
    tutti_status status;

    meta_put(&out, meta);
    assert_false(out.failed);
    wire_reader_init(&in, out.data, out.len);
    status = meta_get(&in, back, dims, &capacity);
    if (status == TUTTI_OK) {
        assert_int_equal(wire_left(&in), 0);
    }
    wire_writer_fini(&out);
    return status;
}

UNIT_TEST(test_the_wire_keeps_everything)
{
    for (int i = -1; i < VARIATIONS; i++) {
        const struct meta meta = i < 0 ? sample() : variation(i);
        struct meta back;
        int64_t *dims = NULL;

        assert_int_equal(round_trip(&meta, &back, &dims), TUTTI_OK);
        assert_true(meta_equal(&meta, &back));
        mem_free(dims);
    }
}

UNIT_TEST(test_a_step_travels_and_is_compared_apart)
{
    struct meta a = sample();
    const struct meta b = sample();
    struct meta back;
    int64_t *dims = NULL;
    char text_a[160];
    char text_b[160];

    assert_int_equal(meta_step(TUTTI_NO_STEP), 0);
    a.step = meta_step(INT64_MAX);
    assert_true(meta_equal(&a, &b));
    assert_int_equal(round_trip(&a, &back, &dims), TUTTI_OK);
    assert_true(meta_equal(&a, &back) && back.step == a.step);
    mem_free(dims);
    assert_string_equal(
            meta_difference(&a, &b, text_a, text_b, sizeof text_a), "step differs");
    assert_string_equal(text_a, "step 9223372036854775807");
    assert_string_equal(text_b, "no step");
}

UNIT_TEST(test_nonsense_from_the_wire_is_refused)
{
    struct meta bad[4] = { sample(), sample(), sample(), sample() };
    struct meta back;
    int64_t *dims = NULL;

    bad[0].dtype = (tutti_dtype)99;
    bad[1].op = (tutti_reduce_op)6;
    bad[2].prescale = NAN;
    bad[3].root = -1;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(round_trip(&bad[i], &back, &dims), TUTTI_ERR_PROTOCOL);
    }
    mem_free(dims);
}

UNIT_TEST(test_internal_collectives_have_names)
{
    assert_string_equal(meta_collective_name(TUTTI_BROADCAST), "broadcast");
    assert_string_equal(meta_collective_name(META_FINALIZE), "finalize");
    assert_string_equal(meta_collective_name(META_JOIN), "join");
    assert_string_equal(meta_collective_name(META_SET_CREATE), "process set creation");
    assert_string_equal(meta_collective_name(META_SET_DESTROY), "process set removal");
    assert_true(meta_collective_is_valid(TUTTI_BARRIER));
    assert_true(meta_collective_is_valid(META_SET_CREATE));
    assert_true(meta_collective_is_valid(META_FINALIZE));
    assert_true(meta_collective_is_valid(META_JOIN));
    assert_false(meta_collective_is_valid(META_JOIN + 1));
    assert_false(meta_collective_is_valid(META_SET_CREATE - 1));
}
