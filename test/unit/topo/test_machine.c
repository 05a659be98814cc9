/*
 * Facts about machines. hwloc is given synthetic ones; the real one is used where the
 * effect of binding is looked at.
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

#define TEST(name) UNIT_TEST_WITH(name, remember_cores, restore_machine)

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

TEST(test_a_machine_with_caches)
{
    pretend("package:2 l3:1(size=33554432) l2:4(size=2097152) core:1 pu:2");
    assert_machine(8, 2097152, 33554432);
}

TEST(test_a_shared_level_2_cache_is_divided)
{
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
TEST(test_a_process_is_in_the_one_cache_that_holds_its_cores)
{
    pretend("package:1 l3:1(size=33554432) core:4 pu:2");
    assert_cache("L3 of thread 0");
    pretend("package:2 l3:1(size=33554432) core:4 pu:2");
    assert_cache("");
    pretend("package:1 l2:4(size=2097152) core:1 pu:2");
    assert_cache("package of thread 0");
    pretend("package:2 l2:4(size=2097152) core:1 pu:2");
    assert_cache("");
}

TEST(test_unknown_caches_have_defaults)
{
    pretend("core:3 pu:2");
    assert_machine(3, 1048576, 0);
}

TEST(test_threads_count_where_there_are_no_cores)
{
    pretend("package:2 pu:3");
    assert_machine(6, 1048576, 0);
}

TEST(test_this_machine_can_be_read)
{
    struct machine machine;

    assert_int_equal(machine_read(&machine), TUTTI_OK);
    assert_in_range(machine.cores, 1, CPU_COUNT(&cores_at_start));
    assert_true(machine.l2_bytes >= 1024);
}

TEST(test_a_bound_process_has_its_cores_only)
{
    struct machine machine;
    cpu_set_t one;
    size_t cpu = 0;

    while (!CPU_ISSET(cpu, &cores_at_start)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(machine_read(&machine), TUTTI_OK);
    assert_int_equal(machine.cores, 1);
}

TEST(test_the_identity_is_the_same_each_time)
{
    char host[65];
    char first[128];
    char second[128];
    char cut[8];

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
