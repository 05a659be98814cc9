/*
 * Lists of hosts: of the command line, of hostfiles, of Slurm; what is accepted and what is refused.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/hosts/host_list.h"
#include "launcher/hosts/slurm_lists.h"
#include "test/unit/launcher/cases.h"

/* The list's own text form, or why there is none. */
static void show(struct host_list *list, tutti_status status, char *out)
{
    char *text = host_list_format(list);

    (void)snprintf(out, CASES_OUT, "%s", text);
    mem_free(text);
    if (status != TUTTI_OK) {
        assert_int_equal(status, TUTTI_ERR_INVALID);
        assert_int_equal(list->count, 0);
        cases_refused(out);
    }
    host_list_fini(list);
}

UNIT_CASES(test_lists, "list")
{
    struct host_list list = { .hosts = NULL };

    show(&list, host_list_parse(&list, in), out);
}

/* Reads a hostfile with these bytes; an error names it. */
static tutti_status read_bytes(struct host_list *list, const void *bytes, size_t len)
{
    char path[] = "hostfile_XXXXXX";
    tutti_status status;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(close(fd), 0);
    status = host_list_read(list, path);
    assert_int_equal(unlink(path), 0);
    assert_true(status == TUTTI_OK || strstr(tutti_last_error(), path) != NULL);
    return status;
}

UNIT_CASES(test_hostfiles, "hostfile")
{
    struct host_list list = { .hosts = NULL };

    show(&list, read_bytes(&list, in, len), out);
}

UNIT_TEST(test_large_lists_keep_their_order_and_add_slots)
{
    struct host_list list = { .hosts = NULL };
    struct host_list copy = { .hosts = NULL };
    char name[32];

    assert_int_equal(host_list_slots(&list), 0);
    for (int i = 0; i < 2 * HOSTS_LIMIT; i++) {
        (void)snprintf(name, sizeof name, "node%d", i % HOSTS_LIMIT);
        assert_null(host_list_add(&list, name, 1 + i / HOSTS_LIMIT));
    }
    assert_int_equal(list.count, HOSTS_LIMIT);
    assert_int_equal(host_list_slots(&list), 3 * HOSTS_LIMIT);
    assert_non_null(strstr(host_list_add(&list, "one-more", 1), "too many hosts"));
    host_list_drop_first(&list);
    assert_int_equal(host_list_copy(&copy, &list), TUTTI_OK);
    host_list_fini(&list);
    assert_int_equal(copy.count, HOSTS_LIMIT - 1);
    assert_string_equal(copy.hosts[0].name, "node1");
    assert_string_equal(copy.hosts[HOSTS_LIMIT - 2].name, name);
    assert_null(host_list_add(&copy, "node1", 4));
    assert_int_equal(copy.hosts[0].slots, 7);
    assert_null(host_list_add(&copy, "node0", 4));
    assert_string_equal(copy.hosts[HOSTS_LIMIT - 1].name, "node0");
    host_list_fini(&copy);
}

UNIT_TEST(test_entries_without_a_number_stand_for_as_many_slots_as_is_said)
{
    struct host_list list = { .hosts = NULL };
    char out[CASES_OUT];

    assert_int_equal(host_list_parse(&list, "a,b:2,c,c,b"), TUTTI_OK);
    assert_int_equal(host_list_imply(&list, 4), TUTTI_OK);
    assert_int_equal(host_list_imply(&list, 5), TUTTI_OK); /* now they have a number */
    show(&list, TUTTI_OK, out);
    assert_string_equal(out, "a:4,b:6,c:8");
    assert_int_equal(host_list_parse(&list, "a,a"), TUTTI_OK);
    assert_int_equal(host_list_imply(&list, HOST_SLOTS_LIMIT), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "host a"));
    host_list_fini(&list);
}

UNIT_TEST(test_names_are_not_cut)
{
    static const char *const forms[][2] = { { "", "" }, { "[", "]" }, { "", "[1]" },
        { "x[1]", "" } };

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct host_list list = { .hosts = NULL };
        struct arguments names = { .items = NULL };
        char text[HOST_NAME_LIMIT + 8];

        (void)snprintf(text, sizeof text, "%s%0*d%s", forms[i][0], HOST_NAME_LIMIT, 0,
                forms[i][1]);
        assert_int_equal(i < 2 ? host_list_parse(&list, text)
                               : slurm_hosts(&names, text, "LIST"),
                TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), "is too long"));
        arguments_fini(&names);
    }
}

UNIT_TEST(test_a_folder_is_no_hostfile)
{
    struct host_list list = { .hosts = NULL };

    assert_int_equal(host_list_read(&list, "."), TUTTI_ERR_SYSTEM);
}

UNIT_CASES(test_hosts_of_slurm, "hosts of Slurm")
{
    struct arguments names = { .items = NULL };

    if (slurm_hosts(&names, in, "LIST") != TUTTI_OK) {
        assert_int_equal(names.count, 0);
        cases_refused(out);
    } else {
        char *text = arguments_join(&names, " ");

        (void)snprintf(out, CASES_OUT, "%s", text);
        mem_free(text);
    }
    arguments_fini(&names);
}

UNIT_CASES(test_numbers_of_slurm, "numbers of Slurm")
{
    char *fields[CASES_FIELDS];
    int counts[4];
    size_t hosts;

    assert_int_equal(cases_fields(in, fields), 2);
    hosts = strtoul(fields[1], NULL, 10);
    if (slurm_counts(counts, hosts, fields[0], "COUNTS") != TUTTI_OK) {
        cases_refused(out);
        return;
    }
    for (size_t i = 0; i < hosts; i++) {
        (void)sprintf(out + strlen(out), "%s%d", i > 0 ? " " : "", counts[i]);
    }
}
