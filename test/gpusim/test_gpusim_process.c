/*
 * What concerns a process as a whole: its exit status, and what the environment asks for.
 * Each case is a child of this program, which itself never initialises the simulator.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/gpusim/gpu.h"

enum {
    TEXT_BYTES = 4096,
    STATUS_FOUND = 97,
    STATUS_WRONG = 3,
    STATUS_RETURNED = 4
};

struct outcome {
    int status; /* as of wait() */
    char text[TEXT_BYTES];
};

/* In a child, where assertions of cmocka cannot be used. */
static void need(bool is_so, int line)
{
    if (!is_so) {
        (void)fprintf(stderr, "line %d\n", line);
        _exit(STATUS_WRONG);
    }
}
#define NEED(condition) need(condition, __LINE__)

static void read_all(int file, char *text)
{
    size_t used = 0;
    ssize_t got;

    do {
        got = read(file, text + used, TEXT_BYTES - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    } while (got > 0 && used < TEXT_BYTES - 1);
    text[used] = '\0';
    while (got > 0) {
        char rest[256];

        got = read(file, rest, sizeof rest);
    }
}

/* Runs the function in a child with "NAME=value" set; the child then leaves main(). */
static struct outcome run_child(void (*function)(void), char *setting)
{
    struct outcome outcome = { .status = -1 };
    int pipes[2];
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(pipes[1], STDERR_FILENO);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test */
        (void)putenv(setting);
        function();
        exit(0);
    }
    (void)close(pipes[1]);
    read_all(pipes[0], outcome.text);
    (void)close(pipes[0]);
    assert_int_equal(waitpid(child, &outcome.status, 0), child);
    return outcome;
}

static void expect_exit(const struct outcome *outcome, int status)
{
    if (!WIFEXITED(outcome->status) || WEXITSTATUS(outcome->status) != status) {
        fail_msg("status %d instead of %d: %s", outcome->status, status, outcome->text);
    }
}

static void expect_good(void (*function)(void), char *setting)
{
    struct outcome outcome = run_child(function, setting);

    expect_exit(&outcome, 0);
}

