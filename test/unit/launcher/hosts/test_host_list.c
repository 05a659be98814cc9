/*
 * Host lists and hostfiles: every form that is accepted, every form that is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/hosts/host_list.h"
#include "test/unit/unit.h"

enum {
    PATH_CAPACITY = 32 /* of the path of a temporary hostfile */
};

/* Parses, and compares with the list's own text form. */
static void expect_list(const char *text, const char *expected)
{
    struct host_list list = { .hosts = NULL };
    char *formatted;

    assert_int_equal(host_list_parse(&list, text), TUTTI_OK);
    formatted = host_list_format(&list);
    assert_string_equal(formatted, expected);
    mem_free(formatted);
    host_list_fini(&list);
}

UNIT_TEST(test_list_forms)
{
    expect_list("a", "a:1");
    expect_list("a:2,b:4", "a:2,b:4");
    expect_list("node-1.cluster_x:65536", "node-1.cluster_x:65536");
    expect_list("10.0.0.1:3,b", "10.0.0.1:3,b:1");
    expect_list("[::1]", "[::1]:1");
    expect_list("[fe80::1%eth0]:2,a", "[fe80::1%eth0]:2,a:1");
    expect_list("a,b:2,a:3,a", "a:5,b:2");
}

UNIT_TEST(test_list_refuses)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        { .text = "", .reason = "host name is missing" },
        { .text = ",a", .reason = "host name is missing" },
        { .text = "a,", .reason = "host name is missing" },
        { .text = "a,,b", .reason = "host name is missing" },
        { .text = ":2", .reason = "host name is missing" },
        { .text = "a:", .reason = "slots are a number" },
        { .text = "a:0", .reason = "slots are a number" },
        { .text = "a:-1", .reason = "slots are a number" },
        { .text = "a:2x", .reason = "slots are a number" },
        { .text = "a:2, b", .reason = "between hosts are commas alone" },
        { .text = "a:65537", .reason = "slots are a number" },
        { .text = "a:99999999999999999999", .reason = "slots are a number" },
        { .text = "a:65536,a", .reason = "too many slots" },
        { .text = "-oProxy", .reason = "a host name has" },
        { .text = "a=b", .reason = "a host name has" },
        { .text = "a b", .reason = "between hosts are commas alone" },
        { .text = "user@a", .reason = "--ssh-config" },
        { .text = "::1", .reason = "brackets" },
        { .text = "[::1", .reason = "']' is missing" },
        { .text = "[a]", .reason = "not an IPv6 address" },
        { .text = "[]", .reason = "not an IPv6 address" },
        { .text = "[::1]2", .reason = "behind ']'" },
        { .text = "[::1]:x", .reason = "slots are a number" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct host_list list = { .hosts = NULL };

        assert_int_equal(host_list_parse(&list, cases[i].text), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), "-H"));
        assert_non_null(strstr(tutti_last_error(), cases[i].reason));
        assert_int_equal(list.count, 0);
    }
}

UNIT_TEST(test_the_wrong_entry_of_a_list_is_named)
{
    struct host_list list = { .hosts = NULL };

    assert_int_equal(host_list_parse(&list, "a:2,b:x,c:y"), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "'b:x'"));
}

UNIT_TEST(test_names_longer_than_dns_allows_are_refused)
{
    struct host_list list = { .hosts = NULL };
    char text[HOST_NAME_LIMIT + 3];

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(host_list_parse(&list, text), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "too long"));
    text[0] = '[';
    text[sizeof text - 2] = ']';
    assert_int_equal(host_list_parse(&list, text), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "too long"));
}

UNIT_TEST(test_slots_add_up)
{
    struct host_list list = { .hosts = NULL };

    assert_int_equal(host_list_slots(&list), 0);
    assert_int_equal(host_list_parse(&list, "a:2,b:4,a"), TUTTI_OK);
    assert_int_equal(host_list_slots(&list), 7);
    host_list_fini(&list);
}

