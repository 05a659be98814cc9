/*
 * Cores and load, on whatever machine this is: the tests bind themselves to one core,
 * where the answers are known.
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "test/unit/unit.h"

static cpu_set_t cores_at_start;

static int remember_cores(void **state)
{
    (void)state;
    return sched_getaffinity(0, sizeof cores_at_start, &cores_at_start);
}

static int restore_cores(void **state)
{
    (void)state;
    return sched_setaffinity(0, sizeof cores_at_start, &cores_at_start);
}

#define TEST(name) UNIT_TEST_WITH(name, remember_cores, restore_cores)

static void bind_to_one_core(void)
{
    cpu_set_t one;
    size_t core = 0;

    while (!CPU_ISSET(core, &cores_at_start)) {
        core++;
    }
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(test_allowed_cores_are_within_the_affinity)
{
    assert_in_range(cpu_allowed_count(), 1, CPU_COUNT(&cores_at_start));
    assert_int_equal(
            cpu_is_bound(), CPU_COUNT(&cores_at_start) < sysconf(_SC_NPROCESSORS_ONLN));
}

TEST(test_bandwidth_is_whole_cores)
{
    assert_true(cpu_max_parse("max 100000\n") == LONG_MAX);
    assert_true(cpu_max_parse("") == LONG_MAX);
    assert_true(cpu_max_parse("400000") == LONG_MAX);
    assert_true(cpu_max_parse("400000 0") == LONG_MAX);
    assert_true(cpu_max_parse("-1 100000") == LONG_MAX);
    assert_true(cpu_max_parse("400000 100000\n") == 4);
    assert_true(cpu_max_parse("199999 100000\n") == 1);
    assert_true(cpu_max_parse("50000 100000\n") == 0);
}

TEST(test_a_process_on_one_core_is_bound)
{
    bind_to_one_core();

    assert_int_equal(cpu_allowed_count(), 1);
    assert_int_equal(cpu_is_bound(), sysconf(_SC_NPROCESSORS_ONLN) > 1);
}

TEST(test_a_lone_thread_may_spin_on_its_core)
{
    struct cpu_load load;

    bind_to_one_core();
    cpu_load_init(&load);
    load.bound = true; /* also on a machine of one core */

    assert_true(cpu_load_has_free(&load, 1));
    /* The caller is on the only one. */
    assert_int_equal(cpu_load_idle(&load, 1), 0);
    cpu_load_fini(&load);
}

/* Whether a thread is busy, until it is to stop. */
struct busy {
    _Atomic bool begun, stop;
};

static void *be_busy(void *argument)
{
    struct busy *busy = argument;

    atomic_store(&busy->begun, true);
    while (!atomic_load(&busy->stop)) {
        cpu_relax();
    }
    return NULL;
}

TEST(test_a_busy_thread_takes_the_core)
{
    static struct busy busy;
    struct cpu_load load;
    pthread_t thread;
    int64_t now;
    bool has_free;

    bind_to_one_core();
    cpu_load_init(&load);
    load.bound = true;
    assert_int_equal(pthread_create(&thread, NULL, be_busy, &busy), 0);
    while (!atomic_load(&busy.begun)) {
        (void)sched_yield();
    }
    has_free = cpu_load_has_free(&load, 1);
    atomic_store(&busy.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);

    assert_false(has_free);
    /* The sample is remembered for 500 us or more, and then taken again. */
    assert_true(load.interval_ns >= 500000);
    assert_false(cpu_load_has_free(&load, load.interval_ns));
    now = load.interval_ns + 1;
    while (!cpu_load_has_free(&load, now)) {
        now += load.interval_ns; /* the kernel tells of its end before it is gone */
    }
    cpu_load_fini(&load);
}

TEST(test_an_unbound_process_asks_the_machine)
{
    struct cpu_load load;

    cpu_load_init(&load);
    load.bound = false;

    /* This thread runs, so that 0 cores are too few; a million are enough. */
    load.allowed = 0;
    assert_false(cpu_load_has_free(&load, 1));
    load.allowed = 1000000;
    assert_true(cpu_load_has_free(&load, load.interval_ns + 1));
    assert_in_range(cpu_load_idle(&load, load.interval_ns + 1), 900000, 999999);
    cpu_load_fini(&load);
}

