/*
 * Collectives on rows: parts of every size, sizes that change, places in place, outputs
 * that the request owns, and what is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/suite/flight.h"
#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64
};

static const tutti_collective on_rows[] = { TUTTI_ALLGATHER, TUTTI_REDUCESCATTER,
    TUTTI_ALLTOALL, TUTTI_GATHER, TUTTI_SCATTER };

#define ON_ROWS_COUNT (sizeof on_rows / sizeof *on_rows)

static struct operation operation_of(
        tutti_collective collective, enum operation_form form, int64_t count)
{
    return (struct operation){ .collective = collective,
        .pattern = { TUTTI_INT32, TUTTI_SUM, 1 },
        .scales = { 1, 1 },
        .count = count,
        .row_count = 3,
        .form = form,
        .owns_output = form == FORM_UNKNOWN && collective != TUTTI_REDUCESCATTER };
}

static void run(tutti *t, struct checks *c, const struct operation *o, const char *name)
{
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);
    struct flight flight;

    flight_begin(t, c, &flight, o, &world, name);
    flight_end(t, c, &flight);
}

/* Nobody has anything: that is over as soon as all have said so, and outputs are not NULL. */
static void nothing_at_all(tutti *t, struct checks *c)
{
    checks_step(c, "nothing at all");
    for (size_t i = 0; i < ON_ROWS_COUNT; i++) {
        for (int form = FORM_EQUAL; form <= FORM_UNKNOWN; form++) {
            const struct operation o =
                    operation_of(on_rows[i], (enum operation_form)form, 0);

            run(t, c, &o, "nothing");
        }
    }
}

/* One rank gives everything, or all but one. */
static void one_rank_is_empty(tutti *t, struct checks *c)
{
    const int64_t most[] = { 5, 0 };

    checks_step(c, "one rank is empty, or full");
    for (int i = 0; i < 2 * c->size; i++) {
        const bool odd = c->rank == i / 2;
        const int64_t mine = most[(i % 2 == 0) == odd];
        int64_t rows_of[RANKS_MAX];
        int16_t own[5];
        int16_t *all = NULL;
        int64_t total = 0;
        tutti_request request = TUTTI_REQUEST_NULL;

        for (int k = 0; k < 5; k++) {
            own[k] = (int16_t)(10 * c->rank + k);
        }
        EXPECT_OK(c,
                tutti_allgather_async(t, "mostly empty", mine == 0 ? NULL : own, NULL,
                        mine, 1, NULL, TUTTI_INT16, NULL, &request));
        EXPECT_OK(c,
                tutti_request_take_output(
                        t, &request, (void **)&all, rows_of, TUTTI_FOREVER));
        for (int r = 0; r < c->size && all != NULL; r++) {
            const int64_t rows = most[(i % 2 == 0) == (r == i / 2)];

            EXPECT(c, rows_of[r] == rows);
            EXPECT(c, rows == 0 || all[total] == 10 * r);
            total += rows;
        }
        EXPECT_OK(c, tutti_free(t, all));
    }
}

/* A tensor without dimensions is one row of one element. */
static void scalars(tutti *t, struct checks *c)
{
    checks_step(c, "scalars");
    for (size_t i = 0; i < ON_ROWS_COUNT; i++) {
        struct operation o = operation_of(on_rows[i], FORM_EQUAL, 1);

        o.row_count = 1;
        o.count = on_rows[i] == TUTTI_REDUCESCATTER ? c->size : 1;
        o.in_place = true;
        run(t, c, &o, "scalar");
    }
}

static uint64_t names_announced(tutti *t, struct checks *c)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(c, tutti_stats_get(t, &stats));
    return stats.announced_by_name;
}

/*
 * Where sizes travel with the data they may change in every step at no cost: the name has
 * its number and keeps it.
 */
static void unknown_sizes_change(tutti *t, struct checks *c)
{
    static const tutti_collective free_ones[] = { TUTTI_ALLGATHER, TUTTI_ALLTOALL };
    uint64_t before = 0;

    checks_step(c, "unknown sizes that change");
    for (int step = 0; step < 20; step++) {
        for (size_t i = 0; i < 2; i++) {
            struct operation o = operation_of(free_ones[i], FORM_UNKNOWN, 1 + step);

            o.pattern.salt = (uint32_t)(10 + step);
            run(t, c, &o, "changing, unknown");
        }
        if (step == 1) {
            before = names_announced(t, c);
        }
    }
    EXPECT(c, names_announced(t, c) == before);
}

/* Where they are told, other sizes are other metadata, which is agreed on anew. */
static void listed_sizes_change(tutti *t, struct checks *c)
{
    checks_step(c, "listed sizes that change");
    for (int step = 0; step < 12; step++) {
        for (size_t i = 0; i < ON_ROWS_COUNT; i++) {
            struct operation o =
                    operation_of(on_rows[i], FORM_LISTED, 1 + step / 3 % 2 * 10);

            o.pattern.salt = (uint32_t)(40 + step / 3 % 2);
            o.root = step / 6 % c->size;
            run(t, c, &o, "changing, listed");
        }
    }
}

