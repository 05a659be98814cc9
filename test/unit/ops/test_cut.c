/*
 * How parts are cut into messages.
 */
#include "ops/p2p/cut.h"
#include "test/unit/unit.h"

enum {
    RUNS_MAX = 6
};

/** A batch whose runs send parts of these sizes to member 1. */
struct parts {
    struct op_batch batch;
    struct op_run runs[RUNS_MAX];
    struct op_part sends[RUNS_MAX][2];
};

static void parts_init(struct parts *parts, const size_t *bytes, size_t count)
{
    *parts = (struct parts){ .batch = { .runs = parts->runs, .run_count = count } };
    for (size_t run = 0; run < count; run++) {
        parts->sends[run][1].bytes = bytes[run];
        parts->runs[run].sends = parts->sends[run];
    }
}

static void assert_next(struct cut *cut, const struct parts *parts, size_t most,
        struct cut_piece expected)
{
    const struct cut_piece piece = cut_next(cut, &parts->batch, CUT_SENDS, 1, most);

    assert_int_equal(piece.bytes, expected.bytes);
    if (expected.bytes > 0) {
        assert_int_equal(piece.run, expected.run);
        assert_int_equal(piece.runs, expected.runs);
        assert_int_equal(piece.offset, expected.offset);
    }
}

static void assert_end(struct cut *cut, const struct parts *parts, size_t most)
{
    for (int i = 0; i < 2; i++) {
        assert_next(cut, parts, most, (struct cut_piece){ 0 });
    }
}

UNIT_TEST(test_neighbouring_small_parts_are_packed)
{
    const size_t bytes[] = { 0, 10, 0, 20, 30, 0 };
    struct cut cut = { 0 };
    struct parts parts;

    parts_init(&parts, bytes, 6);
    assert_next(&cut, &parts, SIZE_MAX,
            (struct cut_piece){ .run = 1, .runs = 4, .bytes = 60 });
    assert_end(&cut, &parts, SIZE_MAX);
}

UNIT_TEST(test_packs_are_bounded)
{
    const size_t bytes[] = { CUT_PACK_BYTES - 1, 1, 1, CUT_PACK_BYTES, 5 };
    struct cut cut = { 0 };
    struct parts parts;

    parts_init(&parts, bytes, 5);
    assert_next(&cut, &parts, SIZE_MAX,
            (struct cut_piece){ .run = 0, .runs = 2, .bytes = CUT_PACK_BYTES });
    assert_next(&cut, &parts, SIZE_MAX,
            (struct cut_piece){ .run = 2, .runs = 1, .bytes = 1 });
    assert_next(&cut, &parts, SIZE_MAX,
            (struct cut_piece){ .run = 3, .runs = 1, .bytes = CUT_PACK_BYTES });
    assert_next(&cut, &parts, SIZE_MAX,
            (struct cut_piece){ .run = 4, .runs = 1, .bytes = 5 });
    assert_end(&cut, &parts, SIZE_MAX);
}

UNIT_TEST(test_large_parts_travel_alone_in_several_messages)
{
    const size_t most = 100000;
    const size_t bytes[] = { 7, 250000, 200000, 8, 9 };
    struct cut cut = { 0 };
    struct parts parts;

    parts_init(&parts, bytes, 5);
    assert_next(
            &cut, &parts, most, (struct cut_piece){ .run = 0, .runs = 1, .bytes = 7 });
    for (size_t at = 0; at < 250000; at += most) {
        assert_next(&cut, &parts, most,
                (struct cut_piece){ .run = 1,
                        .runs = 1,
                        .offset = at,
                        .bytes = at < 200000 ? most : 50000 });
    }
    for (size_t at = 0; at < 200000; at += most) {
        assert_next(&cut, &parts, most,
                (struct cut_piece){ .run = 2, .runs = 1, .offset = at, .bytes = most });
    }
    assert_next(
            &cut, &parts, most, (struct cut_piece){ .run = 3, .runs = 2, .bytes = 17 });
    assert_end(&cut, &parts, most);
}

UNIT_TEST(test_nothing_gives_no_message)
{
    const size_t bytes[] = { 0, 0 };
    struct cut cut = { 0 };
    struct parts parts;

    parts_init(&parts, bytes, 2);
    assert_end(&cut, &parts, SIZE_MAX);
}