static void child_open(void)
{
    void *context;

    NEED(cuInit(0) == 0);
    NEED(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    NEED(cuCtxSetCurrent(context) == 0);
}

/* ---- exit status ---- */

static void child_races(void)
{
    void *first, *second;
    uint64_t pointer;

    child_open();
    NEED(cuMemAlloc_v2(&pointer, 8) == 0);
    NEED(cuStreamCreate(&first, 1) == 0);
    NEED(cuStreamCreate(&second, 1) == 0);
    NEED(cuMemsetD8Async(pointer, 1, 8, first) == 0);
    NEED(cuMemsetD8Async(pointer, 2, 8, second) == 0);
    NEED(cuCtxSynchronize() == 0);
    NEED(gpusim_races() == 1);
}

/* The second operation has not begun when main() returns. */
static void child_races_late(void)
{
    char byte;
    void *stream;
    uint64_t pointer;

    child_open();
    NEED(cuMemAlloc_v2(&pointer, 8) == 0);
    NEED(cuStreamCreate(&stream, 1) == 0);
    gpusim_slow(stream, 20000);
    NEED(cuMemsetD8Async(pointer, 1, 8, stream) == 0);
    NEED(gpusim_read(&byte, pointer, 1));
    NEED(gpusim_races() == 0);
}

static void child_reports(void)
{
    child_open();
    gpusim_report("something");
}

static void child_is_good(void)
{
    uint64_t pointer;

    child_open();
    NEED(cuMemAlloc_v2(&pointer, 8) == 0);
    NEED(cuMemsetD8_v2(pointer, 1, 8) == 0);
    NEED(cuCtxSynchronize() == 0);
    NEED(cuMemFree_v2(pointer) == 0);
}

UNIT_TEST(test_findings_end_in_a_failing_status)
{
    char none[] = "GPUSIM_NOTHING=1", lenient[] = "GPUSIM_STRICT=0";
    struct outcome outcome;

    expect_good(child_is_good, none);
    outcome = run_child(child_races, none);
    expect_exit(&outcome, STATUS_FOUND);
    assert_non_null(strstr(outcome.text, "RACE: cuMemsetD8Async"));
    assert_non_null(strstr(outcome.text, "1 findings, 1 of them races"));
    outcome = run_child(child_races_late, none);
    expect_exit(&outcome, STATUS_FOUND);
    outcome = run_child(child_reports, none);
    expect_exit(&outcome, STATUS_FOUND);
    outcome = run_child(child_races, lenient);
    expect_exit(&outcome, 0);
    assert_non_null(strstr(outcome.text, "RACE"));
}

static void child_has_an_odd_option(void)
{
    child_open();
}

UNIT_TEST(test_bad_options_end_the_process)
{
    char number[] = "GPUSIM_DEVICES=four", faults[] = "GPUSIM_FAIL=cuInit:0:1";
    struct outcome outcome;

    outcome = run_child(child_has_an_odd_option, number);
    expect_exit(&outcome, STATUS_FOUND);
    assert_non_null(strstr(outcome.text, "GPUSIM_DEVICES=four"));
    outcome = run_child(child_has_an_odd_option, faults);
    expect_exit(&outcome, STATUS_FOUND);
}

/* ---- faults ---- */

static void child_has_two_faults(void)
{
    uint64_t pointer;

    child_open();
    NEED(cuMemAlloc_v2(&pointer, 8) == 0);
    NEED(cuMemAlloc_v2(&pointer, 8) == 2);
    NEED(cuMemAlloc_v2(&pointer, 8) == 0);
    NEED(cuCtxSynchronize() == 719);
    NEED(cuCtxSynchronize() == 0);
    NEED(gpusim_calls("cuMemAlloc_v2") == 3);
    NEED(gpusim_calls("cuMemFree_v2") == 0);
    gpusim_fail("cuMemFree_v2", 2, 999);
    gpusim_fail("cuInit", 1, 3);
    NEED(cuMemFree_v2(pointer) == 0);
    NEED(cuInit(0) == 3);
    gpusim_fail_nothing();
    NEED(cuMemFree_v2(0) == 0);
}

UNIT_TEST(test_calls_fail_when_asked_to)
{
    char faults[] = "GPUSIM_FAIL=cuMemAlloc_v2:2:2,cuCtxSynchronize:1:719";

    expect_good(child_has_two_faults, faults);
}

/* ---- devices ---- */

static void child_counts_two(void)
{
    int count = 0;

    NEED(cuDeviceGetCount(&count) == 3);
    NEED(cuInit(0) == 0);
    NEED(cuDeviceGetCount(&count) == 0 && count == 2);
}

static void child_sees_3_and_1(void)
{
    child_counts_two();
    NEED(strcmp(gpusim_device_pci(0), "0000:47:00.0") == 0);
    NEED(strcmp(gpusim_device_pci(1), "0000:27:00.0") == 0);
    NEED(gpusim_device_pci(2) == NULL);
}

static void child_sees_none(void)
{
    NEED(cuInit(0) == 100);
}

UNIT_TEST(test_the_environment_chooses_devices)
{
    char two[] = "GPUSIM_DEVICES=2", numbers[] = "CUDA_VISIBLE_DEVICES=3,1,9,0";
    char uuids[] = "CUDA_VISIBLE_DEVICES=GPU-40414243-4445,GPU-20";
    char none[] = "CUDA_VISIBLE_DEVICES=", zero[] = "GPUSIM_DEVICES=0";

    expect_good(child_counts_two, two);
    expect_good(child_sees_3_and_1, numbers);
    expect_good(child_sees_3_and_1, uuids);
    expect_good(child_sees_none, none);
    expect_good(child_sees_none, zero);
}

/* ---- memory ---- */

static void touching_body(const struct gpusim_launch *launch)
{
    *(char *)(uintptr_t) * (uint64_t *)launch->parameters[0] = 77;
}

static void touching_ranges(
        const struct gpusim_launch *launch, struct gpusim_accesses *accesses)
{
    gpusim_writes(accesses, *(uint64_t *)launch->parameters[0], 1);
}

static const size_t touching_parameters[] = { sizeof(uint64_t) };

static const struct gpusim_kernel touching = {
    .name = "touching",
    .parameter_bytes = touching_parameters,
    .parameter_count = 1,
    .ranges = touching_ranges,
    .body = touching_body,
};

/* Copies and kernels work on memory that the host must not touch. */
static void use_protected(uint64_t *pointer)
{
    void *module, *kernel;
    void *parameters[] = { pointer };
    char bytes[2] = { 5, 6 };

    gpusim_kernel_register(&touching);
    child_open();
    NEED(cuMemAlloc_v2(pointer, 2) == 0);
    NEED(cuMemcpyHtoD_v2(*pointer, bytes, 2) == 0);
    NEED(cuModuleLoadData(&module, "x") == 0);
    NEED(cuModuleGetFunction(&kernel, module, "touching") == 0);
    NEED(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL) == 0);
    NEED(cuMemcpyDtoH_v2(bytes, *pointer, 2) == 0);
    NEED(bytes[0] == 77 && bytes[1] == 6);
}

