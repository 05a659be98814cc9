/*
 * What a supervisor does with a rank's output, and how it knows how the rank has ended.
 */
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/arguments.h"
#include "launcher/exec/lines.h"
#include "launcher/exec/logs.h"
#include "launcher/exec/oom.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/rank.h"
#include "launcher/exec/supervisor.h"
#include "test/unit/launcher/cases.h"
#include "test/unit/launcher/root.h"
#include "test/unit/launcher/words.h"

static const int64_t second = 1000000000;

UNIT_CASES(test_endings, "endings")
{
    static const char *const endings[] = { "exit", "signal", "exec", "setup" };
    struct ending ending = { .wait_status = 0 };
    struct link_exited exited = { .ending = 99 };

    for (char *const *word = cases_words(in); *word != NULL; word++) {
        const char *equals = strchr(*word, '=');
        int number = equals == NULL ? 0 : (int)strtol(equals + 1, NULL, 10);

        /* As waitpid() has it on Linux. */
        ending.wait_status |= strncmp(*word, "exit=", 5) == 0 ? number << 8
                : strncmp(*word, "signal=", 7) == 0           ? number
                : strcmp(*word, "core") == 0                  ? 0x80
                                                              : 0;
        ending.signals |= strncmp(*word, "sent=", 5) == 0 ? ending_signal(number) : 0;
        ending.exec_errno |= strncmp(*word, "exec=", 5) == 0 ? number : 0;
        ending.setup_errno |= strncmp(*word, "setup=", 6) == 0 ? number : 0;
        ending.was_stopped |= strcmp(*word, "told") == 0;
    }
    ending_describe(&ending, &exited);
    (void)sprintf(out, "%s %u%s%s", endings[exited.ending], exited.value,
            exited.dumped_core ? " core" : "", exited.was_stopped ? " stopped" : "");
}

enum {
    SHOWN_MAX = 1 << 18
};

/* What was shown. */
struct shown {
    char text[SHOWN_MAX];
    size_t len;
};

static struct shown shown;

static void take(void *to, const char *line, size_t len)
{
    struct shown *into = to;

    assert_int_equal(line[len - 1], '\n');
    assert_true(len <= LINES_SHOWN_MAX);
    assert_true(into->len + len < SHOWN_MAX);
    memcpy(into->text + into->len, line, len);
    into->len += len;
    into->text[into->len] = '\0';
}

static void begin(struct lines *lines)
{
    shown.len = 0;
    shown.text[0] = '\0';
    assert_int_equal(lines_init(lines, take, &shown), TUTTI_OK);
}

UNIT_CASES(test_bytes_become_lines, "lines")
{
    for (size_t piece = 1; piece <= len + 1; piece++) {
        struct lines lines;

        begin(&lines);
        for (size_t at = 0; at < len; at += piece) {
            lines_feed(&lines, in + at, piece < len - at ? piece : len - at, 0);
        }
        lines_end(&lines);
        assert_true(piece == 1 || strcmp(out, shown.text) == 0);
        (void)strcpy(out, shown.text);
        lines_fini(&lines);
    }
}

UNIT_TEST(test_of_updates_the_latest_is_shown_now_and_then)
{
    struct lines lines;
    int64_t now = 1000;

    begin(&lines);
    assert_true(lines_due(&lines) == INT64_MAX);
    lines_feed(&lines, "1%\r2%\r3%\r", 9, now);
    assert_string_equal(shown.text, "1%\n");
    assert_true(lines_due(&lines) == now + LINES_UPDATE_NS);
    lines_tick(&lines, now + LINES_UPDATE_NS - 1);
    assert_string_equal(shown.text, "1%\n");
    lines_tick(&lines, now + LINES_UPDATE_NS);
    assert_string_equal(shown.text, "1%\n3%\n");
    assert_true(lines_due(&lines) == INT64_MAX);
    /* The newline that ends a shown update makes no empty line. */
    lines_feed(&lines, "\nnext\n", 6, now + LINES_UPDATE_NS);
    assert_string_equal(shown.text, "1%\n3%\nnext\n");
    lines_fini(&lines);
}

