/*
 * Programs beside us.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/process.h"
#include "test/unit/unit.h"

#define SECONDS(n) ((n)*INT64_C(1000000000))

static void start_shell(struct process *process, const char *script)
{
    char text[512];
    char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, text, NULL };

    (void)snprintf(text, sizeof text, "%s", script);
    assert_int_equal(process_start(process, argv, environ), TUTTI_OK);
}

static void finish(struct process *process)
{
    struct process *const list[] = { process };
    int64_t until = clock_ns() + SECONDS(20);

    while (!process->has_ended && clock_ns() < until) {
        process_poll(list, 1, until);
    }
    assert_true(process->has_ended);
}

static void test_lines_and_last_words(void **state)
{
    struct process process;
    char line[8];

    (void)state;
    start_shell(&process,
            "echo one; echo; printf 'very long line\\r\\nlast'; "
            "printf 'why\\nbecause \\n\\n' >&2; exit 3");
    finish(&process);
    assert_int_equal(process.status, 3);
    assert_true(process_take_line(&process, line, sizeof line));
    assert_string_equal(line, "one");
    assert_true(process_take_line(&process, line, sizeof line));
    assert_string_equal(line, "");
    assert_true(process_take_line(&process, line, sizeof line));
    assert_string_equal(line, "very lo");
    assert_true(process_take_line(&process, line, sizeof line));
    assert_string_equal(line, "last");
    assert_false(process_take_line(&process, line, sizeof line));
    process_last_words(&process, line, sizeof line);
    assert_string_equal(line, "because");
    process_fini(&process);
}

static void test_a_conversation(void **state)
{
    struct process process;
    struct process *const list[] = { &process };
    char line[32] = "";

    (void)state;
    start_shell(&process, "read x; echo got $x; read y; exit 7");
    assert_false(process_take_line(&process, line, sizeof line));
    process_tell(&process, "it\n", 3);
    while (!process_take_line(&process, line, sizeof line)) {
        assert_false(process.has_ended);
        process_poll(list, 1, clock_ns() + SECONDS(20));
    }
    assert_string_equal(line, "got it");
    process_close_input(&process);
    finish(&process);
    assert_int_equal(process.status, 7);
    process_fini(&process);
}

static void test_signals_and_programs_that_are_not_there(void **state)
{
    struct process process;
    char *const argv[] = { (char[]){ "/nowhere/tutti" }, NULL };

    (void)state;
    start_shell(&process, "kill -9 $$");
    finish(&process);
    assert_int_equal(process.status, 128 + SIGKILL);
    assert_int_equal(process.signal, SIGKILL);
    process_fini(&process);
    assert_int_equal(process_start(&process, argv, environ), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/nowhere/tutti"));
    process_fini(&process);
}

/* ssh leaves a process behind that holds stderr, with ControlPersist. */
static void test_an_end_is_seen_though_others_hold_its_pipes(void **state)
{
    struct process process;
    char line[32];

    (void)state;
    start_shell(&process, "sleep 30 & echo $!; exit 5");
    finish(&process);
    assert_int_equal(process.status, 5);
    assert_true(process_take_line(&process, line, sizeof line));
    (void)kill((pid_t)strtol(line, NULL, 10), SIGKILL);
    process_fini(&process);
}

/* Its child holds a pipe to us, in place of its streams: its end is the end of that. */
static void test_a_group_ends_with_its_first(void **state)
{
    struct process process;
    struct pollfd end = { .events = POLLIN };
    int ends[2];
    char script[128];
    char byte;
    char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, script, NULL };

    (void)state;
    assert_int_equal(pipe(ends), 0);
    (void)snprintf(script, sizeof script, "sleep 1000 >&%d 2>&1 & exit 0", ends[1]);
    assert_int_equal(process_start_group(&process, argv, environ), TUTTI_OK);
    assert_int_equal(close(ends[1]), 0);
    assert_true(process_finish(&process, clock_ns() + SECONDS(20)));
    assert_int_equal(process.status, 0);
    end.fd = ends[0];
    assert_int_equal(poll(&end, 1, 20000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    process_fini(&process);
    assert_int_equal(close(ends[0]), 0);
}

static void test_too_much_is_said_to_be_cut(void **state)
{
    struct process process;

    (void)state;
    start_shell(&process, "head -c 6000000 /dev/zero");
    finish(&process);
    assert_true(process.out.is_cut);
    assert_true(process.out.len <= PROCESS_OUTPUT_MAX);
    assert_false(process.err.is_cut);
    process_fini(&process);
}

static void test_what_runs_is_ended(void **state)
{
    struct process process;
    char *const argv[] = { (char[]){ "sleep" }, (char[]){ "60" }, NULL };
    pid_t pid;

    (void)state;
    assert_int_equal(
            process_run(&process, argv, environ, clock_ns() + SECONDS(1) / 20), 0);
    assert_int_equal(process.status, 128 + SIGKILL);
    process_fini(&process);
    start_shell(&process, "exec sleep 60");
    assert_false(process_finish(&process, clock_ns() + SECONDS(1) / 20));
    process_fini(&process);
    start_shell(&process, "exec sleep 60");
    pid = process.pid;
    process_fini(&process);
    assert_int_equal(kill(pid, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_and_last_words),
        cmocka_unit_test(test_a_conversation),
        cmocka_unit_test(test_signals_and_programs_that_are_not_there),
        cmocka_unit_test(test_an_end_is_seen_though_others_hold_its_pipes),
        cmocka_unit_test(test_a_group_ends_with_its_first),
        cmocka_unit_test(test_too_much_is_said_to_be_cut),
        cmocka_unit_test(test_what_runs_is_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