/* Reads a hostfile with these bytes; the path it had is left in `path`. */
static tutti_status read_bytes(
        struct host_list *list, const void *bytes, size_t len, char *path)
{
    tutti_status status;
    int fd;

    (void)snprintf(path, PATH_CAPACITY, "hostfile_XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(close(fd), 0);
    status = host_list_read(list, path);
    assert_int_equal(unlink(path), 0);
    return status;
}

static void expect_file(const char *text, const char *expected)
{
    struct host_list list = { .hosts = NULL };
    char path[PATH_CAPACITY];
    char *formatted;

    assert_int_equal(read_bytes(&list, text, strlen(text), path), TUTTI_OK);
    formatted = host_list_format(&list);
    assert_string_equal(formatted, expected);
    mem_free(formatted);
    host_list_fini(&list);
}

UNIT_TEST(test_hostfile_forms)
{
    expect_file("a slots=2\nb slots=4 max_slots=8\n", "a:2,b:4");
    expect_file("a\nb:3\n", "a:1,b:3");
    expect_file("# all\n\n   \n a slots=2 # fast\r\n\tb\t max-slots=1", "a:2,b:1");
    expect_file("a slots=2\nb\na:3\n", "a:5,b:1");
    expect_file("[fd00::2] slots=2\n[::1]:3\n", "[fd00::2]:2,[::1]:3");
    expect_file("w-0.job.ns.svc max_slots=4 slots=4\n", "w-0.job.ns.svc:4");
}

UNIT_TEST(test_hostfile_errors_name_file_line_and_text)
{
    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        { .line = "b slots=x", .reason = "slots are a number" },
        { .line = "b slots=", .reason = "slots are a number" },
        { .line = "b slots=0", .reason = "slots are a number" },
        { .line = "b slots", .reason = "behind the host come" },
        { .line = "b slots = 2", .reason = "behind the host come" },
        { .line = "b 2", .reason = "behind the host come" },
        { .line = "b cores=2", .reason = "behind the host come" },
        { .line = "b slots=2 slots=3", .reason = "given twice" },
        { .line = "b:2 slots=3", .reason = "given twice" },
        { .line = "b slots=4 max_slots=2", .reason = "less than slots" },
        { .line = "b max_slots=-2", .reason = "slots are a number" },
        { .line = "b:x", .reason = "slots are a number" },
        { .line = "b,c", .reason = "a host name has" },
        { .line = "slots=4", .reason = "a host name has" },
        { .line = "fd00::1 slots=2", .reason = "brackets" },
        { .line = "[fd00::1 slots=2", .reason = "']' is missing" },
        { .line = "a slots=65536", .reason = "too many slots" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct host_list list = { .hosts = NULL };
        char text[128];
        char path[PATH_CAPACITY];
        char place[64];
        int len = snprintf(text, sizeof text, "# x\na slots=2\n%s\nc\n", cases[i].line);

        assert_int_equal(read_bytes(&list, text, (size_t)len, path), TUTTI_ERR_INVALID);
        (void)snprintf(place, sizeof place, "%s:3: '%s'", path, cases[i].line);
        assert_non_null(strstr(tutti_last_error(), place));
        assert_non_null(strstr(tutti_last_error(), cases[i].reason));
        assert_int_equal(list.count, 0);
    }
}

UNIT_TEST(test_hostfile_without_hosts_is_refused)
{
    struct host_list list = { .hosts = NULL };
    char path[PATH_CAPACITY];

    assert_int_equal(read_bytes(&list, "", 0, path), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "names no host"));
    assert_int_equal(read_bytes(&list, "# none\n\n", 8, path), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), path));
}

