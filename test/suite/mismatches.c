/*
 * Ranks that ask for different things under one name: that work fails on all ranks with
 * the same words, which name the tensor, the ranks on both sides and both values; and
 * the job goes on.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64
};

/** What a rank asks for; what is zero is as the comments say. */
struct wish {
    tutti_dtype dtype; /* TUTTI_UINT8 stands for float32 */
    tutti_reduce_op op;
    int64_t count; /* 4                                  */
    int64_t row_count; /* 2                              */
    double prescale; /* 1                                */
    double postscale; /* 1                               */
    int root;
    enum operation_form form;
    bool is_shaped;
    bool is_grouped;
    int64_t step; /* none                                */
};

/** What all ranks but the last ask for, what the last one asks for, and the words. */
struct dissent {
    const char *what;
    tutti_collective collective;
    struct wish most;
    struct wish last;
    const char *difference;
    const char *most_value;
    const char *last_value;
};

static const struct dissent dissents[] = {
    { "dtypes", TUTTI_ALLREDUCE, { 0 }, { .dtype = TUTTI_INT32 }, "dtype differs",
            "float32", "int32" },
    { "counts", TUTTI_ALLREDUCE, { 0 }, { .count = 3 }, "count differs", "4", "3" },
    { "shapes", TUTTI_ALLREDUCE, { .is_shaped = true },
            { .is_shaped = true, .row_count = 1 }, "shape differs", "[2, 2]",
            "[4, 1]" },
    { "shape and none", TUTTI_ALLREDUCE, { .is_shaped = true }, { 0 }, "shape differs",
            "[2, 2]", "none" },
    { "reductions", TUTTI_ALLREDUCE, { 0 }, { .op = TUTTI_AVERAGE },
            "reduction differs", "sum", "average" },
    { "prescales", TUTTI_ALLREDUCE, { .prescale = 0.5 }, { 0 }, "scale factors differ",
            "prescale 0.5, postscale 1", "prescale 1, postscale 1" },
    { "postscales", TUTTI_ALLREDUCE, { 0 }, { .postscale = 0.25 },
            "scale factors differ", "prescale 1, postscale 1",
            "prescale 1, postscale 0.25" },
    { "steps", TUTTI_ALLREDUCE, { .step = 3 }, { .step = 4 }, "step differs", "step 3",
            "step 4" },
    { "step and none", TUTTI_ALLREDUCE, { .step = 3 }, { 0 }, "step differs", "step 3",
            "no step" },
    { "group and none", TUTTI_ALLREDUCE, { 0 }, { .is_grouped = true }, "group differs",
            "none", "one of 1 members" },
    { "broadcast of counts", TUTTI_BROADCAST, { 0 }, { .count = 1 }, "count differs",
            "4", "1" },
    { "broadcast of roots", TUTTI_BROADCAST, { 0 }, { .root = 1 }, "root differs", "0",
            "1" },
    { "allgather of dtypes", TUTTI_ALLGATHER, { 0 }, { .dtype = TUTTI_UINT32 },
            "dtype differs", "float32", "uint32" },
    { "alltoall of dtypes", TUTTI_ALLTOALL, { 0 }, { .dtype = TUTTI_INT32 },
            "dtype differs", "float32", "int32" },
    { "reducescatter of dtypes", TUTTI_REDUCESCATTER, { 0 }, { .dtype = TUTTI_FLOAT64 },
            "dtype differs", "float32", "float64" },
    { "allgather of rows", TUTTI_ALLGATHER, { 0 }, { .count = 5 }, "rows differ", "4",
            "5" },
    { "reducescatter of rows", TUTTI_REDUCESCATTER, { 0 }, { .count = 5 },
            "rows differ", "4", "5" },
    { "allgather of lengths", TUTTI_ALLGATHER, { 0 }, { .row_count = 3 },
            "row_count differs", "2", "3" },
    { "alltoall of lengths", TUTTI_ALLTOALL, { 0 }, { .row_count = 3 },
            "row_count differs", "2", "3" },
    { "allgather of shapes", TUTTI_ALLGATHER,
            { .form = FORM_UNKNOWN, .is_shaped = true },
            { .form = FORM_UNKNOWN, .is_shaped = true, .row_count = 3 },
            "shape differs", "[*, 2]", "[*, 3]" },
    { "reducescatter of reductions", TUTTI_REDUCESCATTER, { 0 }, { .op = TUTTI_MAX },
            "reduction differs", "sum", "max" },
    { "reducescatter of scales", TUTTI_REDUCESCATTER, { 0 }, { .prescale = 0.5 },
            "scale factors differ", "prescale 1, postscale 1",
            "prescale 0.5, postscale 1" },
    { "allgather of forms", TUTTI_ALLGATHER, { 0 }, { .form = FORM_LISTED },
            "form differs", "", "" },
    { "alltoall of forms", TUTTI_ALLTOALL, { .form = FORM_LISTED },
            { .form = FORM_UNKNOWN }, "form differs", "", "" },
    { "reduce of roots", TUTTI_REDUCE, { 0 }, { .root = 1 }, "root differs", "0", "1" },
    { "gather of roots", TUTTI_GATHER, { 0 }, { .root = 1 }, "root differs", "0", "1" },
    { "scatter of roots", TUTTI_SCATTER, { 0 }, { .root = 1 }, "root differs", "0",
            "1" },
};

