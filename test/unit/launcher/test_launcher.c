/*
 * Lists of words, programs found through PATH, and programs beside us.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/process.h"
#include "launcher/program.h"
#include "test/unit/launcher/cases.h"
#include "test/unit/launcher/words.h"

UNIT_TEST(test_set_replaces_the_entry_of_the_same_name_only)
{
    struct arguments list = { .items = NULL };
    char *line;

    arguments_set(&list, "AB", "1");
    arguments_set(&list, "A", "2");
    arguments_put(&list, "C");
    arguments_set(&list, "AB", "3");
    arguments_set(&list, "C", "4");
    arguments_put(&list, "A");
    line = arguments_join(&list, ", ");
    assert_string_equal(line, "AB=3, A, C=4");
    mem_free(line);
    assert_true(arguments_has(&list, "C=5"));
    assert_false(arguments_has(&list, "B"));
    list.failed = true;
    assert_null(arguments_join(&list, ","));
    arguments_fini(&list);
}

UNIT_CASES(test_splitting_follows_the_shell, "words")
{
    struct arguments list = { .items = NULL };

    if (arguments_split(&list, in, "--mpi-args") != TUTTI_OK) {
        assert_int_equal(list.count, 0);
        cases_refused(out);
    }
    for (size_t i = 0; i < list.count; i++) {
        (void)sprintf(out + strlen(out), "%s<%s>", i > 0 ? " " : "", list.items[i]);
    }
    arguments_fini(&list);
}

UNIT_CASES(test_quoting_leaves_plain_words, "quotes")
{
    struct arguments list = { .items = NULL };
    char *line;

    arguments_add_all(&list, cases_words(in));
    line = arguments_quote(&list);
    (void)strcpy(out, line);
    mem_free(line);
    arguments_fini(&list);
}

UNIT_CASES(test_programs_are_found, "programs")
{
    char folder[] = "program_XXXXXX";
    char *fields[CASES_FIELDS];
    char file[PATH_MAX];

    assert_int_equal(cases_fields(in, fields), 2);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(close(creat("runs", 0700)), 0);
    assert_int_equal(close(creat("text", 0600)), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    if (program_find(fields[0], fields[1][0] == '\0' ? NULL : fields[1], file,
                sizeof file) == TUTTI_OK) {
        (void)strcpy(out, file);
    } else {
        cases_refused(out);
    }
    assert_int_equal(unlink("runs") + unlink("text") + rmdir("folder"), 0);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(rmdir(folder), 0);
}

UNIT_TEST(test_environment_is_searched_by_whole_names)
{
    static const char *const literals[] = { "AB=1", "A=x=y", "N=12", "BIG=9999999999",
        "C", NULL };
    struct arguments list = { .items = NULL };
    char *const *variables = words_set(&list, literals);
    int number = 0;

    assert_string_equal(environment_get(variables, "A"), "x=y");
    assert_null(environment_get(variables, "B"));
    assert_null(environment_get(variables, "C"));
    assert_true(environment_get_int(variables, "N", 12, &number));
    assert_int_equal(number, 12);
    assert_false(environment_get_int(variables, "N", 13, &number));
    assert_false(environment_get_int(variables, "A", 0, &number));
    assert_false(environment_get_int(variables, "BIG", 0, &number));
    arguments_fini(&list);
}

static void start_shell(struct process *process, const char *script)
{
    char text[512];
    char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, text, NULL };

    (void)snprintf(text, sizeof text, "%s", script);
    assert_int_equal(process_start(process, argv, environ), TUTTI_OK);
}

static void finish(struct process *process)
{
    assert_true(process_finish(process, INT64_MAX));
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
    process_write(&process, "it\n", 3);
    while (!process_take_line(&process, line, sizeof line)) {
        assert_false(process.has_ended);
        (void)loop_turn(&loop, INT64_MAX);
    }
    assert_string_equal(line, "got it");
    process_close_input(&process);
    while (!process.has_ended) {
        (void)loop_turn(&loop, INT64_MAX);
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

    start_shell(&process, "sleep 1000 & echo $!; exit 5");
    finish(&process);
    assert_int_equal(process.status, 5);
    assert_true(process_take_line(&process, line, sizeof line));
    (void)kill((pid_t)strtol(line, NULL, 10), SIGKILL);
    process_fini(&process);
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

UNIT_TEST(test_every_failing_allocation_is_latched)
{
    for (uint64_t n = 1;; n++) {
        struct arguments list = { .items = NULL };
        bool failed;

        mem_fail_at(n);
        arguments_add(&list, "a");
        arguments_add_format(&list, "%d", 1);
        arguments_set(&list, "a", "2");
        mem_fail_at(0);
        failed = list.failed;
        assert_int_equal(
                arguments_status(&list), failed ? TUTTI_ERR_NO_MEMORY : TUTTI_OK);
        arguments_fini(&list);
        if (!failed) {
            assert_true(n > 3);
            break;
        }
    }
}
