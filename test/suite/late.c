/*
 * Refusals that come late: of requests, tensors and sets that are gone, when their names
 * are forgotten as well. Each says why, in words of its own; AddressSanitizer looks on.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

enum {
    NAMES = 1100, /* more than a set remembers */
    WAVE = 100,
    RANKS_MAX = 64
};

/** What there was once. */
struct gone {
    tutti *t;
    tutti_options in_set; /* its process set is destroyed                          */
    tutti_tensor of_set; /* registered there                                      */
    tutti_tensor unregistered;
    tutti_request consumed;
    tutti_request failed; /* not consumed; its set is destroyed                    */
    tutti_request lent; /* done and not consumed, likewise                       */
    tutti_request owned; /* likewise, with an output                              */
    int64_t value;
};

static tutti_status sum_in_set(struct gone *g)
{
    return tutti_allreduce_async(g->t, "once", &g->value, &g->value, 1, TUTTI_INT64,
            TUTTI_SUM, &g->in_set, &(tutti_request){ 0 });
}

static tutti_status join_set(struct gone *g)
{
    return tutti_join_async(g->t, &g->in_set, NULL, &(tutti_request){ 0 });
}

static tutti_status member_of_set(struct gone *g)
{
    tutti_status status = tutti_group_begin(g->t);

    if (status == TUTTI_OK) {
        (void)!sum_in_set(g);
        status = tutti_group_end(g->t);
    }
    return status;
}

static tutti_status register_in_set(struct gone *g)
{
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "once",
        .collective = TUTTI_BARRIER,
        .options = &g->in_set };

    return tutti_tensor_register(g->t, &desc, &(tutti_tensor){ 0 });
}

static tutti_status submit_of_set(struct gone *g)
{
    return tutti_submit(g->t, g->of_set, &g->value, &g->value, TUTTI_NO_STEP, NULL,
            NULL, &(tutti_request){ 0 });
}

static tutti_status submit_unregistered(struct gone *g)
{
    return tutti_submit(g->t, g->unregistered, &g->value, &g->value, TUTTI_NO_STEP,
            NULL, NULL, &(tutti_request){ 0 });
}

static tutti_status unregister_of_set(struct gone *g)
{
    return tutti_tensor_unregister(g->t, g->of_set);
}

static tutti_status destroy_again(struct gone *g)
{
    return tutti_process_set_destroy(g->t, g->in_set.process_set);
}

static tutti_status info_of_set(struct gone *g)
{
    return tutti_process_set_info(g->t, g->in_set.process_set, NULL, NULL);
}

static tutti_status ranks_of_set(struct gone *g)
{
    int ranks[RANKS_MAX];

    return tutti_process_set_ranks(g->t, g->in_set.process_set, ranks, RANKS_MAX);
}

static tutti_status wait_consumed(struct gone *g)
{
    return tutti_wait(g->t, &(tutti_request){ g->consumed }, TUTTI_FOREVER);
}

static tutti_status wait_all_consumed(struct gone *g)
{
    return tutti_wait_all(g->t, 1, &(tutti_request){ g->consumed }, 0, NULL);
}

static tutti_status wait_stream_consumed(struct gone *g)
{
    return tutti_wait_stream(g->t, &(tutti_request){ g->consumed }, NULL, 0);
}

static tutti_status test_consumed(struct gone *g)
{
    return tutti_test(g->t, &(tutti_request){ g->consumed });
}

static tutti_status take_consumed(struct gone *g)
{
    void *output;

    return tutti_request_take_output(
            g->t, &(tutti_request){ g->consumed }, &output, NULL, TUTTI_FOREVER);
}

static tutti_status cancel_consumed(struct gone *g)
{
    return tutti_cancel(g->t, g->consumed);
}

static tutti_status cancel_done(struct gone *g)
{
    return tutti_cancel(g->t, g->lent);
}

static tutti_status take_lent(struct gone *g)
{
    void *output;

    return tutti_request_take_output(g->t, &g->lent, &output, NULL, TUTTI_FOREVER);
}

static tutti_status wait_failed(struct gone *g)
{
    return tutti_wait(g->t, &g->failed, TUTTI_FOREVER);
}

static const struct refusal {
    tutti_status (*call)(struct gone *g);
    tutti_status want;
    const char *words;
} refusals[] = {
    { sum_in_set, TUTTI_ERR_INVALID, "no process set" },
    { join_set, TUTTI_ERR_INVALID, "no process set" },
    { member_of_set, TUTTI_ERR_INVALID, "no process set" },
    { register_in_set, TUTTI_ERR_INVALID, "process set" },
    { submit_of_set, TUTTI_ERR_INVALID, "no registered tensor" },
    { submit_unregistered, TUTTI_ERR_INVALID, "no registered tensor" },
    { unregister_of_set, TUTTI_ERR_INVALID, "no registered tensor" },
    { destroy_again, TUTTI_ERR_INVALID, "does not exist" },
    { info_of_set, TUTTI_ERR_INVALID, "does not exist" },
    { ranks_of_set, TUTTI_ERR_INVALID, "does not exist" },
    { wait_consumed, TUTTI_ERR_INVALID, "no request" },
    { wait_all_consumed, TUTTI_ERR_INVALID, "no request" },
    { wait_stream_consumed, TUTTI_ERR_INVALID, "no request" },
    { test_consumed, TUTTI_ERR_INVALID, "no request" },
    { take_consumed, TUTTI_ERR_INVALID, "no request" },
    { cancel_consumed, TUTTI_ERR_INVALID, "no request" },
    { cancel_done, TUTTI_ERR_INVALID, "has finished" },
    { take_lent, TUTTI_ERR_INVALID, "nothing to take" },
    { wait_failed, TUTTI_ERR_MISMATCH, "\"fails\"" },
};

