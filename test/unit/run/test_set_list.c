/*
 * Process sets as text.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "run/set_list.h"
#include "test/unit/unit.h"

#define WORLD 12

static void expect_set(
        const struct set_list *list, size_t index, const int64_t *ranks, size_t count)
{
    const size_t first = index > 0 ? list->ends[index - 1] : 0;

    assert_true(index < list->count);
    assert_int_equal(list->ends[index] - first, count);
    assert_memory_equal(list->ranks + first, ranks, count * sizeof *ranks);
}

UNIT_TEST(test_lists_and_ranges)
{
    struct set_list list;

    assert_int_equal(
            set_list_parse(&list, " 3,1 , 0 ;4-7; 11 ;2-2,0-1", WORLD), TUTTI_OK);
    assert_int_equal(list.count, 4);
    expect_set(&list, 0, (const int64_t[]){ 3, 1, 0 }, 3);
    expect_set(&list, 1, (const int64_t[]){ 4, 5, 6, 7 }, 4);
    expect_set(&list, 2, (const int64_t[]){ 11 }, 1);
    expect_set(&list, 3, (const int64_t[]){ 2, 0, 1 }, 3);
    set_list_fini(&list);
}

UNIT_TEST(test_nothing_is_no_set)
{
    struct set_list list;

    assert_int_equal(set_list_parse(&list, "  ", WORLD), TUTTI_OK);
    assert_int_equal(list.count, 0);
    set_list_fini(&list);
}

UNIT_TEST(test_errors_say_where_and_why)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        { ";1", "a rank is missing at byte 0" },
        { "1;", "a rank is missing at byte 2" },
        { "1,,2", "a rank is missing at byte 2" },
        { "1-", "a rank is missing at byte 2" },
        { "-1", "a rank is missing at byte 0" },
        { "1 2", "something unexpected at byte 2" },
        { "1x", "something unexpected at byte 1" },
        { "5-4", "runs backwards" },
        { "1,2,1", "listed twice" },
        { "0-3,2", "listed twice" },
        { "12", "outside the world of 12 ranks" },
        { "0-99999999999999999999999", "outside the world of 12 ranks" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct set_list list;

        assert_int_equal(set_list_parse(&list, cases[i].text, WORLD), TUTTI_ERR_CONFIG);
        if (strstr(tutti_last_error(), cases[i].says) == NULL) {
            fail_msg("\"%s\": %s", cases[i].text, tutti_last_error());
        }
    }
}
