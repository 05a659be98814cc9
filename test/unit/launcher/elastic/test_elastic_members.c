/*
 * Which hosts of an elastic job the next generation gets.
 */
#include "base/mem.h"
#include "launcher/elastic/members.h"
#include "test/unit/unit.h"

static const int64_t second = 1000000000;

static void update(struct members *members, const char *text)
{
    struct host_list list = { .hosts = NULL };

    assert_int_equal(host_list_parse(&list, text), TUTTI_OK);
    assert_int_equal(members_update(members, &list), TUTTI_OK);
    host_list_fini(&list);
}

static void expect(const struct members *members, int most, int64_t now, int ranks,
        const char *hosts)
{
    struct host_list list = { .hosts = NULL };
    char *text;

    assert_int_equal(members_choose(members, most, now, NULL), ranks);
    assert_int_equal(members_choose(members, most, now, &list), ranks);
    text = host_list_format(&list);
    assert_string_equal(text, hosts);
    mem_free(text);
    host_list_fini(&list);
}

UNIT_TEST(test_hosts_keep_their_order)
{
    struct members members = { .items = NULL };

    update(&members, "a:2,b:2");
    expect(&members, 100, 0, 4, "a:2,b:2");
    update(&members, "c:1,b:3,a:2");
    expect(&members, 100, 0, 6, "a:2,b:3,c:1");
    expect(&members, 3, 0, 3, "a:2,b:1");
    update(&members, "c:1,b:3");
    expect(&members, 100, 0, 4, "b:3,c:1");
    update(&members, "a:2,b:3");
    expect(&members, 100, 0, 5, "a:2,b:3");
    members_fini(&members);
}

UNIT_TEST(test_a_host_that_fails_repeatedly_is_left_out_for_good)
{
    struct members members = { .items = NULL };

    update(&members, "a:1,b:1");
    assert_false(members_fail(&members, 0, 0));
    assert_false(members_fail(&members, 0, 0));
    members_forget_failures(&members); /* the job has committed */
    assert_false(members_fail(&members, 0, 0));
    assert_false(members_fail(&members, 0, 0));
    expect(&members, 9, 0, 2, "a:1,b:1");
    assert_true(members_fail(&members, 0, 0));
    expect(&members, 9, INT64_MAX - 1, 1, "b:1");
    update(&members, "a:1,b:1"); /* listed or not */
    expect(&members, 9, INT64_MAX - 1, 1, "b:1");
    members_fini(&members);
}

UNIT_TEST(test_a_host_comes_back_and_each_time_later)
{
    struct members members = { .items = NULL };

    assert_true(members_read_cooldown("10,30", members.cooldown));
    update(&members, "a:1,b:1");
    members_put_aside(&members, 1, 0);
    expect(&members, 9, 10 * second - 1, 1, "a:1");
    assert_int_equal(members_next_return(&members, 0), 10 * second);
    expect(&members, 9, 10 * second, 2, "a:1,b:1");
    assert_true(members_fail(&members, 1, 0)); /* the first one after it came back */
    assert_int_equal(members_next_return(&members, 0), 20 * second);
    members_put_aside(&members, 1, 0);
    assert_int_equal(members_next_return(&members, 0), 30 * second);
    assert_int_equal(members_next_return(&members, 30 * second), INT64_MAX);
    members_fini(&members);
}

UNIT_TEST(test_cooldowns_are_checked)
{
    static const char *const wrong[] = { "", "10", "10,", ",10", "10,5", "0,5", "-1,5",
        "a,5", "1,5x", "1,1e30", "nan,5" };
    int64_t range[2];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(members_read_cooldown(wrong[i], range));
    }
    assert_true(members_read_cooldown("0.5,2", range));
    assert_int_equal(range[0], second / 2);
    assert_int_equal(range[1], 2 * second);
}