static tutti_status begin(
        struct gone *g, const char *name, int64_t count, tutti_request *request)
{
    return tutti_allreduce_async(g->t, name, &g->value, &g->value, count, TUTTI_INT64,
            TUTTI_SUM, &g->in_set, request);
}

/* Everything of the set is over, and it is destroyed. */
static void use_set(struct gone *g, struct checks *c)
{
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "of the set",
        .collective = TUTTI_BARRIER,
        .options = &g->in_set };
    int ranks[RANKS_MAX];

    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    EXPECT_OK(
            c, tutti_process_set_create(g->t, ranks, c->size, &g->in_set.process_set));
    EXPECT_OK(c, tutti_tensor_register(g->t, &desc, &g->of_set));
    EXPECT_OK(c,
            tutti_tensor_register(g->t,
                    &(tutti_tensor_desc){ .size = sizeof desc,
                            .name = "unregistered",
                            .collective = TUTTI_BARRIER },
                    &g->unregistered));
    EXPECT_OK(c, tutti_tensor_unregister(g->t, g->unregistered));
    EXPECT_OK(c, begin(g, "fails", c->rank == 0 ? 0 : 1, &g->failed));
    EXPECT_OK(c, begin(g, "lent", 0, &g->lent));
    EXPECT_OK(c,
            tutti_allgather_async(g->t, "owned", &c->rank, NULL, 1, 1, NULL,
                    TUTTI_INT32, &g->in_set, &g->owned));
    EXPECT_OK(c, begin(g, "consumed", 0, &g->consumed));
    EXPECT_OK(c, tutti_wait(g->t, &(tutti_request){ g->consumed }, TUTTI_FOREVER));
}

/* Until nothing of it is in flight: only then may it be destroyed. */
static void destroy_set(struct gone *g, struct checks *c)
{
    tutti_status status;

    do {
        (void)sched_yield();
        status = tutti_process_set_destroy(g->t, g->in_set.process_set);
    } while (status == TUTTI_ERR_DUPLICATE);
    EXPECT_OK(c, status);
}

static void forget_names(struct gone *g, struct checks *c)
{
    char name[32];

    for (int i = 0; i < NAMES; i += WAVE) {
        tutti_request requests[WAVE];

        for (int k = 0; k < WAVE; k++) {
            (void)snprintf(name, sizeof name, "other %d", i + k);
            EXPECT_OK(c, tutti_barrier_async(g->t, name, NULL, &requests[k]));
        }
        EXPECT_OK(c, tutti_wait_all(g->t, WAVE, requests, TUTTI_FOREVER, NULL));
    }
}

/* The rows that came are known without the set. */
static void take_owned(struct gone *g, struct checks *c)
{
    int64_t rows_of[RANKS_MAX];
    void *output = NULL;

    EXPECT_OK(c,
            tutti_request_take_output(
                    g->t, &g->owned, &output, rows_of, TUTTI_FOREVER));
    for (int i = 0; i < c->size && output != NULL; i++) {
        EXPECT(c, ((const int32_t *)output)[i] == i && rows_of[i] == 1);
    }
    EXPECT_OK(c, tutti_free(g->t, output));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_free(g->t, output));
    EXPECT(c, strstr(tutti_last_error(), "no memory of") != NULL);
}

void suite_late(tutti *t, struct checks *c)
{
    static const struct setting settings[] = { { "cache_capacity", "0" }, { 0 } };
    struct gone g = { .t = job_open(c, settings) };

    (void)t;
    checks_step(c, "what goes");
    tutti_options_default(&g.in_set);
    use_set(&g, c);
    destroy_set(&g, c);
    forget_names(&g, c);
    checks_step(c, "refusals");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (refusals[i].call == wait_failed && c->size == 1) {
            continue; /* there is nobody to differ from */
        }
        EXPECT_STATUS(c, refusals[i].want, refusals[i].call(&g));
        if (!EXPECT(c, strstr(tutti_last_error(), refusals[i].words) != NULL)) {
            (void)fprintf(stderr, "(not \"%s\": %s)\n", refusals[i].words,
                    tutti_last_error());
        }
    }
    take_owned(&g, c);
    EXPECT_OK(c, tutti_finalize(g.t));
}