/* The three forms of one name, one after the other, on all ranks alike. */
static void forms_change(tutti *t, struct checks *c)
{
    checks_step(c, "forms that change");
    for (int step = 0; step < 12; step++) {
        for (size_t i = 0; i < ON_ROWS_COUNT; i++) {
            struct operation o = operation_of(
                    on_rows[i], (enum operation_form)(step / 2 % 3), 4 * c->size);

            o.pattern.salt = (uint32_t)(60 + step);
            run(t, c, &o, "changing form");
        }
    }
}

/* Everything that may be in place, with every part's place. */
static void in_place(tutti *t, struct checks *c)
{
    checks_step(c, "in place");
    for (size_t i = 0; i < ON_ROWS_COUNT; i++) {
        for (int form = FORM_EQUAL; form <= FORM_LISTED; form++) {
            struct operation o = operation_of(
                    on_rows[i], (enum operation_form)form, 3 * c->size + 1);

            o.in_place = on_rows[i] != TUTTI_ALLTOALL || form == FORM_EQUAL;
            for (o.root = 0; o.root < c->size; o.root++) {
                run(t, c, &o, "in place");
            }
        }
    }
}

/* ----------------------------------------------------------- owned outputs */

static void begin_owned(
        tutti *t, struct checks *c, int64_t *value, tutti_request *request)
{
    *value = c->rank;
    EXPECT_OK(c,
            tutti_allgather_async(
                    t, "owned", value, NULL, 1, 1, NULL, TUTTI_INT64, NULL, request));
}

/* Waiting and testing leave the request, as often as one likes, until it is taken. */
static void waiting_keeps_the_output(tutti *t, struct checks *c)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_request before;
    tutti_status status = TUTTI_ERR_INTERNAL;
    int64_t value;
    int64_t *all = NULL;

    checks_step(c, "waiting keeps the output");
    begin_owned(t, c, &value, &request);
    before = request;
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_wait(t, &request, 0));
    EXPECT_OK(c, tutti_test(t, &request));
    EXPECT_OK(c, tutti_wait_all(t, 1, &request, TUTTI_FOREVER, &status));
    EXPECT_OK(c, status);
    EXPECT(c, request == before);
    checks_refused(c, "taking into NULL", TUTTI_ERR_INVALID,
            tutti_request_take_output(t, &request, NULL, NULL, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_request_take_output(t, &request, (void **)&all, NULL, 0));
    EXPECT(c, request == TUTTI_REQUEST_NULL);
    EXPECT(c, all != NULL && all[c->size - 1] == c->size - 1);
    EXPECT_STATUS(c, TUTTI_ERR_INVALID,
            tutti_request_take_output(t, &before, (void **)&all, NULL, 0));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID,
            tutti_request_take_output(t, &request, (void **)&all, NULL, 0));
    EXPECT_OK(c, tutti_free(t, all));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_free(t, all));
}

/* The name is free as soon as the operation is over, taken or not. */
static void outputs_pile_up(tutti *t, struct checks *c)
{
    enum {
        PILE = 5
    };
    tutti_request requests[PILE];
    int64_t values[PILE];

    checks_step(c, "outputs pile up");
    for (int i = 0; i < PILE; i++) {
        begin_owned(t, c, &values[i], &requests[i]);
        EXPECT_OK(c, tutti_wait(t, &requests[i], TUTTI_FOREVER));
    }
    for (int i = PILE - 1; i >= 0; i--) {
        void *all = NULL;

        EXPECT_OK(c, tutti_request_take_output(t, &requests[i], &all, NULL, 0));
        EXPECT_OK(c, tutti_free(t, all));
    }
}

static void taking_too_early(tutti *t, struct checks *c)
{
    const bool late = c->rank == c->size - 1;
    tutti_request request = TUTTI_REQUEST_NULL;
    int64_t value;
    void *all = NULL;

    checks_step(c, "taking too early");
    if (!late) {
        const tutti_request *same = &request;

        begin_owned(t, c, &value, &request);
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT,
                tutti_request_take_output(t, &request, &all, NULL, 0));
        EXPECT_STATUS(c, TUTTI_ERR_TIMEOUT,
                tutti_request_take_output(t, &request, &all, NULL, 2000000));
        EXPECT(c, *same != TUTTI_REQUEST_NULL && all == NULL);
    }
    job_meet(c);
    if (late) {
        begin_owned(t, c, &value, &request);
    }
    EXPECT_OK(c, tutti_request_take_output(t, &request, &all, NULL, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_free(t, all));
}

/* An output of the caller is not taken; the request is left as it is. */
static void nothing_to_take(tutti *t, struct checks *c)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    int64_t value = 1;
    void *all = NULL;

    checks_step(c, "nothing to take");
    EXPECT_OK(c,
            tutti_allreduce_async(t, "lent", &value, &value, 1, TUTTI_INT64, TUTTI_SUM,
                    NULL, &request));
    checks_refused(c, "taking what the caller has", TUTTI_ERR_INVALID,
            tutti_request_take_output(t, &request, &all, NULL, TUTTI_FOREVER));
    EXPECT(c, request != TUTTI_REQUEST_NULL && all == NULL);
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
}

