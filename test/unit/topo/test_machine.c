/*
 * Facts about machines. hwloc is given synthetic ones, on which binding does nothing
 * but succeed; the real one is used where the effect of binding is looked at.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/unit/unit.h"
#include "topo/machine.h"

static cpu_set_t cores_at_start;

static int remember_cores(void **state)
{
    (void)state;
    return sched_getaffinity(0, sizeof cores_at_start, &cores_at_start);
}

static int restore_machine(void **state)
{
    (void)state;
    (void)unsetenv("HWLOC_SYNTHETIC");
    return sched_setaffinity(0, sizeof cores_at_start, &cores_at_start);
}

static void pretend(const char *machine)
{
    assert_int_equal(setenv("HWLOC_SYNTHETIC", machine, 1), 0);
}

static void assert_machine(int cores, size_t l2_bytes, size_t l3_bytes)
{
    struct machine machine;

    assert_int_equal(machine_read(&machine), TUTTI_OK);
    assert_int_equal(machine.cores, cores);
    assert_int_equal(machine.l2_bytes, l2_bytes);
    assert_int_equal(machine.l3_bytes, l3_bytes);
}

static void test_a_machine_with_caches(void **state)
{
    (void)state;
    pretend("package:2 l3:1(size=33554432) l2:4(size=2097152) core:1 pu:2");
    assert_machine(8, 2097152, 33554432);
}

static void test_a_shared_level_2_cache_is_divided(void **state)
{
    (void)state;
    pretend("package:1 l2:2(size=4194304) core:4 pu:1");
    assert_machine(8, 1048576, 0);
}

static void assert_cache(const char *expected)
{
    struct machine machine;

    assert_int_equal(machine_read(&machine), TUTTI_OK);
    assert_string_equal(machine.cache, expected);
}

/* Nothing is bound on a machine that is only pretended: one cache, or none. */
static void test_a_process_is_in_the_one_cache_that_holds_its_cores(void **state)
{
    (void)state;
    pretend("package:1 l3:1(size=33554432) core:4 pu:2");
    assert_cache("L3 of thread 0");
    pretend("package:2 l3:1(size=33554432) core:4 pu:2");
    assert_cache("");
    pretend("package:1 l2:4(size=2097152) core:1 pu:2");
    assert_cache("package of thread 0");
    pretend("package:2 l2:4(size=2097152) core:1 pu:2");
    assert_cache("");
}

static void test_unknown_caches_have_defaults(void **state)
{
    (void)state;
    pretend("core:3 pu:2");
    assert_machine(3, 1048576, 0);
}

static void test_threads_count_where_there_are_no_cores(void **state)
{
    (void)state;
    pretend("package:2 pu:3");
    assert_machine(6, 1048576, 0);
}

static void test_this_machine_can_be_read(void **state)
{
    struct machine machine;

    (void)state;
    assert_int_equal(machine_read(&machine), TUTTI_OK);
    assert_in_range(machine.cores, 1, CPU_COUNT(&cores_at_start));
    assert_true(machine.l2_bytes >= 1024);
}

static void assert_share(int index, int count, const char *expected)
{
    char text[128];

    assert_int_equal(machine_bind_share(index, count, text, sizeof text), TUTTI_OK);
    assert_string_equal(text, expected);
}

static void test_shares_are_contiguous(void **state)
{
    (void)state;
    pretend("package:2 core:4 pu:2");
    assert_share(0, 1, "cores 0-7 of 0-7");
    assert_share(0, 2, "cores 0-3 of 0-7");
    assert_share(1, 2, "cores 4-7 of 0-7");
    assert_share(0, 3, "cores 0-1 of 0-7");
    assert_share(1, 3, "cores 2-4 of 0-7");
    assert_share(2, 3, "cores 5-7 of 0-7");
    assert_share(7, 8, "cores 7 of 0-7");
}

/* Core after the last one of a share, which must begin at core `first`. */
static long end_of_share(int index, int count, long first)
{
    char text[128];
    char *end;
    long last;

    assert_int_equal(machine_bind_share(index, count, text, sizeof text), TUTTI_OK);
    assert_memory_equal(text, "cores ", strlen("cores "));
    assert_int_equal(strtol(text + strlen("cores "), &end, 10), first);
    last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    assert_memory_equal(end, " of ", strlen(" of "));
    return last + 1;
}