UNIT_TEST(test_hostfile_with_wild_bytes_is_refused)
{
    struct host_list list = { .hosts = NULL };
    char path[PATH_CAPACITY];
    char line[5000];

    memset(line, ' ', sizeof line);
    line[0] = 'a';
    assert_int_equal(read_bytes(&list, line, sizeof line, path), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), ":1:"));
    assert_non_null(strstr(tutti_last_error(), "too long"));
    assert_int_equal(read_bytes(&list, "a\0b\nc\n", 6, path), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "zero byte"));
    assert_int_equal(read_bytes(&list, "\xff\xfe\n", 3, path), TUTTI_ERR_INVALID);
}

UNIT_TEST(test_hostfile_that_cannot_be_read_is_named)
{
    struct host_list list = { .hosts = NULL };

    assert_int_equal(host_list_read(&list, "./not-there"), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "./not-there"));
    assert_int_equal(host_list_read(&list, "."), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "directory"));
}

UNIT_TEST(test_large_lists_keep_their_order_and_add_slots)
{
    struct host_list list = { .hosts = NULL };
    struct host_list copy = { .hosts = NULL };
    char name[32];

    for (int i = 0; i < 2 * HOSTS_LIMIT; i++) {
        (void)snprintf(name, sizeof name, "node%d", i % HOSTS_LIMIT);
        assert_null(host_list_add(&list, name, 1 + i / HOSTS_LIMIT));
    }
    assert_int_equal(list.count, HOSTS_LIMIT);
    assert_non_null(strstr(host_list_add(&list, "one-more", 1), "too many hosts"));
    host_list_drop_first(&list);
    assert_int_equal(host_list_copy(&copy, &list), TUTTI_OK);
    host_list_fini(&list);
    assert_int_equal(copy.count, HOSTS_LIMIT - 1);
    assert_string_equal(copy.hosts[0].name, "node1");
    assert_int_equal(copy.hosts[0].slots, 3);
    assert_string_equal(copy.hosts[HOSTS_LIMIT - 2].name, name);
    assert_null(host_list_add(&copy, "node1", 4));
    assert_int_equal(copy.hosts[0].slots, 7);
    assert_null(host_list_add(&copy, "node0", 4));
    assert_string_equal(copy.hosts[HOSTS_LIMIT - 1].name, "node0");
    host_list_fini(&copy);
}

UNIT_TEST(test_a_host_that_comes_alone_is_a_name)
{
    struct host_list list = { .hosts = NULL };

    assert_null(host_list_add(&list, "[::1]", 2));
    assert_string_equal(list.hosts[0].name, "::1");
    assert_non_null(strstr(host_list_add(&list, "a:2", 1), "no ':'"));
    assert_non_null(strstr(host_list_add(&list, "a b", 1), "letters"));
    assert_non_null(strstr(host_list_add(&list, "-o", 1), "letters"));
    assert_non_null(strstr(host_list_add(&list, "a", -1), "slots are"));
    assert_non_null(strstr(host_list_add(&list, "a", 65537), "slots are"));
    assert_int_equal(list.count, 1);
    host_list_fini(&list);
}

UNIT_TEST(test_entries_without_a_number_stand_for_as_many_slots_as_is_said)
{
    struct host_list list = { .hosts = NULL };

    assert_int_equal(host_list_parse(&list, "a,b:2,c,c,b"), TUTTI_OK);
    assert_int_equal(host_list_imply(&list, 4), TUTTI_OK);
    assert_int_equal(list.hosts[0].slots, 4);
    assert_int_equal(list.hosts[1].slots, 6);
    assert_int_equal(list.hosts[2].slots, 8);
    /* Once: now they have a number. */
    assert_int_equal(host_list_imply(&list, 5), TUTTI_OK);
    assert_int_equal(list.hosts[0].slots, 4);
    host_list_fini(&list);
    assert_int_equal(host_list_parse(&list, "a,a"), TUTTI_OK);
    assert_int_equal(host_list_imply(&list, HOST_SLOTS_LIMIT), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "host a"));
    host_list_fini(&list);
}
