/*
 * Ranks that ask for different things under one name, in the collectives on rows and the
 * rooted ones: all are told what differs, who gave what, and the job goes on.
 */
#include <stdio.h>
#include <string.h>

#include "test/suite/operation.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64
};

/** What a rank asks for; what is zero is as the comments say. */
struct wish {
    tutti_dtype dtype; /* TUTTI_UINT8 stands for int32 */
    tutti_reduce_op op;
    int64_t count; /* 4                            */
    int64_t row_count; /* 2                            */
    double prescale; /* 1                            */
    int root;
    enum operation_form form;
    bool is_shaped;
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
    { "allgather of dtypes", TUTTI_ALLGATHER, { 0 }, { .dtype = TUTTI_UINT32 },
            "dtype differs", "int32", "uint32" },
    { "alltoall of dtypes", TUTTI_ALLTOALL, { 0 }, { .dtype = TUTTI_FLOAT32 },
            "dtype differs", "int32", "float32" },
    { "reducescatter of dtypes", TUTTI_REDUCESCATTER, { 0 }, { .dtype = TUTTI_FLOAT64 },
            "dtype differs", "int32", "float64" },
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
    { "reducescatter of scales", TUTTI_REDUCESCATTER, { .dtype = TUTTI_FLOAT32 },
            { .dtype = TUTTI_FLOAT32, .prescale = 0.5 }, "scale factors differ",
            "prescale 1, postscale 1", "prescale 0.5, postscale 1" },
    { "allgather of forms", TUTTI_ALLGATHER, { 0 }, { .form = FORM_LISTED },
            "form differs", "", "" },
    { "alltoall of forms", TUTTI_ALLTOALL, { .form = FORM_LISTED },
            { .form = FORM_UNKNOWN }, "form differs", "", "" },
    { "reduce of roots", TUTTI_REDUCE, { 0 }, { .root = 1 }, "root differs", "0", "1" },
    { "gather of roots", TUTTI_GATHER, { 0 }, { .root = 1 }, "root differs", "0", "1" },
    { "scatter of roots", TUTTI_SCATTER, { 0 }, { .root = 1 }, "root differs", "0",
            "1" },
};

static struct operation operation_of(
        tutti_collective collective, const struct wish *wish)
{
    return (struct operation){ .collective = collective,
        .pattern = { wish->dtype != TUTTI_UINT8 ? wish->dtype : TUTTI_INT32, wish->op,
                5 },
        .scales = { wish->prescale > 0 ? wish->prescale : 1, 1 },
        .root = wish->root,
        .count = wish->count > 0 ? wish->count : 4,
        .row_count = wish->row_count > 0 ? wish->row_count : 2,
        .form = wish->form,
        .owns_output = wish->form == FORM_UNKNOWN,
        .is_shaped = wish->is_shaped };
}

static void check_side(struct checks *c, int first, int last, const char *value)
{
    char side[128];

    if (first == last) {
        (void)snprintf(side, sizeof side, "rank %d gave %s", first, value);
    } else {
        (void)snprintf(side, sizeof side, "ranks %d-%d gave %s", first, last, value);
    }
    if (!EXPECT(c, strstr(tutti_last_error(), side) != NULL)) {
        (void)fprintf(stderr, "\"%s\" is not in: %s\n", side, tutti_last_error());
    }
}

static void agree(tutti *t, struct checks *c, const struct crew *world,
        const char *name, const struct dissent *d, const struct wish *wish)
{
    const struct operation o = operation_of(d->collective, wish);
    struct flight flight;

    flight_begin(t, c, &flight, &o, world, name);
    flight_end(t, c, &flight);
}

/* The list of messages shall not depend on who is first; the tests may. */
static void wait_if_listed(tutti *t, struct checks *c, bool now)
{
    if (c->list && now) {
        EXPECT_OK(c, tutti_barrier(t, "the last one waits", NULL));
    }
}

static void disagree(tutti *t, struct checks *c, const struct crew *world,
        const char *name, const struct dissent *d)
{
    const bool last = c->rank == c->size - 1;
    const struct operation o = operation_of(d->collective, last ? &d->last : &d->most);
    struct flight flight;

    wait_if_listed(t, c, last);
    flight_begin(t, c, &flight, &o, world, name);
    wait_if_listed(t, c, !last);
    flight_fail(t, c, &flight, TUTTI_ERR_MISMATCH);
    EXPECT(c, strstr(tutti_last_error(), name) != NULL);
    EXPECT(c, strstr(tutti_last_error(), d->difference) != NULL);
    check_side(c, 0, c->size - 2, d->most_value);
    check_side(c, c->size - 1, c->size - 1, d->last_value);
    checks_list(c, 0, d->what, TUTTI_ERR_MISMATCH, tutti_last_error());
}

/* Before the name has a number, and after; and it works in between. */
static void one_dissent(
        tutti *t, struct checks *c, const struct crew *world, const struct dissent *d)
{
    char name[64];

    checks_step(c, d->what);
    (void)snprintf(name, sizeof name, "different %s", d->what);
    disagree(t, c, world, name, d);
    for (int i = 0; i < 3; i++) {
        agree(t, c, world, name, d, &d->most);
    }
    disagree(t, c, world, name, d);
    agree(t, c, world, name, d, &d->last);
}

void suite_row_mismatches(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);

    for (size_t i = 0; i < sizeof dissents / sizeof *dissents && c->size > 1; i++) {
        one_dissent(t, c, &world, &dissents[i]);
    }
}