static void assert_shares_are_fair(int cores, int count)
{
    long first = 0;
    int index;

    for (index = 0; index < count; index++) {
        long end = end_of_share(index, count, first);

        assert_in_range(end - first, cores / count, (cores - 1) / count + 1);
        first = end;
    }
    assert_int_equal(first, cores);
}

static void test_every_core_is_in_one_share_and_shares_are_fair(void **state)
{
    int cores, count;

    (void)state;
    for (cores = 1; cores <= 9; cores += 2) {
        char machine[32];

        (void)snprintf(machine, sizeof machine, "core:%d pu:2", cores);
        pretend(machine);
        for (count = 1; count <= cores; count++) {
            assert_shares_are_fair(cores, count);
        }
    }
}

static void test_more_shares_than_cores_bind_nothing(void **state)
{
    (void)state;
    pretend("core:4 pu:2");
    assert_share(0, 5, "not bound: 5 shares, 4 cores");
    assert_share(7, 8, "not bound: 8 shares, 4 cores");
    assert_int_equal(machine_bind_share(0, 4, NULL, 0), TUTTI_OK);
    assert_int_equal(machine_bind_share(0, 5, NULL, 0), TUTTI_OK);
}

static void test_there_is_no_share_outside_the_count(void **state)
{
    (void)state;
    assert_int_equal(machine_bind_share(-1, 2, NULL, 0), TUTTI_ERR_INVALID);
    assert_int_equal(machine_bind_share(2, 2, NULL, 0), TUTTI_ERR_INVALID);
    assert_int_equal(machine_bind_share(0, 0, NULL, 0), TUTTI_ERR_INVALID);
}

static cpu_set_t affinity(void)
{
    cpu_set_t now;

    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    return now;
}

static void test_the_shares_of_this_machine_are_all_its_threads(void **state)
{
    struct machine machine;
    cpu_set_t all, share, both;
    int index;

    assert_int_equal(machine_read(&machine), TUTTI_OK);
    CPU_ZERO(&all);
    for (index = 0; index < machine.cores; index++) {
        assert_int_equal(machine_bind_share(index, machine.cores, NULL, 0), TUTTI_OK);
        share = affinity();
        CPU_AND(&both, &share, &all);
        assert_int_equal(CPU_COUNT(&both), 0);
        CPU_OR(&all, &all, &share);
        assert_int_equal(restore_machine(state), 0);
    }
    assert_true(CPU_EQUAL(&all, &cores_at_start));
}

static void test_a_bound_process_has_its_share_only(void **state)
{
    struct machine machine;
    cpu_set_t before, after;

    (void)state;
    assert_int_equal(machine_read(&machine), TUTTI_OK);
    assert_int_equal(machine_bind_share(0, machine.cores, NULL, 0), TUTTI_OK);
    before = affinity();

    assert_int_equal(machine_read(&machine), TUTTI_OK);
    assert_int_equal(machine.cores, 1);
    /* A share of what is left is all of it. */
    assert_int_equal(machine_bind_share(0, 1, NULL, 0), TUTTI_OK);
    after = affinity();
    assert_true(CPU_EQUAL(&before, &after));
}

static void test_the_identity_is_the_same_each_time(void **state)
{
    char host[65];
    char first[128];
    char second[128];
    char cut[8];

    (void)state;
    machine_identity(first, sizeof first);
    machine_identity(second, sizeof second);
    machine_identity(cut, sizeof cut);

    assert_string_equal(first, second);
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_string_equal(first + strlen(first) - strlen(host), host);
    assert_true(strlen(first) > strlen(host) + 30);
    assert_memory_equal(cut, first, sizeof cut - 1);
    assert_int_equal(cut[sizeof cut - 1], '\0');
}

#define TEST(name) cmocka_unit_test_teardown(name, restore_machine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_machine_with_caches),
        TEST(test_a_shared_level_2_cache_is_divided),
        TEST(test_a_process_is_in_the_one_cache_that_holds_its_cores),
        TEST(test_unknown_caches_have_defaults),
        TEST(test_threads_count_where_there_are_no_cores),
        TEST(test_this_machine_can_be_read),
        TEST(test_shares_are_contiguous),
        TEST(test_every_core_is_in_one_share_and_shares_are_fair),
        TEST(test_more_shares_than_cores_bind_nothing),
        TEST(test_there_is_no_share_outside_the_count),
        TEST(test_the_shares_of_this_machine_are_all_its_threads),
        TEST(test_a_bound_process_has_its_share_only),
        TEST(test_the_identity_is_the_same_each_time),
    };

    return cmocka_run_group_tests(tests, remember_cores, NULL);
}
