/*
 * The report, as text and as JSON, of ranks that ended as supervisors say.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/job/report.h"
#include "test/unit/unit.h"

#define S INT64_C(1000000000)

enum {
    RANKS = 12,
    TEXT_MAX = 8192
};

static void join(struct ranks *ranks, int rank, const char *host)
{
    const struct link_hello hello = { .rank = rank, .host = link_text_of(host) };
    const struct link_started started = {
        .pid = 100 + (uint64_t)rank,
        .binding = link_text_of("cores 0-3"),
        .log = link_text_of("/logs/rank"),
    };

    ranks_join(ranks, &hello);
    ranks_start(ranks, rank, &started);
}

static void end(struct ranks *ranks, int rank, const struct link_exited *exited)
{
    ranks_exit(ranks, rank, exited, 12 * S + rank * S / 10, 0);
}

static void append(void *context, const char *line)
{
    char *text = context;
    size_t len = strlen(text);

    (void)snprintf(text + len, TEXT_MAX - len, "%s\n", line);
}

static const struct link_exited segfault = {
    .ending = LINK_ENDED_SIGNAL,
    .value = 11,
    .tail = { .text = "a\x1b[31m\n\nb\n", .len = 10 },
};
static const struct link_exited failed = { .ending = LINK_ENDED_EXIT, .value = 1 };

/* Rank 3 segfaults, the others exit with 1, but rank 0, which we end. */
static void set_up(struct ranks *ranks)
{
    const struct link_exited stopped = {
        .ending = LINK_ENDED_SIGNAL,
        .value = 15,
        .was_stopped = true,
    };

    assert_int_equal(ranks_init(ranks, RANKS), TUTTI_OK);
    for (int i = 0; i < RANKS; i++) {
        join(ranks, i, i < 6 ? "a" : "b");
    }
    end(ranks, 3, &segfault);
    end(ranks, 3, &failed); /* a second end counts for nothing */
    for (int i = 0; i < RANKS; i++) {
        if (i != 3) {
            end(ranks, i, i == 0 ? &stopped : &failed);
        }
    }
}

UNIT_TEST(test_text)
{
    struct ranks ranks;
    struct cause cause = { .kind = CAUSE_RANK, .rank = 3, .when = 12 * S + 3 * S / 10 };
    const struct report_facts facts = {
        .ranks = &ranks,
        .cause = &cause,
        .has_hosts = true,
    };
    char text[TEXT_MAX] = "";

    set_up(&ranks);
    report_rank(&facts, 3, cause.text);
    report_text(&facts, append, text);
    assert_string_equal(text,
            "rank 1 on host a exited with status 1, 0.2 s before\n"
            "rank 2 on host a exited with status 1, 0.1 s before\n"
            "rank 4 on host a exited with status 1, 0.1 s later\n"
            "rank 5 on host a exited with status 1, 0.2 s later\n"
            "rank 6 on host b exited with status 1, 0.3 s later\n"
            "rank 7 on host b exited with status 1, 0.4 s later\n"
            "rank 8 on host b exited with status 1, 0.5 s later\n"
            "rank 9 on host b exited with status 1, 0.6 s later\n"
            "... and 2 more\n"
            "rank 3 on host a was killed by signal 11 (SIGSEGV), pid 103, 12.3 s after "
            "the start\n"
            "  its last words:\n"
            "  | a?[31m\n"
            "  | \n"
            "  | b\n"
            "  its log: /logs/rank/stderr\n");
    ranks_fini(&ranks);
}

UNIT_TEST(test_json)
{
    struct ranks ranks;
    struct cause cause = { .kind = CAUSE_RANK, .rank = 3, .text = "why" };
    const struct report_facts facts = {
        .ranks = &ranks,
        .cause = &cause,
        .end = 14 * S,
        .exit_status = 139,
    };
    char path[] = "/tmp/test_job_report.XXXXXX";
    int fd = mkstemp(path);
    json_t *report;
    json_t *rank;

    assert_true(fd >= 0);
    (void)close(fd);
    set_up(&ranks);
    assert_int_equal(report_write(&facts, path), TUTTI_OK);
    report = json_load_file(path, 0, NULL);
    (void)unlink(path);
    assert_non_null(report);
    assert_int_equal(json_integer_value(json_object_get(report, "exit_status")), 139);
    assert_int_equal(json_integer_value(
                             json_object_get(json_object_get(report, "cause"), "rank")),
            3);
    assert_int_equal(json_array_size(json_object_get(report, "ranks")), RANKS);
    rank = json_array_get(json_object_get(report, "ranks"), 3);
    assert_string_equal(json_string_value(json_object_get(rank, "end")), "signal");
    assert_int_equal(json_integer_value(json_object_get(rank, "value")), 11);
    assert_int_equal(json_integer_value(json_object_get(rank, "pid")), 103);
    assert_string_equal(json_string_value(json_object_get(rank, "host")), "a");
    assert_string_equal(
            json_string_value(json_object_get(rank, "tail")), "a?[31m\n\nb\n");
    json_decref(report);
    ranks_fini(&ranks);
}

/* Of no ranks, and no cause. */
static tutti_status write_empty(const char *path)
{
    const struct ranks ranks = { .count = 0 };
    const struct cause cause = { .kind = CAUSE_NONE, .rank = -1 };
    const struct report_facts facts = { .ranks = &ranks, .cause = &cause };

    return report_write(&facts, path);
}

UNIT_TEST(test_a_device_is_not_replaced)
{
    char folder[] = "/tmp/test_job_report.XXXXXX";
    char path[64];
    char target[64] = "";

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/link", folder);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(write_empty(path), TUTTI_OK);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    assert_string_equal(target, "/dev/null");
    (void)unlink(path);
    (void)rmdir(folder);
}
