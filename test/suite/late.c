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

/* The last call was refused so, in these words. */
static void refused(
        struct checks *c, tutti_status want, const char *words, tutti_status got)
{
    EXPECT_STATUS(c, want, got);
    if (!EXPECT(c, strstr(tutti_last_error(), words) != NULL)) {
        (void)fprintf(stderr, "(not \"%s\": %s)\n", words, tutti_last_error());
    }
}

static tutti_status sum_in_set(struct gone *g)
{
    return tutti_allreduce_async(g->t, "once", &g->value, &g->value, 1, TUTTI_INT64,
            TUTTI_SUM, &g->in_set, &(tutti_request){ 0 });
}

static tutti_status submit(struct gone *g, tutti_tensor tensor)
{
    return tutti_submit(g->t, tensor, &g->value, &g->value, TUTTI_NO_STEP, NULL, NULL,
            &(tutti_request){ 0 });
}

static void of_the_set(struct gone *g, struct checks *c)
{
    const tutti_status invalid = TUTTI_ERR_INVALID;
    const tutti_tensor_desc desc = { .size = sizeof desc,
        .name = "once",
        .collective = TUTTI_BARRIER,
        .options = &g->in_set };
    const tutti_process_set set = g->in_set.process_set;
    int ranks[RANKS_MAX];

    refused(c, invalid, "no process set", sum_in_set(g));
    refused(c, invalid, "no process set",
            tutti_join_async(g->t, &g->in_set, NULL, &(tutti_request){ 0 }));
    EXPECT_OK(c, tutti_group_begin(g->t));
    EXPECT_STATUS(c, invalid, sum_in_set(g));
    refused(c, invalid, "no process set", tutti_group_end(g->t));
    refused(c, invalid, "process set",
            tutti_tensor_register(g->t, &desc, &(tutti_tensor){ 0 }));
    refused(c, invalid, "no registered tensor", submit(g, g->of_set));
    refused(c, invalid, "no registered tensor", submit(g, g->unregistered));
    refused(c, invalid, "no registered tensor",
            tutti_tensor_unregister(g->t, g->of_set));
    refused(c, invalid, "does not exist", tutti_process_set_destroy(g->t, set));
    refused(c, invalid, "does not exist",
            tutti_process_set_info(g->t, set, NULL, NULL));
    refused(c, invalid, "does not exist",
            tutti_process_set_ranks(g->t, set, ranks, RANKS_MAX));
}

static void of_requests(struct gone *g, struct checks *c)
{
    const tutti_status invalid = TUTTI_ERR_INVALID;
    tutti_request consumed = g->consumed;
    void *output;

    refused(c, invalid, "no request", tutti_wait(g->t, &consumed, TUTTI_FOREVER));
    refused(c, invalid, "no request", tutti_wait_all(g->t, 1, &consumed, 0, NULL));
    refused(c, invalid, "no request", tutti_wait_stream(g->t, &consumed, NULL, 0));
    refused(c, invalid, "no request", tutti_test(g->t, &consumed));
    refused(c, invalid, "no request",
            tutti_request_take_output(g->t, &consumed, &output, NULL, TUTTI_FOREVER));
    refused(c, invalid, "no request", tutti_cancel(g->t, consumed));
    refused(c, invalid, "has finished", tutti_cancel(g->t, g->lent));
    refused(c, invalid, "nothing to take",
            tutti_request_take_output(g->t, &g->lent, &output, NULL, TUTTI_FOREVER));
    if (c->size > 1) { /* else there is nobody to differ from */
        refused(c, TUTTI_ERR_MISMATCH, "\"fails\"",
                tutti_wait(g->t, &g->failed, TUTTI_FOREVER));
    }
}

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
    of_the_set(&g, c);
    of_requests(&g, c);
    take_owned(&g, c);
    EXPECT_OK(c, tutti_finalize(g.t));
}
