/*
 * Error texts and log lines: where they go, and where they are cut.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "test/unit/unit.h"

UNIT_TEST(test_a_system_error_has_the_text_of_errno)
{
    errno = ENOENT;
    assert_int_equal(
            error_set_errno(TUTTI_ERR_SYSTEM, "open %s", "/x"), TUTTI_ERR_SYSTEM);
    assert_string_equal(tutti_last_error(), "open /x: No such file or directory");
}

UNIT_TEST(test_an_error_may_quote_the_last_one)
{
    (void)error_set(TUTTI_ERR_MPI,
            "a\x1b[31m\xc2\x9b"
            "b\a \xc3\xa4\n");
    assert_string_equal(tutti_last_error(), "a?[31m??b? \xc3\xa4\n");
    (void)error_set(TUTTI_ERR_MPI, "cause");
    (void)error_set(TUTTI_ERR_CONTEXT_FAILED, "rank 3: %s", tutti_last_error());
    assert_string_equal(tutti_last_error(), "rank 3: cause");
}

UNIT_TEST(test_long_errors_are_cut)
{
    char text[2 * ERROR_TEXT_MAX];
    struct error error;

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';

    errno = ENOENT;
    (void)error_set_errno(TUTTI_ERR_SYSTEM, "%s", text);
    assert_int_equal(strlen(tutti_last_error()), ERROR_TEXT_MAX - 1);
    error_fill(&error, TUTTI_ERR_SYSTEM, 0, "%s", text);
    assert_int_equal(strlen(error.text), ERROR_TEXT_MAX - 1);
}

UNIT_TEST(test_a_record_carries_an_error_to_another_reader)
{
    struct error error;

    (void)error_set(TUTTI_ERR_INVALID, "unrelated");
    error_fill(&error, TUTTI_ERR_MISMATCH, 5, "tensor %s", "loss");
    assert_string_equal(tutti_last_error(), "unrelated");
    assert_int_equal(error.rank, 5);
    error_fill(&error, error.status, error.rank, "rank 5: %s", error.text);

    assert_int_equal(error_raise(&error), TUTTI_ERR_MISMATCH);
    assert_string_equal(tutti_last_error(), "rank 5: tensor loss");
}

static void *fail_in_thread(void *seen)
{
    *(size_t *)seen = strlen(tutti_last_error());
    (void)error_set(TUTTI_ERR_INVALID, "of the thread");
    return NULL;
}

UNIT_TEST(test_threads_have_errors_of_their_own)
{
    pthread_t thread;
    size_t seen = 99;

    (void)error_set(TUTTI_ERR_INVALID, "of main");
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);

    assert_int_equal(seen, 0);
    assert_string_equal(tutti_last_error(), "of main");
}

/* What a callback got. */
struct seen_line {
    int lines;
    tutti_log_level level;
    int rank;
    char text[8192];
};

static void remember_line(void *user, tutti_log_level level, int rank, const char *line)
{
    struct seen_line *seen = user;

    seen->lines++;
    seen->level = level;
    seen->rank = rank;
    (void)snprintf(seen->text, sizeof seen->text, "%s", line);
    errno = EIO;
}

UNIT_TEST(test_lines_above_the_level_are_dropped)
{
    struct seen_line seen = { .lines = 0 };
    struct log log = {
        .callback = remember_line, .user = &seen, .level = TUTTI_LOG_WARN
    };

    log_info(&log, "no");
    log_debug(&log, "no");
    log_trace(&log, "no");
    assert_int_equal(seen.lines, 0);
    assert_false(log_enabled(&log, TUTTI_LOG_INFO));

    log_warn(&log, "yes");
    log_error(&log, "yes");
    assert_int_equal(seen.lines, 2);
}

UNIT_TEST(test_long_lines_are_cut)
{
    struct seen_line seen = { .lines = 0 };
    struct log log = { .callback = remember_line, .user = &seen };
    char text[6000];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    log_error(&log, "%s", text);
    assert_int_equal(strlen(seen.text), 4095);
}

/* Logs to stderr, which goes to a file meanwhile, and gives back what was written. */
static void log_to_file(
        const struct log *log, tutti_log_level level, char *text, size_t capacity)
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t len;

    assert_non_null(file);
    assert_true(saved >= 0);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    log_write(log, level, "slow");
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    rewind(file);
    len = fread(text, 1, capacity - 1, file);
    text[len] = '\0';
    (void)fclose(file);
}

UNIT_TEST(test_without_a_callback_lines_go_to_stderr)
{
    static const char *const lines[] = { "tutti[7] error: slow\n",
        "tutti[7] warn: slow\n", "tutti[7] info: slow\n", "tutti[7] debug: slow\n",
        "tutti[7] trace: slow\n" };
    struct log log = { .level = TUTTI_LOG_TRACE, .rank = 7 };
    char text[64];
    int level;

    for (level = TUTTI_LOG_ERROR; level <= TUTTI_LOG_TRACE; level++) {
        log_to_file(&log, (tutti_log_level)level, text, sizeof text);
        assert_string_equal(text, lines[level]);
    }
    log.rank = -1;
    log_to_file(&log, TUTTI_LOG_WARN, text, sizeof text);
    assert_string_equal(text, "tutti[?] warn: slow\n");
}
