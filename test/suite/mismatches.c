/*
 * Ranks that ask for different things under one name: that work fails on all ranks with
 * the same words, which name the tensor, the ranks on both sides and both values; and
 * the job goes on.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/buffer.h"
#include "test/suite/suite.h"

/** What a rank asks for; zero is an allreduce of four float32, not scaled. */
struct wish {
    bool broadcast;
    int root;
    int64_t count; /* 0: 4                          */
    tutti_dtype dtype; /* TUTTI_UINT8 stands for float32 */
    tutti_reduce_op op;
    double prescale; /* 0: 1                          */
    double postscale; /* likewise                      */
    int ndim;
    int64_t dims[2];
    bool grouped;
    int64_t step; /* 0: none                        */
};

/** Two different wishes, and how the message names the difference and both values. */
struct dissent {
    const char *what;
    struct wish most; /* all ranks but the last */
    struct wish last;
    const char *difference;
    const char *most_value;
    const char *last_value;
};

static const struct dissent dissents[] = {
    { "dtypes", { 0 }, { .dtype = TUTTI_INT32 }, "dtype", "float32", "int32" },
    { "counts", { 0 }, { .count = 3 }, "count", "4", "3" },
    { "shapes", { .ndim = 2, .dims = { 2, 2 } }, { .ndim = 2, .dims = { 4, 1 } },
            "shape", "[2, 2]", "[4, 1]" },
    { "shape and none", { .ndim = 1, .dims = { 4 } }, { 0 }, "shape", "[4]", "none" },
    { "reductions", { 0 }, { .op = TUTTI_AVERAGE }, "reduction", "sum", "average" },
    { "prescales", { .prescale = 0.5 }, { 0 }, "scale factors",
            "prescale 0.5, postscale 1", "prescale 1, postscale 1" },
    { "postscales", { 0 }, { .postscale = 0.25 }, "scale factors",
            "prescale 1, postscale 1", "prescale 1, postscale 0.25" },
    { "roots", { .broadcast = true }, { .broadcast = true, .root = 1 }, "root", "0",
            "1" },
    { "counts of a broadcast", { .broadcast = true }, { .broadcast = true, .count = 1 },
            "count", "4", "1" },
    { "steps", { .step = 3 }, { .step = 4 }, "step", "step 3", "step 4" },
    { "step and none", { .step = 3 }, { 0 }, "step", "step 3", "no step" },
    { "group and none", { 0 }, { .grouped = true }, "group", "none",
            "one of 1 members" },
};

static double factor(double given)
{
    return given > 0 ? given : 1;
}

static tutti_status ask(tutti *t, const char *name, const struct wish *wish,
        float *values, tutti_request *request)
{
    const int64_t count = wish->count > 0 ? wish->count : 4;
    const tutti_dtype dtype = wish->dtype != TUTTI_UINT8 ? wish->dtype : TUTTI_FLOAT32;
    tutti_options options;
    tutti_status status;

    tutti_options_default(&options);
    options.prescale = factor(wish->prescale);
    options.postscale = factor(wish->postscale);
    options.ndim = wish->ndim;
    options.dims = wish->dims;
    options.step = wish->step > 0 ? wish->step : TUTTI_NO_STEP;
    if (wish->broadcast) {
        return tutti_broadcast_async(
                t, name, values, count, dtype, wish->root, &options, request);
    }
    if (wish->grouped && tutti_group_begin(t) != TUTTI_OK) {
        return TUTTI_ERR_INTERNAL;
    }
    status = tutti_allreduce_async(
            t, name, values, values, count, dtype, wish->op, &options, request);
    if (wish->grouped && tutti_group_end(t) != TUTTI_OK) {
        return TUTTI_ERR_INTERNAL;
    }
    return status;
}

static void agree(tutti *t, struct checks *c, const char *name, const struct wish *wish)
{
    BUFFER_ARRAY(float, values, 4);
    tutti_request request = TUTTI_REQUEST_NULL;

    EXPECT_OK(c, ask(t, name, wish, values, &request));
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
}

static void format_side(
        char *text, size_t capacity, int first, int last, const char *value)
{
    if (first == last) {
        (void)snprintf(text, capacity, "rank %d gave %s", first, value);
    } else {
        (void)snprintf(text, capacity, "ranks %d-%d gave %s", first, last, value);
    }
}