UNIT_TEST(test_a_cut_keeps_characters_whole)
{
    static const char *const characters[] = { "\xc3\xbc", "\xe2\x82\xac",
        "\xf0\x9f\x8e\xb5" };

    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++) {
        size_t width = strlen(characters[i]);

        /* The character begins at each distance before the limit. */
        for (size_t before = 1; before <= width; before++) {
            static char bytes[LINES_MAX];
            struct lines lines;
            size_t whole = before == width ? LINES_MAX : LINES_MAX - before;

            memset(bytes, 'x', sizeof bytes);
            begin(&lines);
            lines_feed(&lines, bytes, LINES_MAX - before, 0);
            lines_feed(&lines, characters[i], width, 0);
            lines_feed(&lines, "yyyy\n", 5, 0);
            assert_string_equal(shown.text + whole, " [cut]\n");
            lines_fini(&lines);
        }
    }
}

UNIT_CASES(test_each_generation_has_its_place, "generations")
{
    for (uint32_t generation = 0; generation < 2; generation++) {
        generation_path(out, CASES_OUT, in, generation);
        assert_string_equal(out, in);
    }
    generation_path(out, CASES_OUT, in, 2);
}

UNIT_CASES(test_counters, "counters of memory")
{
    uint64_t count = 0;

    (void)strcpy(out, "none");
    if (oom_parse(in, &count)) {
        (void)sprintf(out, "%d", (int)count);
    }
    assert_true(count == 0 || out[0] != 'n');
}

/* The tree of a machine with cgroups of either version, and where its counter is. */
static void check_tree(const char *cgroups, const char *events, const char *limit)
{
    struct root root;
    char text[128];
    struct oom oom;

    root_make(&root);
    root_write(&root, "/proc/self/cgroup", cgroups, 0600);
    root_write(&root, events, "oom 1\noom_kill 1\n", 0600);
    if (limit != NULL) {
        root_write(&root, limit, "1073741824\n", 0600);
    }
    oom_open(&oom, root.path);
    assert_int_equal(oom.count, 1);
    assert_false(oom_has_killed(&oom, text, sizeof text));
    root_write(&root, events, "oom 2\noom_kill 2\n", 0600);
    assert_true(oom_has_killed(&oom, text, sizeof text));
    assert_string_equal(text, limit != NULL ? "its memory limit is 1024.0 MiB" : "");
    root_remove(&root);
    oom_open(&oom, root.path);
    assert_false(oom_has_killed(&oom, text, sizeof text));
}

UNIT_TEST(test_trees)
{
    check_tree("0::/job/step\n", "/sys/fs/cgroup/job/step/memory.events",
            "/sys/fs/cgroup/job/step/memory.max");
    check_tree("4:memory:/job\n0::/\n", "/sys/fs/cgroup/memory/job/memory.oom_control",
            "/sys/fs/cgroup/memory/job/memory.limit_in_bytes");
    /* In a container, the path is one of the host. */
    check_tree("0::/docker/abc\n", "/sys/fs/cgroup/memory.events",
            "/sys/fs/cgroup/memory.max");
    check_tree("0::/\n", "/proc/vmstat", NULL);
}

/* Whatever the name is. */
UNIT_CASES(test_stats_of_processes, "stat")
{
    struct process_facts process;

    (void)strcpy(out, "malformed");
    if (process_parse(&process, in)) {
        (void)sprintf(out, "%d %d %c%s", process.pid, process.parent, process.state,
                process.is_ending ? " ending" : "");
    }
}

/* The marks of other jobs may contain ours, and be contained. */
UNIT_TEST(test_the_marked_alone_are_killed)
{
    static const char *const marks[][2] = { { "", "1" }, { "", "12" }, { "X", "1" },
        { "", "" } };
    enum {
        COUNT = sizeof marks / sizeof marks[0]
    };
    char first[] = "A=1";
    char mark[COUNT][32];
    pid_t pids[COUNT];
    int ends[COUNT];
    size_t killed;

    for (size_t i = 0; i < COUNT; i++) {
        char *const environment[] = { first, mark[i], NULL };

        (void)snprintf(mark[i], sizeof mark[i], "%sJOB=%d.%s", marks[i][0], getpid(),
                marks[i][1]);
        assert_int_equal(posix_spawnp(&pids[i], "sleep", NULL, NULL,
                                 cases_words("sleep 1000"), environment),
                0);
    }
    for (size_t i = 0; i < COUNT; i++) {
        char text[128];

        while (process_read(pids[i], "environ", text, sizeof text) == 0) {
            (void)sched_yield(); /* its program begins */
        }
    }
    killed = procs_kill_marked(mark[0]);
    for (size_t i = 0; i < COUNT; i++) {
        (void)kill(pids[i], SIGTERM);
        assert_int_equal(waitpid(pids[i], &ends[i], 0), pids[i]);
    }
    assert_int_equal(killed, 1);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(WTERMSIG(ends[i]), i == 0 ? SIGKILL : SIGTERM);
    }
}

