/*
 * What is said of the ends of ranks and of the starter, which of them is the cause, and lines of output.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/job/console.h"
#include "launcher/job/flow.h"
#include "launcher/job/launcher_process.h"
#include "launcher/job/ranks.h"
#include "launcher/job/report.h"
#include "launcher/job/root_cause.h"
#include "test/unit/launcher/cases.h"

#define MS INT64_C(1000000)

/* A rank as "exit=3;running;at=5": how it ended, and what else is known; it has parts of the text. */
static struct rank read_rank(char *text)
{
    static const char *const ends[] = { "none", "exit", "signal", "exec", "setup",
        "lost", "silent", "stuck" };
    struct rank rank = { .state = RANK_RUNNING };
    char *rest = NULL;

    for (char *word = strtok_r(text, ";", &rest); word != NULL;
            word = strtok_r(NULL, ";", &rest)) {
        char *value = strchr(word, '=');
        long number;

        if (value != NULL) {
            *value++ = '\0';
        }
        number = value == NULL ? 0 : strtol(value, NULL, 10);
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            if (strcmp(word, ends[i]) == 0) {
                rank.state = RANK_ENDED;
                rank.end = (enum rank_end)i;
                rank.value = (int)number;
            }
        }
        rank.when += strcmp(word, "at") == 0 ? number * MS : 0;
        rank.doubt += strcmp(word, "doubt") == 0 ? number * MS : 0;
        rank.stage = strcmp(word, "running") == 0 ? LIBRARY_STAGE_RUNNING : rank.stage;
        rank.failure = strcmp(word, "found") == 0 ? CONTEXT_FAILURE_FOUND
                : strcmp(word, "told") == 0       ? CONTEXT_FAILURE_TOLD
                                                  : rank.failure;
        rank.dumped_core |= strcmp(word, "core") == 0;
        rank.is_oom |= strcmp(word, "oom") == 0;
        rank.was_stopped |= strcmp(word, "stopped") == 0;
        rank.detail = strcmp(word, "detail") == 0 ? value : rank.detail;
        rank.awaited = strcmp(word, "awaited") == 0 ? value : rank.awaited;
    }
    return rank;
}

UNIT_CASES(test_ends, "ends")
{
    const struct rank rank = read_rank(cases_words(in)[0]);
    char text[EXIT_TEXT_MAX];

    exit_text_end(&rank, text);
    (void)sprintf(
            out, "%s%s(%d)", text, text[0] == '\0' ? "" : " ", exit_text_status(&rank));
}

UNIT_CASES(test_durations, "durations")
{
    exit_text_duration(strtol(in, NULL, 10) * MS, out, CASES_OUT);
}

static int with_ranks(const char *text, int (*function)(const struct ranks *ranks))
{
    char *const *words = cases_words(text);
    struct rank items[4];
    const struct ranks ranks = { .items = items, .count = 4 };

    for (int i = 0; i < 4; i++) {
        items[i] = read_rank(words[i]);
    }
    return function(&ranks);
}

UNIT_CASES(test_the_first_failure, "first failure")
{
    (void)sprintf(out, "%d", with_ranks(in, root_cause_first));
}

static int absentee_of_1(const struct ranks *ranks)
{
    return root_cause_absentee(ranks, 1);
}

UNIT_CASES(test_whom_a_stall_is_due_to, "whom a stall is due to")
{
    (void)sprintf(out, "%d", with_ranks(in, absentee_of_1));
}

UNIT_CASES(test_lists_of_ranks, "lists of ranks")
{
    char *fields[CASES_FIELDS];
    bool is_valid;

    assert_int_equal(cases_fields(in, fields), 2);
    is_valid = rank_list_is_valid(fields[0]);
    (void)sprintf(out, "%s%s",
            rank_list_has(fields[0], (int)strtol(fields[1], NULL, 10)) ? "yes" : "no",
            is_valid ? "" : ", malformed");
    assert_true(rank_list_has(NULL, 7));
}

UNIT_CASES(test_who_called_mpi_abort, "MPI_Abort")
{
    struct abort_words words = { .rank = 0 };
    char *fields[CASES_FIELDS];
    size_t count = cases_fields(in, fields);

    for (size_t i = 0; i < count; i++) {
        abort_words_take(&words, fields[i], strlen(fields[i]));
    }
    (void)strcpy(out, "no");
    if (abort_words_are_complete(&words)) {
        (void)sprintf(out, "rank %d, code %d", words.rank, words.code);
    }
}

UNIT_CASES(test_marks, "marks")
{
    struct console console = { .has_prefix = false };
    struct console_origin origin = { .rank = 0 };
    char mark[CONSOLE_MARK_MAX];
    char host[8];
    size_t mark_len;

    assert_int_equal(sscanf(in, "%d %d %d %7s", &console.rank_width,
                             &console.host_width, &origin.rank, host),
            4);
    console.has_prefix = console.rank_width > 0;
    console.has_hosts = console.host_width > 0;
    origin.host = host;
    mark_len = console_mark(&console, &origin, mark);
    assert_int_equal(mark_len, strlen(mark));
    (void)sprintf(out, "|%s|", mark);
}

/* A console whose stdout is a pipe that takes what it can and no more. */
static void open_pipe(struct console *console, int ends[2])
{
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    *console = (struct console){
        .streams = { { .fd = ends[1], .is_ours = true },
                { .fd = -1, .is_broken = true } },
        .has_prefix = true,
        .rank_width = 1,
    };
}

UNIT_TEST(test_memory_has_a_limit)
{
    static char line[60000];
    const struct console_origin origin = { .rank = 4, .host = "a" };
    struct console console;
    int ends[2];

    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\n';
    open_pipe(&console, ends);
    for (int i = 0; i < CONSOLE_MAX / (int)sizeof line + 10; i++) {
        console_lines(&console, 1, &origin, line, sizeof line);
    }
    assert_true(console.streams[0].kept.len <= CONSOLE_MAX);
    assert_true(console.streams[0].dropped > 0);
    (void)close(ends[0]);
    console.streams[0].is_broken = true;
    console_close(&console);
}

static void count_line(void *context, const char *line)
{
    int *count = context;

    (void)line;
    (*count)++;
}

static void add(struct launcher_output *said, const char *text, int *count)
{
    launcher_output_add(said, text, strlen(text), count_line, count);
}

UNIT_TEST(test_lines_are_put_together)
{
    static struct launcher_output launcher_output;
    int count = 0;

    add(&launcher_output, "one\n\n\033[1mtw", &count);
    assert_int_equal(count, 1);
    add(&launcher_output, "o\r\nlast", &count);
    assert_int_equal(count, 2);
    launcher_output_end(&launcher_output, count_line, &count);
    launcher_output_end(&launcher_output, count_line, &count);
    assert_int_equal(count, 3);
    assert_int_equal(launcher_output_kept(&launcher_output), 3);
    assert_string_equal(launcher_output_line(&launcher_output, 0), "one");
    assert_string_equal(launcher_output_line(&launcher_output, 1), "[1mtwo");
    assert_string_equal(launcher_output_line(&launcher_output, 2), "last");
}