/* All differ from the last rank, which must be told apart in the words. */
static void disagree(
        tutti *t, struct checks *c, const char *name, const struct dissent *d)
{
    const bool last = c->rank == c->size - 1;
    BUFFER_ARRAY(float, values, 4);
    tutti_request request = TUTTI_REQUEST_NULL;
    char message[1024];
    char side[128];

    for (int i = 0; i < 4; i++) {
        values[i] = (float)(i + 1);
    }
    /* The list of messages shall not depend on who is first; the tests may. */
    if (c->list && last) {
        EXPECT_OK(c, tutti_barrier(t, "the last one waits", NULL));
    }
    EXPECT_OK(c, ask(t, name, last ? &d->last : &d->most, values, &request));
    if (c->list && !last) {
        EXPECT_OK(c, tutti_barrier(t, "the last one waits", NULL));
    }
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH, tutti_wait(t, &request, TUTTI_FOREVER));
    (void)snprintf(message, sizeof message, "%s", tutti_last_error());
    EXPECT(c, strstr(message, name) != NULL);
    EXPECT(c, strstr(message, d->difference) != NULL);
    format_side(side, sizeof side, 0, c->size - 2, d->most_value);
    if (!EXPECT(c, strstr(message, side) != NULL)) {
        (void)fprintf(stderr, "\"%s\" is not in: %s\n", side, message);
    }
    format_side(side, sizeof side, c->size - 1, c->size - 1, d->last_value);
    if (!EXPECT(c, strstr(message, side) != NULL)) {
        (void)fprintf(stderr, "\"%s\" is not in: %s\n", side, message);
    }
    /* What failed wrote nothing. */
    EXPECT(c, values[0] == 1 && values[1] == 2 && values[2] == 3 && values[3] == 4);
    job_same_text(c, t, "message", message);
    checks_list(c, 0, d->what, TUTTI_ERR_MISMATCH, message);
}

/* Before the name has a number, and after; and it works in between. */
static void one_dissent(tutti *t, struct checks *c, const struct dissent *d)
{
    char name[64];

    checks_step(c, d->what);
    (void)snprintf(name, sizeof name, "different %s", d->what);
    disagree(t, c, name, d);
    for (int i = 0; i < 3; i++) {
        agree(t, c, name, &d->most);
    }
    disagree(t, c, name, d);
    agree(t, c, name, &d->last);
    disagree(t, c, name, d);
    agree(t, c, name, &d->most);
}

/* As many metadata as ranks; other tensors in flight are not touched. */
static void all_differ(tutti *t, struct checks *c)
{
    enum {
        OTHERS = 20
    };
    tutti_request requests[OTHERS + 1];
    tutti_status statuses[OTHERS + 1];
    BUFFER_ARRAY(int32_t, values, OTHERS);
    BUFFER_ARRAY(int32_t, odd, 32);
    char name[32];

    checks_step(c, "everybody differs");
    for (int i = 0; i < OTHERS; i++) {
        if (i == (c->rank * 5) % OTHERS) {
            EXPECT_OK(c,
                    tutti_allreduce_async(t, "own count", odd, odd, c->rank + 1,
                            TUTTI_INT32, TUTTI_SUM, NULL, &requests[OTHERS]));
        }
        values[i] = i;
        (void)snprintf(name, sizeof name, "beside %d", i);
        EXPECT_OK(c,
                tutti_allreduce_async(t, name, &values[i], &values[i], 1, TUTTI_INT32,
                        TUTTI_SUM, NULL, &requests[i]));
    }
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
            tutti_wait_all(t, OTHERS + 1, requests, TUTTI_FOREVER, statuses));
    job_same_text(c, t, "message", tutti_last_error());
    for (int i = 0; i < OTHERS; i++) {
        EXPECT(c, statuses[i] == TUTTI_OK && values[i] == i * c->size);
    }
}

void suite_mismatches(tutti *t, struct checks *c)
{
    tutti_stats stats = { .size = sizeof stats };

    if (c->size == 1) {
        return;
    }
    for (size_t i = 0; i < sizeof dissents / sizeof *dissents; i++) {
        one_dissent(t, c, &dissents[i]);
    }
    all_differ(t, c);
    EXPECT_OK(c, tutti_stats_get(t, &stats));
    EXPECT(c, stats.failed > 0);
}
