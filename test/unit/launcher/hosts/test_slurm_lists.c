/*
 * Slurm's lists of hosts, against what its own scontrol (22.05) makes of them, and its
 * lists of numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/hosts/host_list.h"
#include "launcher/hosts/slurm_lists.h"
#include "test/unit/unit.h"

/* The names with a blank behind each. */
static void join(const struct arguments *names, char *text, size_t capacity)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        len += (size_t)snprintf(text + len, capacity - len, "%s ", names->items[i]);
        assert_true(len < capacity);
    }
}

UNIT_TEST(test_hosts_as_scontrol_shows_them)
{
    static const struct {
        const char *list;
        const char *names;
    } cases[] = {
        { .list = "n1", .names = "n1 " },
        { .list = "n[1-3]", .names = "n1 n2 n3 " },
        { .list = "n[01-03,7,10-11]", .names = "n01 n02 n03 n7 n10 n11 " },
        { .list = "a[1-2]b[3-4]", .names = "a1b3 a1b4 a2b3 a2b4 " },
        { .list = "x1,x2,y[9-11]", .names = "x1 x2 y9 y10 y11 " },
        { .list = "n[08-11]", .names = "n08 n09 n10 n11 " },
        { .list = "rack[0-1]node[00-01],login",
                .names = "rack0node00 rack0node01 rack1node00 rack1node01 login " },
        { .list = "n[1]", .names = "n1 " },
        { .list = "cn-[0-2,4]-[10-11]",
                .names = "cn-0-10 cn-0-11 cn-1-10 cn-1-11 cn-2-10 cn-2-11 cn-4-10 "
                         "cn-4-11 " },
        { .list = "n[1,1,2]", .names = "n1 n1 n2 " },
        { .list = "", .names = "" },
        { .list = "n[099-101]", .names = "n099 n100 n101 " },
        { .list = "[1-2]", .names = "1 2 " },
        { .list = "gpu-[1-2]-ib0,x[3]y", .names = "gpu-1-ib0 gpu-2-ib0 x3y " },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments names = { .items = NULL };
        char text[512];

        assert_int_equal(slurm_hosts(&names, cases[i].list, "LIST"), TUTTI_OK);
        join(&names, text, sizeof text);
        assert_string_equal(text, cases[i].names);
        arguments_fini(&names);
    }
}

