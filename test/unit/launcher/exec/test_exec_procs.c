/*
 * What /proc says of processes.
 */

#include <unistd.h>

#include "launcher/exec/procs.h"
#include "test/unit/unit.h"

UNIT_TEST(test_a_stat_is_read_whatever_the_name_is)
{
    static const struct {
        const char *text;
        struct process_facts process;
    } cases[] = {
        { .text = "12 (sh) S 3 12 12 0 -1", .process = { 12, 3, 'S' } },
        { .text = "7 (a b) R 1 (x) Z 99 1", .process = { 7, 99, 'Z', true } },
        { .text = "4194304 () ) T 4194303 1", .process = { 4194304, 4194303, 'T' } },
        { .text = "1 (a) S 2 3 4 0 -1 4194308 0", .process = { 1, 2, 'S', true } },
        { .text = "1 (a) S 2 3 4 0 -1 4194304 1 1 1 1 1 1 1 1 20 0 1 1 1 1 1 1 1 1 1 1 "
                  "1 256 0",
                .process = { 1, 2, 'S', true } },
        { .text = "1 (a) S 2 3 4 0 -1 4194304 4 4 4 4 4 4 4 4 20 0 4 4 4 4 4 4 4 4 4 4 "
                  "4 2 256",
                .process = { 1, 2, 'S', false } },
    };
    static const char *const malformed[] = { "", "12", "12 (sh", "12 (sh)", "12 (sh) ",
        "x (sh) S 3", "12 (sh) S x", "0 (sh) S 1" };
    struct process_facts process;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(process_parse(&process, cases[i].text));
        assert_int_equal(process.pid, cases[i].process.pid);
        assert_int_equal(process.parent, cases[i].process.parent);
        assert_int_equal(process.state, cases[i].process.state);
        assert_int_equal(process.is_ending, cases[i].process.is_ending);
    }
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        assert_false(process_parse(&process, malformed[i]));
    }
}

UNIT_TEST(test_an_entry_is_matched_whole)
{
    static const char environment[] = "A=1\0JOB=x.1\0JOB=x.12\0XJOB=x.3";

    assert_true(procs_has_entry(environment, sizeof environment, "A=1"));
    assert_true(procs_has_entry(environment, sizeof environment, "JOB=x.12"));
    assert_true(procs_has_entry(environment, sizeof environment, "XJOB=x.3"));
    assert_false(procs_has_entry(environment, sizeof environment, "JOB=x.3"));
    assert_false(procs_has_entry(environment, sizeof environment, "JOB=x."));
    assert_false(procs_has_entry(environment, sizeof environment - 1, "XJOB=x.3"));
    assert_false(procs_has_entry(environment, 0, "A=1"));
}

UNIT_TEST(test_this_process_is_running)
{
    assert_int_equal(process_state(getpid()), 'R');
    assert_int_equal(process_state(0x7fffffff), 0);
}
