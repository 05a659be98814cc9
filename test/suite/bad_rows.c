/*
 * Calls on rows that are refused: each says what is wrong and changes nothing.
 */
#include <stdint.h>
#include <string.h>

#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64,
    ROOM = 8 * RANKS_MAX
};

/** What the calls of this file are given; what is not changed is right. */
struct given {
    int32_t memory[2 * ROOM];
    int32_t *input;
    int32_t *output; /* of `memory` too */
    int64_t rows;
    int64_t row_count;
    int64_t lists[2][RANKS_MAX]; /* two rows for everybody */
    const int64_t *rows_of;
    const int64_t *recv_rows;
    int root;
    tutti_options options;
};

/* Two rows of one element for, or from, everybody. */
static void good(struct given *g, const struct checks *c)
{
    memset(g, 0, sizeof *g);
    g->input = g->memory;
    g->output = g->memory + ROOM;
    g->rows = 2;
    g->row_count = 1;
    for (int i = 0; i < c->size; i++) {
        g->lists[0][i] = 2;
        g->lists[1][i] = 2;
    }
    tutti_options_default(&g->options);
}

/* Where refused calls would put a request. */
static tutti_request unchanged = 77;

static tutti_status allgather(tutti *t, const struct given *g)
{
    return tutti_allgather_async(t, "refused rows", g->input, g->output, g->rows,
            g->row_count, g->rows_of, TUTTI_INT32, &g->options, &unchanged);
}

static tutti_status alltoall(tutti *t, const struct given *g)
{
    return tutti_alltoall_async(t, "refused rows", g->input, g->output, g->rows,
            g->row_count, g->rows_of, g->recv_rows, TUTTI_INT32, &g->options,
            &unchanged);
}

static tutti_status reducescatter(tutti *t, const struct given *g)
{
    return tutti_reducescatter_async(t, "refused rows", g->input, g->output, g->rows,
            g->row_count, g->rows_of, TUTTI_INT32, TUTTI_SUM, &g->options, &unchanged);
}

static tutti_status gather(tutti *t, const struct given *g)
{
    return tutti_gather_async(t, "refused rows", g->input, g->output, g->rows,
            g->row_count, g->rows_of, TUTTI_INT32, g->root, &g->options, &unchanged);
}

static tutti_status scatter(tutti *t, const struct given *g)
{
    return tutti_scatter_async(t, "refused rows", g->input, g->output, g->rows,
            g->row_count, g->rows_of, TUTTI_INT32, g->root, &g->options, &unchanged);
}

static tutti_status reduce(tutti *t, const struct given *g)
{
    return tutti_reduce_async(t, "refused rows", g->input, g->output, g->rows,
            TUTTI_INT32, TUTTI_SUM, g->root, &g->options, &unchanged);
}

static void invalid(struct checks *c, const char *input, tutti_status status)
{
    checks_refused(c, input, TUTTI_ERR_INVALID, status);
}

static void bad_counts(tutti *t, struct checks *c)
{
    struct given g;

    checks_step(c, "counts of rows");
    good(&g, c);
    g.rows = -1;
    invalid(c, "allgather of -1 rows", allgather(t, &g));
    invalid(c, "alltoall of -1 rows", alltoall(t, &g));
    invalid(c, "reducescatter of -1 rows", reducescatter(t, &g));
    invalid(c, "gather of -1 rows", gather(t, &g));
    invalid(c, "scatter of -1 rows", scatter(t, &g));
    invalid(c, "reduce of -1 elements", reduce(t, &g));
    g.rows = INT64_MAX / 2;
    invalid(c, "allgather of more than memory", allgather(t, &g));
    good(&g, c);
    g.rows = INT64_MAX / 4 / 2;
    g.options.ndim = 0;
    invalid(c, "allgather whose sum is more than memory", allgather(t, &g));
    good(&g, c);
    g.row_count = 0;
    invalid(c, "rows of no elements", allgather(t, &g));
    g.row_count = -3;
    invalid(c, "rows of -3 elements", alltoall(t, &g));
}