static void child_touches_device_memory(void)
{
    uint64_t pointer;

    use_protected(&pointer);
    *(volatile char *)(uintptr_t)pointer = 1;
    _exit(STATUS_RETURNED);
}

static void child_touches_nothing(void)
{
    uint64_t pointer;

    use_protected(&pointer);
}

UNIT_TEST(test_protected_memory_catches_the_host)
{
    char protect[] = "GPUSIM_PROTECT=1", open[] = "GPUSIM_PROTECT=0";
    struct outcome outcome;

    expect_good(child_touches_nothing, protect);
    outcome = run_child(child_touches_device_memory, open);
    expect_exit(&outcome, STATUS_RETURNED);
    outcome = run_child(child_touches_device_memory, protect);
    assert_true(WIFSIGNALED(outcome.status) || WEXITSTATUS(outcome.status) != 0);
    assert_non_null(strstr(outcome.text, "host code touched device memory"));
}

static void child_reuses(void)
{
    uint64_t first, second, third;

    child_open();
    NEED(cuMemAlloc_v2(&first, 100) == 0);
    NEED(cuMemFree_v2(first) == 0);
    NEED(cuMemAlloc_v2(&second, 5000) == 0);
    NEED(cuMemAlloc_v2(&third, 90) == 0);
    NEED(second != first);
    NEED((third == first) == (gpusim_option("GPUSIM_REUSE", 0) != 0));
    NEED(cuMemFree_v2(third) == 0);
}

UNIT_TEST(test_addresses_are_used_again_when_asked_for)
{
    char reuse[] = "GPUSIM_REUSE=1", quarantine[] = "GPUSIM_REUSE=0";

    expect_good(child_reuses, reuse);
    expect_good(child_reuses, quarantine);
}

/* ---- processes and time ---- */

static void child_forks(void)
{
    pid_t child;
    int status;

    child_open();
    child = fork();
    if (child == 0) {
        int count;

        _exit(cuDeviceGetCount(&count) == 3 && cuInit(0) == 3 ? 0 : STATUS_WRONG);
    }
    NEED(waitpid(child, &status, 0) == child);
    NEED(status == 0);
}

UNIT_TEST(test_a_forked_child_has_no_driver)
{
    char none[] = "GPUSIM_NOTHING=1";

    expect_good(child_forks, none);
}

static void child_is_delayed(void)
{
    struct timespec before, after;
    void *stream;

    child_open();
    NEED(cuStreamCreate(&stream, 1) == 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    for (int i = 0; i < 20; i++) {
        NEED(cuLaunchHostFunc(stream, gpu_nothing, NULL) == 0);
    }
    NEED(cuStreamSynchronize(stream) == 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    /* 20 draws of up to 2 ms: less than 1 ms together would be no delay at all */
    NEED((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >
            1000000);
}

UNIT_TEST(test_operations_are_delayed_when_asked_for)
{
    char delay[] = "GPUSIM_DELAY_US=2000";

    expect_good(child_is_delayed, delay);
}
