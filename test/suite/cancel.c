/*
 * Cancelling: what is withdrawn ends alike on all ranks, or completes on all; and its name
 * works afterwards.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

static tutti_status begin_sum(
        tutti *t, const char *name, int32_t *value, tutti_request *request)
{
    return tutti_allreduce_async(
            t, name, value, value, 1, TUTTI_INT32, TUTTI_SUM, NULL, request);
}

static void name_works(tutti *t, struct checks *c, const char *name)
{
    for (int i = 0; i < 3; i++) {
        BUFFER_ARRAY(int32_t, value, 1);

        *value = c->rank;
        EXPECT_OK(c,
                tutti_allreduce(
                        t, name, value, value, 1, TUTTI_INT32, TUTTI_SUM, NULL));
        EXPECT(c, *value == c->size * (c->size - 1) / 2);
    }
}

static uint64_t announced(tutti *t, struct checks *c)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(c, tutti_stats_get(t, &stats));
    return stats.announced_by_bit + stats.announced_by_name;
}

/* Submits and waits until the other ranks know of it. */
static void begin_announced(tutti *t, struct checks *c, const char *name,
        int32_t *value, tutti_request *request)
{
    const uint64_t before = announced(t, c);

    EXPECT_OK(c, begin_sum(t, name, value, request));
    while (announced(t, c) == before) {
        (void)sched_yield();
    }
}

/*
 * When a barrier is over, the coordinator has heard whatever a rank asked for before it
 * came to that barrier.
 */
static void fence(tutti *t, struct checks *c)
{
    EXPECT_OK(c, tutti_barrier(t, "fence", NULL));
}

/*
 * Announced and not yet decided, since the last rank has not submitted: when it does, all
 * are told of the cancellation.
 */
static void after_announcement(tutti *t, struct checks *c, int by)
{
    const bool late = c->rank == c->size - 1;
    tutti_request request = TUTTI_REQUEST_NULL;
    BUFFER_ARRAY(int32_t, value, 1);

    *value = 5;
    if (!late) {
        begin_announced(t, c, "cancelled", value, &request);
    }
    if (c->rank == by) {
        EXPECT_OK(c, tutti_cancel(t, request));
    }
    fence(t, c);
    if (!late) {
        EXPECT_STATUS(c, TUTTI_AGAIN, tutti_test(t, &request));
    }
    job_meet(c);
    if (late) {
        EXPECT_OK(c, begin_sum(t, "cancelled", value, &request));
    }
    EXPECT_STATUS(c, TUTTI_ERR_CANCELLED, tutti_wait(t, &request, TUTTI_FOREVER));
    checks_list(c, by == 0 ? 0 : -1, "cancelled after its announcement",
            TUTTI_ERR_CANCELLED, tutti_last_error());
    job_same_text(c, t, "message", tutti_last_error());
    EXPECT(c, *value == 5);
}

/* Everybody must see the same end. */
static void race(tutti *t, struct checks *c, tutti_request request,
        const int32_t *value, bool cancels)
{
    int32_t outcome[2];
    tutti_status status;

    if (cancels && request != TUTTI_REQUEST_NULL) {
        status = tutti_cancel(t, request);
        EXPECT(c, status == TUTTI_OK || status == TUTTI_ERR_INVALID);
    }
    status = request != TUTTI_REQUEST_NULL ? tutti_wait(t, &request, TUTTI_FOREVER)
                                           : TUTTI_OK;
    EXPECT(c, status == TUTTI_OK || status == TUTTI_ERR_CANCELLED);
    outcome[0] = (int32_t)status;
    outcome[1] = -(int32_t)status;
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "outcome", outcome, outcome, 2, TUTTI_INT32, TUTTI_MAX, NULL));
    EXPECT(c, outcome[0] == (int32_t)status && outcome[1] == -(int32_t)status);
    EXPECT(c, *value == (status == TUTTI_OK ? c->size : 1));
}

/* The rank that cancels may be early or late. */
static void while_it_runs(tutti *t, struct checks *c)
{
    char name[32];

    for (int i = 0; i < 40; i++) {
        tutti_request request = TUTTI_REQUEST_NULL;
        BUFFER_ARRAY(int32_t, value, 1);

        *value = 1;
        (void)snprintf(name, sizeof name, "race %d", i % 4);
        begin_announced(t, c, name, value, &request);
        race(t, c, request, value, c->rank == i % c->size);
    }
}

/*
 * Steps that are alike, and now and then somebody cancels. Nobody
 * else drives the engine, so a wait however short takes in what was submitted.
 */
