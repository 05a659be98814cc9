/*
 * Marks of lines, and what waits for a reader that is slow.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launcher/job/console.h"
#include "test/unit/unit.h"

#define S INT64_C(1000000000)

UNIT_TEST(test_marks)
{
    static const struct {
        struct console console;
        struct console_origin origin;
        const char *mark;
    } cases[] = {
        { { .has_prefix = false }, { .rank = 3, .host = "a" }, "" },
        { { .has_prefix = true, .rank_width = 1 }, { .rank = 3, .host = "a" }, "[3] " },
        { { .has_prefix = true, .rank_width = 2 }, { .rank = 3, .host = "a" },
                "[ 3] " },
        { { .has_prefix = true, .rank_width = 2, .has_hosts = true, .host_width = 5 },
                { .rank = 12, .host = "gpu" }, "[12@gpu]   " },
        { { .has_prefix = true, .rank_width = 1, .has_hosts = true, .host_width = 1 },
                { .rank = 1, .host = "gpu" }, "[1@gpu] " },
        { { .timestamps = JOB_TIMESTAMPS_SECONDS, .start = 10 * S },
                { .rank = 0, .host = "a", .time = 72 * S + S / 2 }, "   62.500 " },
        { { .timestamps = JOB_TIMESTAMPS_ISO,
                  .epoch = 1000000000 * S,
                  .has_prefix = true },
                { .rank = 0, .host = "a", .time = 7 * S + 25000000 },
                "2001-09-09T01:46:47.025Z [0] " },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[CONSOLE_MARK_MAX];
        size_t len;

        len = console_mark(&cases[i].console, &cases[i].origin, text);
        assert_int_equal(len, strlen(text));
        assert_string_equal(text, cases[i].mark);
    }
}

static size_t read_all(int fd, char *text, size_t capacity)
{
    size_t len = 0;
    ssize_t done;

    while (len < capacity && (done = read(fd, text + len, capacity - len)) > 0) {
        len += (size_t)done;
    }
    return len;
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

UNIT_TEST(test_each_line_is_marked)
{
    static const char lines[] = "one\ntwo\n";
    const struct console_origin origin = { .rank = 4, .host = "a" };
    struct console console;
    char text[64];
    int ends[2];
    size_t len;

    open_pipe(&console, ends);
    console_lines(&console, 1, &origin, lines, strlen(lines));
    console_close(&console);
    len = read_all(ends[0], text, sizeof text);
    assert_int_equal(len, strlen("[4] one\n[4] two\n"));
    assert_memory_equal(text, "[4] one\n[4] two\n", len);
    (void)close(ends[0]);
}

UNIT_TEST(test_what_cannot_be_written_waits)
{
    static char line[1000];
    static char text[1 << 18];
    const struct console_origin origin = { .rank = 4, .host = "a" };
    struct console console;
    size_t sent = 0;
    size_t came = 0;
    int ends[2];

    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\n';
    open_pipe(&console, ends);
    while (!console_is_full(&console)) {
        console_lines(&console, 1, &origin, line, sizeof line);
        sent += sizeof line + strlen("[4] ");
    }
    assert_true(console_waits(&console, 0));
    assert_true(sent > CONSOLE_FULL);
    while (console_waits(&console, 0)) {
        came += read_all(ends[0], text, sizeof text);
        console_flush(&console);
    }
    came += read_all(ends[0], text, sizeof text);
    assert_int_equal(came, sent);
    assert_false(console_is_full(&console));
    console_close(&console);
    (void)close(ends[0]);
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
