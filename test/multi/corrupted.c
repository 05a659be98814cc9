/*
 * Three ranks of which rank 1 has bad luck: a bit of what it sends is another one. All ranks must
 * end with words for it: corrupted WHAT
 *   operand  of a message that has a tensor of rank 1; whom it goes to gets another sum
 *   control  of a message that has the name of a tensor
 *   none     of nothing, but rank 1 gives NaN
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <tutti/mpi.h>

#include "process_job.h"

enum {
    COUNT = 8192, /* more than comes with the agreement */
    STEPS = 30, /* by then there is a plan */
    WRONG_STEP = 20,
    MESSAGE_MAX = 1 << 16
};

static const float mark = 271828; /* of what rank 1 gives in the wrong step */
static const char late_name[] = "comes late";
static const void *searched; /* what is looked for in messages; NULL: nothing */
static size_t searched_bytes;

/*
 * MPI_Isend of the library, where the linker finds it: a message that has what is searched goes
 * with another bit, once.
 */
__attribute__((visibility("default"))) int MPI_Isend(const void *data, int count,
        MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    static unsigned char copy[MESSAGE_MAX];
    unsigned char *found = NULL;

    if (searched != NULL && type == MPI_BYTE && (size_t)count <= sizeof copy) {
        memcpy(copy, data, (size_t)count);
        found = memmem(copy, (size_t)count, searched, searched_bytes);
    }
    if (found == NULL) {
        return PMPI_Isend(data, count, type, to, tag, comm, request);
    }
    searched = NULL;
    found[1] ^= 0x10;
    return PMPI_Isend(copy, count, type, to, tag, comm, request);
}

static tutti_status submit(
        tutti *t, const char *name, int64_t step, float value, float values[COUNT])
{
    tutti_options options;

    tutti_options_default(&options);
    options.step = step;
    for (int i = 0; i < COUNT; i++) {
        values[i] = value + (float)i;
    }
    return tutti_allreduce(
            t, name, values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options);
}

static tutti_status train(tutti *t, const char *what)
{
    static float values[COUNT];
    const int rank = tutti_rank(t);
    tutti_status status = TUTTI_OK;

    for (int64_t step = 0; step < STEPS && status == TUTTI_OK; step++) {
        const bool is_wrong = rank == 1 && step == WRONG_STEP;
        float value = (float)(rank + step);

        if (is_wrong && strcmp(what, "operand") == 0) {
            value = mark;
            searched = &mark;
            searched_bytes = sizeof mark;
        } else if (is_wrong && strcmp(what, "control") == 0) {
            searched = late_name;
            searched_bytes = strlen(late_name);
        } else if (is_wrong) {
            value = 0.0F / 0.0F;
        }
        status = submit(t, "even", step, value, values);
        if (status == TUTTI_OK && step == WRONG_STEP) {
            status = submit(t, late_name, step, 1, values);
        }
    }
    return status;
}

/* What is told of it is the same everywhere. */
static void expect_words(struct checks *c, const char *what)
{
    const char *words = strcmp(what, "operand") == 0
            ? "allreduce \"even\" of step 20 than ranks"
            : "a message from rank 1 is not what that rank has sent";

    if (!EXPECT(c, strstr(tutti_last_error(), words) != NULL)) {
        (void)printf("rank %d: %s\n", c->rank, tutti_last_error());
    }
}

static void expect_counts(struct checks *c, tutti *t)
{
    tutti_stats stats = { .size = sizeof stats };

    EXPECT_OK(c, tutti_stats_get(t, &stats));
    EXPECT(c, stats.verified > 0);
    EXPECT(c, stats.nonfinite_inputs == (c->rank == 1 ? COUNT : 0));
    EXPECT(c, stats.nonfinite_results == COUNT);
}

static void run(struct checks *c, const char *what)
{
    const struct setting settings[] = { { "verify_results", "1" },
        { "algorithm", "gather" }, { NULL, NULL } };
    tutti *t = job_open(c, settings);
    char line[LOG_TEXT_MAX];

    if (strcmp(what, "none") == 0) {
        EXPECT_OK(c, train(t, what));
        expect_counts(c, t);
        EXPECT_OK(c, tutti_finalize(t));
        EXPECT(c,
                job_find_line(c, c->rank, "that this rank gives to", line) ==
                        (c->rank == 1));
        return;
    }
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, train(t, what));
    expect_words(c, what);
    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, tutti_finalize(t));
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
    run(&c, argc > 1 ? argv[1] : "none");
    status = process_job_end(&job, &c);
    (void)MPI_Comm_free(&comm);
    (void)MPI_Finalize();
    return status;
}
