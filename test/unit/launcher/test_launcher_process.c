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
    assert_true(process_finish(process, clock_ns() + SECONDS(20)));
}

UNIT_TEST(test_lines_and_last_words)
{
    struct process process;
    char line[8];

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

UNIT_TEST(test_a_conversation)
{
    struct process process;
    struct loop loop;
    char line[32] = "";

    start_shell(&process, "read x; echo got $x; read y; exit 7");
    assert_int_equal(loop_init(&loop), TUTTI_OK);
    process_watch(&process, &loop);
    assert_false(process_take_line(&process, line, sizeof line));
    process_tell(&process, "it\n", 3);
    while (!process_take_line(&process, line, sizeof line)) {
        assert_false(process.has_ended);
        (void)loop_turn(&loop, clock_ns() + SECONDS(20));
    }
    assert_string_equal(line, "got it");
    process_close_input(&process);
    while (!process.has_ended) {
        assert_int_not_equal(loop_turn(&loop, clock_ns() + SECONDS(20)), 0);
    }
    assert_int_equal(process.status, 7);
    process_fini(&process);
    loop_fini(&loop);
}

UNIT_TEST(test_signals_and_programs_that_are_not_there)
{
    struct process process;
    char *const argv[] = { (char[]){ "/nowhere/tutti" }, NULL };

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
UNIT_TEST(test_an_end_is_seen_though_others_hold_its_pipes)
{
    struct process process;
    char line[32];

    start_shell(&process, "sleep 30 & echo $!; exit 5");
    finish(&process);
    assert_int_equal(process.status, 5);
    assert_true(process_take_line(&process, line, sizeof line));
    (void)kill((pid_t)strtol(line, NULL, 10), SIGKILL);
    process_fini(&process);
}

/* Its child holds a pipe to us, in place of its streams: its end is the end of that. */
UNIT_TEST(test_a_group_ends_with_its_first)
{
    struct process process;
    struct pollfd end = { .events = POLLIN };
    int ends[2];
    char script[128];
    char byte;
    char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, script, NULL };

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

UNIT_TEST(test_too_much_is_said_to_be_cut)
{
    struct process process;

    start_shell(&process, "head -c 6000000 /dev/zero");
    finish(&process);
    assert_true(process.out.is_cut);
    assert_true(process.out.len <= PROCESS_OUTPUT_MAX);
    assert_false(process.err.is_cut);
    process_fini(&process);
}

UNIT_TEST(test_what_runs_is_ended)
{
    struct process process;
    char *const argv[] = { (char[]){ "sleep" }, (char[]){ "60" }, NULL };
    pid_t pid;

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