/* The time that a yield took is the test's: it says that it began long ago, or not yet. */
TEST(test_dear_yields_are_left_out_for_a_while)
{
    const int64_t long_ns = INT64_C(20000000000);
    struct cpu_load load;
    int64_t resumes_ns;

    cpu_load_init(&load);
    assert_true(cpu_load_yield(&load, clock_ns() + long_ns));
    assert_true(cpu_load_yield(&load, clock_ns() + long_ns));
    assert_true(cpu_load_yield(&load, clock_ns() - long_ns));
    resumes_ns = load.no_yield_ns;
    assert_true(resumes_ns > clock_ns() + long_ns);
    assert_false(cpu_load_yield(&load, resumes_ns - 1));
    assert_int_equal(load.no_yield_ns, resumes_ns);
    assert_true(cpu_load_yield(&load, resumes_ns));
    cpu_load_fini(&load);
}

/* On a machine of so many cores one is always free; of none, never. */
static void pretend_cores(struct cpu_load *load, int cores)
{
    load->bound = false;
    load->allowed = cores;
}

TEST(test_a_free_core_is_believed_until_it_is_doubted)
{
    struct cpu_load load;
    int64_t now = 1;

    cpu_load_init(&load);
    pretend_cores(&load, 1000000);
    assert_true(cpu_load_has_free(&load, now));
    assert_int_equal(load.samples, 1);
    now += 3600 * INT64_C(1000000000);
    pretend_cores(&load, 0);
    assert_true(cpu_load_has_free(&load, now));
    assert_int_equal(load.samples, 1);

    cpu_load_doubt(&load);
    assert_false(cpu_load_has_free(&load, now));
    assert_int_equal(load.samples, 2);
    cpu_load_fini(&load);
}

/* Looks again, whatever was known. */
static void look(struct cpu_load *load, int64_t *now)
{
    *now += load->interval_ns;
    cpu_load_doubt(load);
    (void)cpu_load_has_free(load, *now);
}

TEST(test_two_looks_make_sure_for_a_while)
{
    struct cpu_load load;
    int64_t now = 1;

    cpu_load_init(&load);
    pretend_cores(&load, 1000000);
    assert_false(cpu_load_is_sure(&load, now));
    look(&load, &now);
    assert_false(cpu_load_is_sure(&load, now));
    look(&load, &now);
    assert_true(cpu_load_is_sure(&load, now));
    assert_true(cpu_load_is_sure(&load, now + 99999999));
    assert_false(cpu_load_is_sure(&load, now + 100000000));
    cpu_load_doubt(&load);
    assert_false(cpu_load_is_sure(&load, now));

    /* One core found after none does not make sure. */
    pretend_cores(&load, 0);
    look(&load, &now);
    assert_false(cpu_load_is_sure(&load, now));
    pretend_cores(&load, 1000000);
    look(&load, &now);
    assert_false(cpu_load_is_sure(&load, now));
    look(&load, &now);
    assert_true(cpu_load_is_sure(&load, now));
    cpu_load_fini(&load);
}

/* A thread that runs, then sleeps, then ends. */
struct looked_at {
    atomic_int id;
    atomic_int told; /* 1: to sleep */
    pthread_mutex_t held;
};

static void *be_looked_at(void *argument)
{
    struct looked_at *thread = argument;

    atomic_store(&thread->id, cpu_thread_id());
    while (atomic_load(&thread->told) == 0) {
    }
    (void)pthread_mutex_lock(&thread->held);
    (void)pthread_mutex_unlock(&thread->held);
    return NULL;
}

TEST(test_a_thread_is_seen_to_run_to_sleep_and_to_end)
{
    struct looked_at thread = { .held = PTHREAD_MUTEX_INITIALIZER };
    struct cpu_thread look = { 0 };
    pthread_t handle;

    assert_false(cpu_thread_runs(&look, 0));
    assert_true(cpu_thread_runs(&look, cpu_thread_id()));
    (void)pthread_mutex_lock(&thread.held);
    assert_int_equal(pthread_create(&handle, NULL, be_looked_at, &thread), 0);
    while (atomic_load(&thread.id) == 0) {
        (void)sched_yield();
    }
    while (!cpu_thread_runs(&look, atomic_load(&thread.id))) {
        (void)sched_yield(); /* a page that is not there yet makes it sleep */
    }
    atomic_store(&thread.told, 1);
    while (cpu_thread_runs(&look, atomic_load(&thread.id))) {
        (void)sched_yield();
    }
    (void)pthread_mutex_unlock(&thread.held);
    (void)pthread_join(handle, NULL);
    while (cpu_thread_runs(&look, atomic_load(&thread.id))) {
        (void)sched_yield(); /* the kernel tells of its end before it is gone */
    }
    assert_true(cpu_thread_runs(&look, cpu_thread_id()));
    cpu_thread_fini(&look);
}
