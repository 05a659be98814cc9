/*
 * Stalls: when a rank is late, a line says who, and what it has not submitted; the
 * operation completes after all, or fails the context when that was asked for.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    TENSORS = 3
};

struct stall {
    tutti *t;
    int late; /* this rank comes last       */
    int reporter; /* this rank must say so      */
};

static tutti_status begin(tutti *t, int32_t *values, tutti_request *requests)
{
    tutti_status status = TUTTI_OK;
    char name[32];

    for (int i = 0; i < TENSORS && status == TUTTI_OK; i++) {
        values[i] = i + 1;
        (void)snprintf(name, sizeof name, "late %d", i);
        status = tutti_allreduce_async(t, name, &values[i], &values[i], 1, TUTTI_INT32,
                TUTTI_SUM, NULL, &requests[i]);
    }
    return status;
}

/* True when every "rank N" of a line is that one. */
static bool names_only(const char *line, int rank)
{
    const char *at = line;

    while ((at = strstr(at, "rank ")) != NULL) {
        at += strlen("rank ");
        if (strtol(at, NULL, 10) != rank) {
            return false;
        }
    }
    return true;
}

static void check_line(struct checks *c, const struct stall *s, const char *line)
{
    char expected[32];

    (void)snprintf(expected, sizeof expected, "rank %d ", s->late);
    EXPECT(c, strstr(line, "stalled") != NULL);
    EXPECT(c, strstr(line, expected) != NULL);
    EXPECT(c, names_only(line, s->late));
    EXPECT(c, strstr(line, "not submitted") != NULL);
    if (c->list) {
        printf("%-34s %-22s %s\n", "a rank is late", "(log line)", line);
    }
}

/* Others that had no core are late, too: a later report is right. */
static bool is_reported(
        struct checks *c, const struct stall *s, const char *part, char *line)
{
    if (!job_find_line(c, s->reporter, part, line)) {
        return false;
    }
    if (!names_only(line, s->late)) {
        job_clear_log(c);
        return false;
    }
    return true;
}

/*
 * Waits in short steps until every tensor is named: how long is not the point. Tensors that
 * were announced in different turns may be named in different lines.
 */
static void check_lines(struct checks *c, const struct stall *s, tutti_request *request)
{
    char line[LOG_TEXT_MAX];
    char expected[32];

    for (int i = 0; i < TENSORS; i++) {
        (void)snprintf(expected, sizeof expected, "allreduce \"late %d\"", i);
        while (!is_reported(c, s, expected, line)) {
            EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT, tutti_wait(s->t, request, 20000000));
        }
        check_line(c, s, line);
    }
}

static void one_is_late(struct checks *c, const struct stall *s)
{
    tutti_request requests[TENSORS] = { 0 };
    BUFFER_ARRAY(int32_t, values, TENSORS);
    tutti_stats stats = { .size = sizeof stats };

    job_meet(c);
    if (c->rank == s->reporter) {
        job_clear_log(c);
    }
    job_meet(c);
    if (c->rank != s->late) {
        EXPECT_OK(c, begin(s->t, values, requests));
    }
    if (c->rank == s->reporter) {
        check_lines(c, s, &requests[0]);
        EXPECT_OK(c, tutti_stats_get(s->t, &stats));
        EXPECT(c, stats.stalls > 0);
    }
    /* The others' engines are driven by their background threads meanwhile. */
    job_meet(c);
    if (c->rank == s->late) {
        EXPECT_OK(c, begin(s->t, values, requests));
    }
    EXPECT_OK(c, tutti_wait_all(s->t, TENSORS, requests, TUTTI_FOREVER, NULL));
    for (int i = 0; i < TENSORS; i++) {
        EXPECT(c, values[i] == (i + 1) * c->size);
    }
}

/* By name the first times, by number later. */
static void warnings(struct checks *c, const struct setting *settings)
{
    const int last = c->size - 1;
    struct stall s = { .t = job_open(c, settings) };

    for (int round = 0; round < 3; round++) {
        checks_step(c, "the last rank is late");
        s.late = last;
        s.reporter = 0;
        one_is_late(c, &s);
        checks_step(c, "rank 0 is late");
        s.late = 0;
        s.reporter = 1;
        one_is_late(c, &s);
    }
    checks_step(c, "finalize");
    EXPECT_OK(c, tutti_finalize(s.t));
}

static void fails_the_context(struct checks *c)
{
    static const struct setting settings[] = { { "stall_warning_s", "0" },
        { "stall_fail_s", "0.3" }, { "log_level", "error" }, { 0 } };
    tutti *t = job_open(c, settings);
    tutti_request requests[TENSORS] = { 0 };
    BUFFER_ARRAY(int32_t, values, TENSORS);
    const bool late = c->rank == c->size - 1;

    checks_step(c, "a stall fails the context");
    if (!late) {
        tutti_status status = begin(t, values, requests);

        /* One that had no core may find that it has failed already. */
        if (status == TUTTI_OK) {
            status = tutti_wait_all(t, TENSORS, requests, TUTTI_FOREVER, NULL);
        }
        EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, status);
        EXPECT(c, strstr(tutti_last_error(), "\"late ") != NULL);
        EXPECT(c, strstr(tutti_last_error(), "stall_fail_s") != NULL);
    }
    job_meet(c);
    if (late) {
        tutti_status status;

        /* It slept; it hears of it with its next call at the latest. */
        do {
            status = tutti_barrier(t, "after", NULL);
        } while (status == TUTTI_OK);
        EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, status);
        EXPECT(c, strstr(tutti_last_error(), "\"late ") != NULL);
    }
    checks_step(c, "finalize after a stall");
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, tutti_finalize(t));
}

void suite_stall(tutti *t, struct checks *c)
{
    static const struct setting settings[] = { { "stall_warning_s", "0.2" }, { 0 } };
    static const struct setting deep[] = { { "stall_warning_s", "0.2" },
        { "tree_fanout", "2" }, { 0 } };

    (void)t;
    if (c->size == 1) {
        return;
    }
    warnings(c, settings);
    if (c->size == 7) {
        warnings(c, deep);
    }
    fails_the_context(c);
}
