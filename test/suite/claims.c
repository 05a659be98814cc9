/*
 * Ranks that contradict each other about rows: all are told who and how much on both
 * sides, nothing is moved, and the job goes on.
 */
#include <stdio.h>
#include <string.h>

#include "test/suite/suite.h"

enum {
    RANKS_MAX = 64,
    ROWS_MAX = 4 * RANKS_MAX
};

/** A rank's side of an exchange; two rows for everybody where nothing else is said. */
struct side {
    int64_t rows; /* of the call */
    int64_t rows_of[RANKS_MAX];
    int64_t recv_rows[RANKS_MAX];
    int32_t input[ROWS_MAX];
    int32_t output[ROWS_MAX];
};

static void side_init(struct side *side, const struct checks *c)
{
    memset(side, 0, sizeof *side);
    side->rows = 2;
    for (int i = 0; i < c->size; i++) {
        side->rows_of[i] = 2;
        side->recv_rows[i] = 2;
    }
    for (int i = 0; i < ROWS_MAX; i++) {
        side->input[i] = 1000 * c->rank + i;
        side->output[i] = -1;
    }
}

/** What goes wrong: the call of one kind, given a rank's side. */
struct exchange {
    const char *name;
    tutti_collective collective;
};

static tutti_status submit(tutti *t, const struct checks *c, const struct exchange *e,
        struct side *side, tutti_request *request)
{
    const int root = c->size - 1;

    if (e->collective == TUTTI_ALLTOALL) {
        int64_t sum = 0;

        for (int i = 0; i < c->size; i++) {
            sum += side->rows_of[i];
        }
        return tutti_alltoall_async(t, e->name, side->input, side->output, sum, 1,
                side->rows_of, side->recv_rows, TUTTI_INT32, NULL, request);
    }
    if (e->collective == TUTTI_GATHER) {
        return tutti_gather_async(t, e->name, side->input, side->output, side->rows, 1,
                side->rows_of, TUTTI_INT32, root, NULL, request);
    }
    return tutti_scatter_async(t, e->name, side->input, side->output, side->rows, 1,
            side->rows_of, TUTTI_INT32, root, NULL, request);
}

static void agree(tutti *t, struct checks *c, const struct exchange *e)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    struct side side;

    side_init(&side, c);
    EXPECT_OK(c, submit(t, c, e, &side, &request));
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    if (e->collective == TUTTI_ALLTOALL) {
        EXPECT(c,
                side.output[2 * c->size - 1] == 1000 * (c->size - 1) + 2 * c->rank + 1);
    }
}

/* One contradicts: all learn the same words, which name both ranks and both numbers. */
static void disagree(tutti *t, struct checks *c, const struct exchange *e,
        struct side *side, const char *words)
{
    tutti_request request = TUTTI_REQUEST_NULL;
    char message[1024];

    EXPECT_OK(c, submit(t, c, e, side, &request));
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH, tutti_wait(t, &request, TUTTI_FOREVER));
    (void)snprintf(message, sizeof message, "%s", tutti_last_error());
    EXPECT(c, strstr(message, e->name) != NULL);
    if (!EXPECT(c, strstr(message, words) != NULL)) {
        (void)fprintf(stderr, "\"%s\" is not in: %s\n", words, message);
    }
    EXPECT(c, side->output[0] == -1 && side->output[2 * c->size - 1] == -1);
    job_same_text(c, t, "message", message);
    checks_list(c, 0, e->name, TUTTI_ERR_MISMATCH, message);
}

/* Contradictions before the name has a number and after, and good steps in between. */
static void contradict(tutti *t, struct checks *c, const struct exchange *e,
        struct side *side, const char *words)
{
    for (int round = 0; round < 3; round++) {
        disagree(t, c, e, side, words);
        agree(t, c, e);
        agree(t, c, e);
        agree(t, c, e);
    }
}

/* Rank 0 sends rank 1 more than that expects. */
static void alltoall_splits(tutti *t, struct checks *c)
{
    static const struct exchange e = { "alltoall that contradicts", TUTTI_ALLTOALL };
    struct side side;

    checks_step(c, "alltoall");
    side_init(&side, c);
    if (c->rank == 0) {
        side.rows_of[1] = 3;
    }
    contradict(t, c, &e, &side, "rank 0 sends 3 rows to rank 1, which expects 2");
}

static void gather_of_more(tutti *t, struct checks *c)
{
    static const struct exchange e = { "gather that contradicts", TUTTI_GATHER };
    struct side side;
    char words[96];

    checks_step(c, "gather");
    side_init(&side, c);
    side.rows = c->rank == 0 ? 1 : 2;
    (void)snprintf(words, sizeof words,
            "rank 0 sends 1 rows to rank %d, which expects 2", c->size - 1);
    contradict(t, c, &e, &side, words);
}