/* A request of an output that was never made is consumed by its failure. */
static void failed_output(tutti *t, struct checks *c)
{
    const bool odd = c->rank == c->size - 1;
    tutti_request request = TUTTI_REQUEST_NULL;
    int64_t value = 0;
    void *all = NULL;

    checks_step(c, "failed output");
    EXPECT_OK(c,
            tutti_allgather_async(t, "failed", &value, NULL, 1, 1, NULL,
                    odd ? TUTTI_INT64 : TUTTI_UINT64, NULL, &request));
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
            tutti_request_take_output(t, &request, &all, NULL, TUTTI_FOREVER));
    EXPECT(c, request == TUTTI_REQUEST_NULL && all == NULL);
}

/* Outputs that nobody takes go with the context. */
static void output_left_behind(struct checks *c)
{
    tutti *t = job_open(c, NULL);
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_request second = TUTTI_REQUEST_NULL;
    int64_t value;
    int64_t other = 1;
    void *all = NULL;

    checks_step(c, "output left behind");
    begin_owned(t, c, &value, &request);
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    EXPECT_OK(c,
            tutti_allgather_async(t, "taken, not freed", &other, NULL, 1, 1, NULL,
                    TUTTI_INT64, NULL, &second));
    EXPECT_OK(c, tutti_request_take_output(t, &second, &all, NULL, TUTTI_FOREVER));
    EXPECT_OK(c, tutti_finalize(t));
}

/* Who owns is a matter of each rank where sizes are listed or follow from a list. */
static void owners_differ(tutti *t, struct checks *c)
{
    static const tutti_collective listed[] = { TUTTI_ALLGATHER, TUTTI_ALLTOALL,
        TUTTI_GATHER, TUTTI_SCATTER };

    checks_step(c, "owners differ");
    for (int i = 0; i < 8; i++) {
        struct operation o = operation_of(listed[i % 4], FORM_LISTED, 5);

        o.owns_output = (c->rank + i / 4) % 2 == 0;
        run(t, c, &o, "owners differ");
    }
}

/* ------------------------------------------------------------------ parts */

static void parts_of_rows(struct checks *c)
{
    int64_t first = -1;

    checks_step(c, "tutti_part");
    for (int64_t rows = 0; rows < 20; rows++) {
        for (int parts = 1; parts < 9; parts++) {
            int64_t begin = 0;

            for (int i = 0; i < parts; i++) {
                const int64_t mine = tutti_part(rows, parts, i, &first);

                EXPECT(c, first == begin);
                EXPECT(c, mine == rows / parts + (i < rows % parts ? 1 : 0));
                begin += mine;
            }
            EXPECT(c, begin == rows);
        }
    }
    EXPECT(c, tutti_part(-1, 2, 0, &first) == 0 && first == 0);
    EXPECT(c, tutti_part(5, 2, 2, NULL) == 0 && tutti_part(5, 2, -1, NULL) == 0);
    EXPECT(c, tutti_part(5, 0, 0, NULL) == 0);
    EXPECT(c, tutti_part(INT64_MAX, 2, 1, &first) == INT64_MAX / 2);
    EXPECT(c, first == INT64_MAX / 2 + 1);
}

/* ------------------------------------------------------------------ groups */

/* Members that own their outputs and members that do not, in one group. */
static void group_of_rows(tutti *t, struct checks *c)
{
    int ranks[RANKS_MAX];
    const struct crew world = crew_of_world(c, ranks);
    struct operation operations[3 * ON_ROWS_COUNT];
    struct flight flights[3 * ON_ROWS_COUNT];
    char name[32];

    checks_step(c, "group");
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(c, tutti_group_begin(t));
        for (size_t i = 0; i < 3 * ON_ROWS_COUNT; i++) {
            operations[i] =
                    operation_of(on_rows[i / 3], (enum operation_form)(i % 3), 6);
            operations[i].pattern.salt = (uint32_t)(80 + i);
            (void)snprintf(name, sizeof name, "group of rows %zu", i);
            flight_begin(t, c, &flights[i], &operations[i], &world, name);
        }
        EXPECT_OK(c, tutti_group_end(t));
        for (size_t i = 0; i < 3 * ON_ROWS_COUNT; i++) {
            flight_end(t, c, &flights[i]);
        }
    }
}

void suite_rows(tutti *t, struct checks *c)
{
    nothing_at_all(t, c);
    one_rank_is_empty(t, c);
    scalars(t, c);
    unknown_sizes_change(t, c);
    listed_sizes_change(t, c);
    forms_change(t, c);
    in_place(t, c);
    waiting_keeps_the_output(t, c);
    outputs_pile_up(t, c);
    if (c->size > 1) {
        taking_too_early(t, c);
        failed_output(t, c);
    }
    nothing_to_take(t, c);
    output_left_behind(c);
    owners_differ(t, c);
    parts_of_rows(c);
    group_of_rows(t, c);
}