static void bad_lists(tutti *t, struct checks *c)
{
    struct given g;

    checks_step(c, "lists of rows");
    good(&g, c);
    g.rows_of = g.lists[0];
    g.rows = 3;
    g.lists[0][0] = 2;
    invalid(c, "allgather of other rows than its list says", allgather(t, &g));
    invalid(c, "reducescatter of other rows than its list adds up to",
            reducescatter(t, &g));
    g.recv_rows = g.lists[1];
    invalid(c, "alltoall of other rows than send_rows adds up to", alltoall(t, &g));
    good(&g, c);
    g.rows_of = g.lists[0];
    g.lists[0][c->size - 1] = -4;
    invalid(c, "list with -4", allgather(t, &g));
    good(&g, c);
    g.recv_rows = g.lists[1];
    g.rows = 2 * c->size;
    invalid(c, "alltoall with recv_rows only", alltoall(t, &g));
    good(&g, c);
    g.rows_of = g.lists[0];
    g.rows = 2 * c->size;
    invalid(c, "alltoall with send_rows and an output only", alltoall(t, &g));
    g.recv_rows = g.lists[1];
    g.lists[1][c->rank] = 5;
    invalid(c, "alltoall that sends itself 2 and expects 5", alltoall(t, &g));
    good(&g, c);
    g.root = c->rank;
    g.rows_of = g.lists[0];
    g.rows = 1;
    invalid(c, "gather of other rows than the root's list says", gather(t, &g));
    invalid(c, "scatter of other rows than the root's list says", scatter(t, &g));
    if (c->size > 1) {
        good(&g, c);
        g.rows = 2 * c->size + 1;
        invalid(c, "alltoall of rows that cannot be divided", alltoall(t, &g));
    }
}

static void bad_buffers(tutti *t, struct checks *c)
{
    struct given g;

    checks_step(c, "buffers of rows");
    good(&g, c);
    g.input = NULL;
    invalid(c, "allgather from NULL", allgather(t, &g));
    good(&g, c);
    g.output = NULL;
    g.rows = 2 * c->size;
    invalid(c, "reducescatter into NULL", reducescatter(t, &g));
    g.root = c->rank;
    invalid(c, "reduce into NULL on the root", reduce(t, &g));
    invalid(c, "blocking allgather into NULL",
            tutti_allgather(
                    t, "refused rows", g.input, NULL, 2, 1, NULL, TUTTI_INT32, NULL));
    good(&g, c);
    g.output = g.input + 1;
    invalid(c, "allgather that overlaps by one element", allgather(t, &g));
    g.rows = 2 * c->size;
    invalid(c, "alltoall that overlaps by one element", alltoall(t, &g));
    g.output = g.input + 2 * c->rank + 1;
    invalid(c, "reducescatter that overlaps by one element", reducescatter(t, &g));
    good(&g, c);
    g.output = g.input;
    g.rows = 2 * c->size;
    g.rows_of = g.lists[0];
    g.recv_rows = g.lists[1];
    invalid(c, "alltoall of unequal parts in place", alltoall(t, &g));
}

static void ignore(void *user, tutti_status status, const char *message)
{
    (void)user;
    (void)status;
    (void)message;
}

static void bad_options(tutti *t, struct checks *c)
{
    const int64_t dims[] = { 3, 1 };
    const int64_t other[] = { 1, 2 };
    struct given g;

    checks_step(c, "options of rows");
    good(&g, c);
    g.output = NULL;
    g.options.callback = ignore;
    invalid(c, "callback, and an output that nobody can take", allgather(t, &g));
    good(&g, c);
    g.options.ndim = 2;
    g.options.dims = dims;
    invalid(c, "shape of other rows", allgather(t, &g));
    g.options.dims = other;
    invalid(c, "shape whose first dimension is not the rows", allgather(t, &g));
    good(&g, c);
    g.options.process_set = 123456;
    invalid(c, "rows for an unknown process set", alltoall(t, &g));
}

static void bad_roots(tutti *t, struct checks *c)
{
    struct given g;

    checks_step(c, "roots");
    good(&g, c);
    g.root = -1;
    invalid(c, "reduce to root -1", reduce(t, &g));
    invalid(c, "gather to root -1", gather(t, &g));
    g.root = c->size;
    invalid(c, "reduce to root = size", reduce(t, &g));
    invalid(c, "scatter from root = size", scatter(t, &g));
}

void suite_bad_rows(tutti *t, struct checks *c)
{
    tutti_stats before = { .size = sizeof before };
    tutti_stats after = { .size = sizeof after };
    int32_t value = c->rank;
    int32_t all[RANKS_MAX];

    EXPECT_OK(c, tutti_stats_get(t, &before));
    bad_counts(t, c);
    bad_lists(t, c);
    bad_buffers(t, c);
    bad_options(t, c);
    bad_roots(t, c);
    EXPECT_OK(c, tutti_stats_get(t, &after));
    EXPECT(c, before.submitted == after.submitted && unchanged == 77);
    /* The name that was refused so often works. */
    EXPECT_OK(c,
            tutti_allgather(
                    t, "refused rows", &value, all, 1, 1, NULL, TUTTI_INT32, NULL));
    EXPECT(c, all[c->size - 1] == c->size - 1);
}