static void scatter_of_less(tutti *t, struct checks *c)
{
    static const struct exchange e = { "scatter that contradicts", TUTTI_SCATTER };
    struct side side;
    char words[96];

    checks_step(c, "scatter");
    side_init(&side, c);
    side.rows = c->rank == 0 ? 1 : 2;
    (void)snprintf(words, sizeof words,
            "rank %d sends 2 rows to rank 0, which expects 1", c->size - 1);
    contradict(t, c, &e, &side, words);
}

/* Claims that change on both sides alike are right in every step. */
static void splits_change_together(tutti *t, struct checks *c)
{
    static const struct exchange kinds[] = { { "splits change", TUTTI_ALLTOALL },
        { "splits change", TUTTI_GATHER }, { "splits change", TUTTI_SCATTER } };
    struct side side;

    checks_step(c, "splits change together");
    for (int step = 0; step < 12; step++) {
        for (int k = 0; k < 3; k++) {
            const int64_t rows = 1 + step / 2 % 3;
            tutti_request request = TUTTI_REQUEST_NULL;

            side_init(&side, c);
            /* Only what rank 0 gives or gets changes: the others repeat themselves. */
            side.rows = c->rank == 0 ? rows : 2;
            side.rows_of[0] = rows;
            side.recv_rows[0] = rows;
            if (c->rank == 0 && kinds[k].collective == TUTTI_ALLTOALL) {
                for (int i = 0; i < c->size; i++) {
                    side.rows_of[i] = rows;
                    side.recv_rows[i] = rows;
                }
            }
            EXPECT_OK(c, submit(t, c, &kinds[k], &side, &request));
            EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
        }
    }
}

/* A contradiction within a group fails the group, and nothing else. */
static void within_a_group(tutti *t, struct checks *c)
{
    static const struct exchange e = { "contradiction in a group", TUTTI_ALLTOALL };
    struct side side;
    tutti_request requests[3] = { 0 };
    tutti_status statuses[3];
    int32_t value = 1;
    int32_t beside = 1;

    checks_step(c, "within a group");
    side_init(&side, c);
    if (c->rank == 0) {
        side.rows_of[1] = 0;
    }
    EXPECT_OK(c,
            tutti_allreduce_async(t, "beside the group", &beside, &beside, 1,
                    TUTTI_INT32, TUTTI_SUM, NULL, &requests[0]));
    EXPECT_OK(c, tutti_group_begin(t));
    EXPECT_OK(c, submit(t, c, &e, &side, &requests[1]));
    EXPECT_OK(c,
            tutti_allreduce_async(t, "in the group", &value, &value, 1, TUTTI_INT32,
                    TUTTI_SUM, NULL, &requests[2]));
    EXPECT_OK(c, tutti_group_end(t));
    EXPECT_STATUS(c, TUTTI_ERR_MISMATCH,
            tutti_wait_all(t, 3, requests, TUTTI_FOREVER, statuses));
    EXPECT(c, statuses[0] == TUTTI_OK && beside == c->size);
    EXPECT(c, statuses[1] == TUTTI_ERR_MISMATCH && statuses[2] == TUTTI_ERR_MISMATCH);
    EXPECT(c, value == 1);
}

/* The root of a gather takes what comes, and a rank of a scatter too: no contradiction. */
static void whatever_comes(tutti *t, struct checks *c)
{
    const int64_t mine = c->rank % 3;
    int64_t rows_of[RANKS_MAX];
    struct side side;
    tutti_request request = TUTTI_REQUEST_NULL;
    void *output = NULL;

    checks_step(c, "whatever comes");
    side_init(&side, c);
    EXPECT_OK(c,
            tutti_gather_async(t, "whatever comes", side.input, NULL, mine, 1, NULL,
                    TUTTI_INT32, 0, NULL, &request));
    if (c->rank == 0) {
        EXPECT_OK(c,
                tutti_request_take_output(
                        t, &request, &output, rows_of, TUTTI_FOREVER));
        for (int i = 0; i < c->size; i++) {
            EXPECT(c, rows_of[i] == i % 3);
        }
        EXPECT_OK(c, tutti_free(t, output));
    }
    EXPECT_OK(c, tutti_wait(t, &request, TUTTI_FOREVER));
    for (int i = 0; i < c->size; i++) {
        side.rows_of[i] = i % 3;
    }
    EXPECT_OK(c,
            tutti_scatter_async(t, "whatever comes", side.input, NULL, -77, 1,
                    side.rows_of, TUTTI_INT32, 0, NULL, &request));
    EXPECT_OK(
            c, tutti_request_take_output(t, &request, &output, rows_of, TUTTI_FOREVER));
    EXPECT(c, rows_of[0] == mine);
    EXPECT_OK(c, tutti_free(t, output));
}

void suite_claims(tutti *t, struct checks *c)
{
    if (c->size > 1) {
        alltoall_splits(t, c);
        gather_of_more(t, c);
        scatter_of_less(t, c);
        within_a_group(t, c);
    }
    splits_change_together(t, c);
    whatever_comes(t, c);
}