static void in_a_step(tutti *t, struct checks *c)
{
    for (int i = 0; i < 60; i++) {
        const bool cancels = i % 6 == 5 && c->rank == i % c->size;
        tutti_request request = TUTTI_REQUEST_NULL;
        BUFFER_ARRAY(int32_t, value, 1);

        *value = 1;
        EXPECT_OK(c, begin_sum(t, "race in a step", value, &request));
        if (cancels && tutti_test(t, &request) == TUTTI_OK) {
            request = TUTTI_REQUEST_NULL;
        }
        race(t, c, request, value, cancels);
    }
    EXPECT_OK(c, tutti_finalize(t));
}

/* Where it was not announced yet it ends at once, and counts as never submitted. */
static void at_once(tutti *t, struct checks *c)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    BUFFER_ARRAY(int32_t, value, 1);
    tutti_status status = TUTTI_OK;

    *value = 1;
    if (c->rank == 0) {
        EXPECT_OK(c, begin_sum(t, "at once", value, &request));
        status = tutti_cancel(t, request);
        /* A rank on its own may have finished by now. */
        EXPECT(c,
                status == TUTTI_OK ||
                        (c->size == 1 && status == TUTTI_ERR_INVALID &&
                                strstr(tutti_last_error(), "finished") != NULL));
    }
    fence(t, c);
    if (c->rank == 0) {
        status = tutti_test(t, &request);
        EXPECT(c,
                status == TUTTI_ERR_CANCELLED || c->size == 1 || status == TUTTI_AGAIN);
    }
    /* Before that look nobody else may submit: all would be told of the cancellation. */
    job_meet(c);
    if (c->rank > 0 || (status == TUTTI_ERR_CANCELLED && c->size > 1)) {
        EXPECT_OK(c, begin_sum(t, "at once", value, &request));
    }
    status = tutti_wait(t, &request, TUTTI_FOREVER);
    EXPECT(c, status == TUTTI_OK || status == TUTTI_ERR_CANCELLED);
    EXPECT(c, c->size == 1 || *value == (status == TUTTI_OK ? c->size : 1));
}

/* A cancelled member takes its group along, on all ranks, announced or not. */
static void group_member(tutti *t, struct checks *c, bool is_announced)
{
    static const char *const names[] = { "of a group 0", "of a group 1",
        "of a group 2" };
    const bool late = c->rank == c->size - 1;
    const uint64_t before = announced(t, c);
    tutti_request requests[3] = { 0 };
    tutti_status statuses[3] = { 0 };
    BUFFER_ARRAY(int32_t, values, 3);

    for (int i = 0; i < 3; i++) {
        values[i] = 1;
    }
    if (late) {
        fence(t, c);
    }
    EXPECT_OK(c, tutti_group_begin(t));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(c, begin_sum(t, names[i], &values[i], &requests[i]));
    }
    EXPECT_OK(c, tutti_group_end(t));
    while (c->rank == 0 && is_announced && announced(t, c) == before) {
        (void)sched_yield();
    }
    if (c->rank == 0) {
        EXPECT_OK(c, tutti_cancel(t, requests[1]));
    }
    if (!late) {
        fence(t, c);
    }
    EXPECT_STATUS(c, TUTTI_ERR_CANCELLED,
            tutti_wait_all(t, 3, requests, TUTTI_FOREVER, statuses));
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(c, TUTTI_ERR_CANCELLED, statuses[i]);
        EXPECT(c, values[i] == 1);
    }
    for (int i = 0; i < 3; i++) {
        name_works(t, c, names[i]);
    }
}

static void in_any_order(tutti *t, struct checks *c)
{
    checks_step(c, "at once");
    at_once(t, c);
    name_works(t, c, "at once");
    checks_step(c, "while it runs");
    while_it_runs(t, c);
    for (int i = 0; i < 4 && c->size > 1; i++) {
        checks_step(c, "after its announcement");
        after_announcement(t, c, i % (c->size - 1));
        name_works(t, c, "cancelled");
    }
    for (int i = 0; i < 4 && c->size > 1; i++) {
        checks_step(c, "member of a group");
        group_member(t, c, i % 2 == 0);
    }
    checks_step(c, "finalize");
    EXPECT_OK(c, tutti_finalize(t));
}

void suite_cancel(tutti *t, struct checks *c)
{
    static const struct setting alone[] = { { "background_thread", "off" }, { 0 } };

    (void)t;
    checks_step(c, "in a step");
    in_a_step(job_open(c, alone), c);
    in_any_order(job_open(c, NULL), c);
}
