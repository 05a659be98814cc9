/*
 * wire_dtype in a job of two nodes of two ranks: what is rounded, and what is not.
 */
#include <stdio.h>

#include <tutti/mpi.h>

#include "process_job.h"

enum {
    COUNT = 20000
};

/* Opens a context and sums `value`, equal in all elements, over all ranks. */
static float sum_of(struct checks *c, const struct setting *settings, float value)
{
    static float values[COUNT];
    tutti *t = NULL;

    for (int i = 0; i < COUNT; i++) {
        values[i] = value;
    }
    EXPECT_OK(c, job_try_open(c, settings, &t));
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "sum", values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL));
    EXPECT_OK(c, tutti_finalize(t));
    for (int i = 1; i < COUNT; i++) {
        EXPECT(c, values[i] == values[0]);
    }
    return values[0];
}

/* 2 + 1/256 is 2 in bfloat16. */
static void between_nodes(struct checks *c)
{
    const char *host = c->rank < 2 ? "a" : "b";
    const struct setting off[] = { { "host_id", host }, { NULL, NULL } };
    const struct setting on[] = { { "host_id", host }, { "wire_dtype", "bfloat16" },
        { NULL, NULL } };
    const struct setting one_node[] = { { "wire_dtype", "bfloat16" }, { NULL, NULL } };
    const float value = 1 + 1.0F / 512;

    checks_step(c, "between nodes");
    EXPECT(c, sum_of(c, off, value) == 4 * value);
    EXPECT(c, sum_of(c, on, value) == 4);
    EXPECT(c, sum_of(c, one_node, value) == 4 * value);
}

/* 1/512 is a bfloat16 and 1 + 1/512 is not, so the ranks of a node must not round. */
static void not_within_a_node(struct checks *c)
{
    const struct setting settings[] = { { "host_id", c->rank < 2 ? "a" : "b" },
        { "wire_dtype", "bfloat16" }, { NULL, NULL } };

    checks_step(c, "not within a node");
    EXPECT(c,
            sum_of(c, settings, c->rank % 2 == 0 ? 1 + 1.0F / 512 : -1) == 1.0F / 256);
}

static void programs_can_ask(struct checks *c)
{
    for (int narrow = 0; narrow < 2; narrow++) {
        const struct setting settings[] = { { "host_id", c->rank < 2 ? "a" : "b" },
            { "wire_dtype", narrow != 0 ? "float16" : "float32" }, { NULL, NULL } };
        tutti *t = NULL;

        checks_step(c, "programs can ask");
        EXPECT_OK(c, job_try_open(c, settings, &t));
        EXPECT(c, tutti_sums_follow_ranks(t, TUTTI_WORLD) == (narrow == 0));
        EXPECT_OK(c, tutti_finalize(t));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    struct checks c;
    struct job job;
    int status;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    process_job_init(&job, &c, &comm);
    between_nodes(&c);
    not_within_a_node(&c);
    programs_can_ask(&c);
    status = process_job_end(&job, &c);
    (void)MPI_Comm_free(&comm);
    (void)MPI_Finalize();
    return status;
}