UNIT_TEST(test_malformed_hosts_are_refused)
{
    static const struct {
        const char *list;
        const char *reason;
    } cases[] = {
        { .list = "n[3-1]", .reason = "ends before it starts" },
        { .list = "n[1-9999999]", .reason = "too many hosts" },
        { .list = "n[0-999999999]", .reason = "too many hosts" },
        { .list = "n[1-9999]m[1-9999]", .reason = "too many hosts" },
        { .list = "n[1-99]m[1-99]o[1-99]p[1-99]", .reason = "too many hosts" },
        { .list = "n[1234567890]", .reason = "too long" },
        { .list = "n[]", .reason = "empty" },
        { .list = "n[1,]", .reason = "number is missing" },
        { .list = "n[,1]", .reason = "number is missing" },
        { .list = "n[1-]", .reason = "number is missing" },
        { .list = "n[-1]", .reason = "number is missing" },
        { .list = "n[1-2-3]", .reason = "other than numbers" },
        { .list = "n[1x]", .reason = "other than numbers" },
        { .list = "n[1", .reason = "counterpart" },
        { .list = "n[1[2]]", .reason = "counterpart" },
        { .list = "n]", .reason = "counterpart" },
        { .list = "n[1]]", .reason = "counterpart" },
        { .list = ",n", .reason = "name is missing" },
        { .list = "n,", .reason = "name is missing" },
        { .list = "n,,m", .reason = "name is missing" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments names = { .items = NULL };

        assert_int_equal(slurm_hosts(&names, cases[i].list, "LIST"), TUTTI_ERR_INVALID);
        if (strstr(tutti_last_error(), cases[i].reason) == NULL) {
            fail_msg("%s", tutti_last_error());
        }
        assert_non_null(strstr(tutti_last_error(), "LIST="));
        assert_int_equal(names.count, 0);
    }
}

UNIT_TEST(test_the_limit_of_hosts_is_reached_but_not_passed)
{
    struct arguments names = { .items = NULL };
    char text[64];

    (void)snprintf(text, sizeof text, "n[1-%d]", HOSTS_LIMIT);
    assert_int_equal(slurm_hosts(&names, text, "LIST"), TUTTI_OK);
    assert_int_equal(names.count, HOSTS_LIMIT);
    arguments_fini(&names);
    (void)snprintf(text, sizeof text, "n[1-%d],m", HOSTS_LIMIT);
    assert_int_equal(slurm_hosts(&names, text, "LIST"), TUTTI_ERR_INVALID);
}

UNIT_TEST(test_long_names_are_refused)
{
    struct arguments names = { .items = NULL };
    char text[2000];

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(slurm_hosts(&names, text, "LIST"), TUTTI_ERR_INVALID);
    text[HOST_NAME_LIMIT - 1] = '\0';
    assert_int_equal(slurm_hosts(&names, text, "LIST"), TUTTI_OK);
    arguments_fini(&names);
    memcpy(text + HOST_NAME_LIMIT - 2, "[10]", 5);
    assert_int_equal(slurm_hosts(&names, text, "LIST"), TUTTI_ERR_INVALID);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* Whatever the text, there are names or an error, and none of it is out of bounds. */
UNIT_TEST(test_any_text_is_read_or_refused)
{
    static const char letters[] = "an019[]-,,[]-(x)";
    uint32_t seed = 7;

    for (int i = 0; i < 20000; i++) {
        struct arguments names = { .items = NULL };
        char text[24];
        int counts[4];
        size_t len = next_random(&seed) % sizeof text;
        tutti_status status;

        for (size_t k = 0; k < len; k++) {
            text[k] = letters[next_random(&seed) % (sizeof letters - 1)];
        }
        text[len] = '\0';
        status = slurm_hosts(&names, text, "LIST");
        assert_true(status == TUTTI_OK || names.count == 0);
        for (size_t k = 0; k < names.count; k++) {
            assert_null(strpbrk(names.items[k], "[],"));
        }
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_INVALID);
        status = slurm_counts(counts, 4, text, "COUNTS");
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_INVALID);
        arguments_fini(&names);
    }
}

UNIT_TEST(test_numbers_repeat)
{
    int counts[4];

    assert_int_equal(slurm_counts(counts, 4, "2(x3),1", "COUNTS"), TUTTI_OK);
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[2], 2);
    assert_int_equal(counts[3], 1);
    assert_int_equal(slurm_counts(counts, 2, "16,8", "COUNTS"), TUTTI_OK);
    assert_int_equal(counts[0], 16);
    assert_int_equal(counts[1], 8);
}

UNIT_TEST(test_malformed_numbers_are_refused)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        { .text = "", .reason = "fewer numbers than the job's 2 hosts" },
        { .text = "1", .reason = "fewer numbers" },
        { .text = "1,1,1", .reason = "more numbers" },
        { .text = "1(x999999999)", .reason = "more numbers" },
        { .text = "1(x9999999999)", .reason = "too long" },
        { .text = "1(x2", .reason = "')' is missing" },
        { .text = "1(x)", .reason = "number is missing" },
        { .text = "1(2)", .reason = "are written" },
        { .text = "1,", .reason = "are written" },
        { .text = ",1", .reason = "number is missing" },
        { .text = "a,1", .reason = "number is missing" },
        { .text = "-1,1", .reason = "number is missing" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int counts[2];

        assert_int_equal(
                slurm_counts(counts, 2, cases[i].text, "COUNTS"), TUTTI_ERR_INVALID);
        if (strstr(tutti_last_error(), cases[i].reason) == NULL) {
            fail_msg("%s", tutti_last_error());
        }
    }
}