UNIT_CASES(test_ranks_of_each_starter, "ranks")
{
    struct rank_place rank = rank_read(cases_words(in));

    (void)sprintf(out, "%d of %d, %d of %d", rank.rank, rank.size, rank.local_rank,
            rank.local_size);
}

UNIT_TEST(test_programs_are_told_what_is_known)
{
    static const char *const outer[] = { "HOROVOD_CONTROLLER=mpi", "HOROVOD_RANK=9",
        NULL };
    struct rank_place rank = {
        .rank = 3, .size = 8, .local_rank = 0, .local_size = -1
    };
    struct arguments list = { .items = NULL };

    rank_export(&rank, &list);
    assert_null(list.items);
    (void)words_set(&list, outer);
    rank_export(&rank, &list);
    assert_string_equal(environment_get(list.items, "HOROVOD_RANK"), "3");
    assert_string_equal(environment_get(list.items, "HOROVOD_SIZE"), "8");
    assert_string_equal(environment_get(list.items, "HOROVOD_LOCAL_RANK"), "0");
    assert_null(environment_get(list.items, "HOROVOD_LOCAL_SIZE"));
    assert_null(environment_get(list.items, "RANK"));
    rank.is_own = true;
    rank_export(&rank, &list);
    assert_string_equal(environment_get(list.items, "RANK"), "3");
    assert_string_equal(environment_get(list.items, "LOCAL_RANK"), "0");
    arguments_fini(&list);
}

UNIT_TEST(test_credit_returns_with_time_up_to_a_second)
{
    static const struct {
        int64_t wait;
        int passed;
    } cases[] = {
        { .wait = second / 2, .passed = 5 },
        { .wait = second, .passed = 10 },
        { .wait = 100 * second, .passed = 10 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rate rate;
        int passed = 0;

        rate_init(&rate, 1000, 0);
        assert_true(rate_take(&rate, 1000, 0));
        for (int k = 0; k < 30; k++) {
            passed += rate_take(&rate, 100, cases[i].wait) ? 1 : 0;
        }
        assert_int_equal(passed, cases[i].passed);
    }
}

UNIT_TEST(test_the_last_lines_are_kept)
{
    static struct tail tail;
    char expected[LINK_TAIL_MAX] = "";
    size_t len = 0;

    for (int i = 0; i < 100; i++) {
        char line[32];

        (void)snprintf(line, sizeof line, "line %d\n", i);
        tail_add(&tail, line, strlen(line));
    }
    for (int i = 100 - LINK_TAIL_LINES; i < 100; i++) {
        len += (size_t)snprintf(expected + len, sizeof expected - len, "line %d\n", i);
    }
    assert_int_equal(tail.count, LINK_TAIL_LINES);
    assert_int_equal(tail.len, len);
    assert_memory_equal(tail.text, expected, len);
}

UNIT_TEST(test_of_a_line_that_is_too_long_the_end_is_kept)
{
    static struct tail tail;
    static char line[LINK_TAIL_MAX * 2];

    memset(line, 'x', sizeof line);
    memcpy(line + sizeof line - 4, "end\n", 4);
    tail_add(&tail, line, sizeof line);
    assert_int_equal(tail.len, LINK_TAIL_MAX);
    assert_memory_equal(tail.text + LINK_TAIL_MAX - 4, "end\n", 4);
    tail_add(&tail, "next\n", 5);
    assert_int_equal(tail.len, 5);
}

UNIT_TEST(test_a_full_disk_is_said_once)
{
    struct log_file log;

    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    assert_int_equal(log_file_open(&log, "/dev", "full"), TUTTI_OK);
    assert_int_equal(log_file_write(&log, "a", 1), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/dev/full"));
    assert_int_equal(log_file_write(&log, "a", 1), TUTTI_OK);
}

UNIT_TEST(test_what_cannot_be_made_is_named)
{
    char folder[PATH_MAX];
    struct log_file log;

    assert_int_equal(logs_make_folder("/dev/null/logs", 0, folder), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/dev/null"));
    assert_int_equal(log_file_open(&log, "/dev/null", "stdout"), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/dev/null/stdout"));
    assert_int_equal(log.fd, -1);
}

UNIT_TEST(test_a_line_longer_than_the_limit_passes_alone)
{
    struct rate rate;

    rate_init(&rate, 1000, 0);
    assert_true(rate_take(&rate, 3000, 0));
    assert_false(rate_take(&rate, 1, second));
    assert_true(rate_take(&rate, 1, 3 * second + 1));
}
