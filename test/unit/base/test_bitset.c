/*
 * Sets of ranks and their text.
 */
#include <string.h>

#include "base/bitset.h"
#include "base/mem.h"
#include "test/unit/unit.h"

/* A set of `bits` with these members; ended by -1. */
static struct bitset set_of(int bits, const int *members)
{
    struct bitset set;

    assert_true(bitset_init(&set, bits));
    for (; *members >= 0; members++) {
        bitset_add(&set, *members);
    }
    return set;
}

UNIT_TEST(test_members_across_word_boundaries)
{
    struct bitset set = set_of(130, (const int[]){ 0, 63, 64, 128, 129, -1 });

    assert_int_equal(bitset_count(&set), 5);
    assert_true(bitset_has(&set, 63));
    assert_true(bitset_has(&set, 64));
    assert_false(bitset_has(&set, 65));

    bitset_remove(&set, 64);
    bitset_remove(&set, 65);
    assert_false(bitset_has(&set, 64));
    assert_true(bitset_has(&set, 63));
    assert_int_equal(bitset_count(&set), 4);

    bitset_clear(&set);
    assert_int_equal(bitset_count(&set), 0);
    bitset_fini(&set);
}

UNIT_TEST(test_ranges_are_added_and_found_whole)
{
    for (int first = 0; first < 130; first += 7) {
        for (int last = first; last < 130; last++) {
            struct bitset set = set_of(130, (const int[]){ -1 });

            bitset_add_range(&set, first, last);
            assert_int_equal(bitset_count(&set), last - first + 1);
            assert_true(bitset_has(&set, first) && bitset_has(&set, last));
            assert_true(bitset_has_any(&set, last, 129));
            assert_true(bitset_has_any(&set, 0, first));
            assert_false(first > 0 && bitset_has_any(&set, 0, first - 1));
            assert_false(last < 129 && bitset_has_any(&set, last + 1, 129));
            bitset_fini(&set);
        }
    }
}

static void assert_format(const struct bitset *set, const int *translate,
        size_t capacity, const char *text)
{
    char buffer[64];

    assert_true(capacity < sizeof buffer);
    memset(buffer, '#', sizeof buffer);
    assert_ptr_equal(bitset_format(set, translate, buffer, capacity), buffer);
    assert_string_equal(buffer, text);
    assert_int_equal(buffer[capacity], '#');
}

UNIT_TEST(test_ranges_are_written_short)
{
    struct bitset set = set_of(70, (const int[]){ 0, 2, 3, 4, 5, 9, 68, 69, -1 });
    struct bitset all = set_of(3, (const int[]){ 0, 1, 2, -1 });
    struct bitset none = set_of(8, (const int[]){ -1 });

    assert_format(&set, NULL, 63, "0, 2-5, 9, 68-69");
    assert_format(&all, NULL, 63, "0-2");
    assert_format(&none, NULL, 63, "");
    bitset_fini(&set);
    bitset_fini(&all);
    bitset_fini(&none);
}

UNIT_TEST(test_members_are_translated)
{
    static const int world[] = { 4, 5, 6, 2, 3, 9 };
    struct bitset set = set_of(6, (const int[]){ 0, 1, 2, 3, 4, 5, -1 });

    assert_format(&set, world, 63, "4-6, 2-3, 9");
    bitset_remove(&set, 1);
    assert_format(&set, world, 63, "4, 6, 2-3, 9");
    bitset_fini(&set);
}

UNIT_TEST(test_long_text_is_cut_between_items)
{
    struct bitset set = set_of(70, (const int[]){ 0, 2, 3, 4, 5, 9, 68, 69, -1 });

    assert_format(&set, NULL, 17, "0, 2-5, 9, 68-69");
    assert_format(&set, NULL, 16, "0, 2-5, 9, ...");
    assert_format(&set, NULL, 14, "0, 2-5, ...");
    assert_format(&set, NULL, 11, "0, ...");
    assert_format(&set, NULL, 6, "...");
    assert_format(&set, NULL, 1, "");
    bitset_fini(&set);
}