/** A dissent and who has it. */
struct dispute {
    const struct dissent *dissent;
    struct crew world;
    char name[64];
};

static struct operation operation_of(
        tutti_collective collective, const struct wish *wish)
{
    return (struct operation){ .collective = collective,
        .pattern = { wish->dtype != TUTTI_UINT8 ? wish->dtype : TUTTI_FLOAT32, wish->op,
                5 },
        .scales = { wish->prescale > 0 ? wish->prescale : 1,
                wish->postscale > 0 ? wish->postscale : 1 },
        .root = wish->root,
        .count = wish->count > 0 ? wish->count : 4,
        .row_count = wish->row_count > 0 ? wish->row_count : 2,
        .form = wish->form,
        .owns_output = wish->form == FORM_UNKNOWN,
        .is_shaped = wish->is_shaped,
        .step = wish->step };
}

static void ask(tutti *t, struct checks *c, const struct dispute *d,
        const struct wish *wish, struct flight *flight, const struct operation *o)
{
    if (wish->is_grouped) {
        EXPECT_OK(c, tutti_group_begin(t));
    }
    flight_begin(t, c, flight, o, &d->world, d->name);
    if (wish->is_grouped) {
        EXPECT_OK(c, tutti_group_end(t));
    }
}

static void agree(
        tutti *t, struct checks *c, const struct dispute *d, const struct wish *wish)
{
    const struct operation o = operation_of(d->dissent->collective, wish);
    struct flight flight;

    ask(t, c, d, wish, &flight, &o);
    flight_end(t, c, &flight);
}

static void check_side(
        struct checks *c, const char *message, int first, int last, const char *value)
{
    char side[128];

    if (first == last) {
        (void)snprintf(side, sizeof side, "rank %d gave %s", first, value);
    } else {
        (void)snprintf(side, sizeof side, "ranks %d-%d gave %s", first, last, value);
    }
    if (!EXPECT(c, strstr(message, side) != NULL)) {
        (void)fprintf(stderr, "\"%s\" is not in: %s\n", side, message);
    }
}

/* The list of messages shall not depend on who is first; the tests may. */
static void wait_if_listed(tutti *t, struct checks *c, bool now)
{
    if (c->list && now) {
        EXPECT_OK(c, tutti_barrier(t, "the last one waits", NULL));
    }
}

static void disagree(tutti *t, struct checks *c, const struct dispute *d)
{
    const struct dissent *dissent = d->dissent;
    const bool last = c->rank == c->size - 1;
    const struct wish *wish = last ? &dissent->last : &dissent->most;
    const struct operation o = operation_of(dissent->collective, wish);
    struct flight flight;
    char message[1024];

    wait_if_listed(t, c, last);
    ask(t, c, d, wish, &flight, &o);
    wait_if_listed(t, c, !last);
    flight_fail(t, c, &flight, TUTTI_ERR_MISMATCH);
    (void)snprintf(message, sizeof message, "%s", tutti_last_error());
    EXPECT(c, strstr(message, d->name) != NULL);
    EXPECT(c, strstr(message, dissent->difference) != NULL);
    check_side(c, message, 0, c->size - 2, dissent->most_value);
    check_side(c, message, c->size - 1, c->size - 1, dissent->last_value);
    job_same_text(c, t, "message", message);
    checks_list(c, 0, dissent->what, TUTTI_ERR_MISMATCH, message);
}

/* Before the name has a number, and after; and it works in between. */
static void one_dissent(tutti *t, struct checks *c, const struct dissent *dissent)
{
    int ranks[RANKS_MAX];
    struct dispute d = { .dissent = dissent, .world = crew_of_world(c, ranks) };

    checks_step(c, dissent->what);
    (void)snprintf(d.name, sizeof d.name, "different %s", dissent->what);
    disagree(t, c, &d);
    for (int i = 0; i < 3; i++) {
        agree(t, c, &d, &dissent->most);
    }
    disagree(t, c, &d);
    agree(t, c, &d, &dissent->last);
    disagree(t, c, &d);
    agree(t, c, &d, &dissent->most);
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
