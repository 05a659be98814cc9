/*
 * Three ranks of which rank 1 has bad luck: a bit of a control message that it sends, with the name
 * of a tensor, is another one. All ranks must end with words for it.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <tutti/mpi.h>

#include "process_job.h"

enum {
    COUNT = 8192, /* more than comes with the agreement */
    STEPS = 30,
    WRONG_STEP = 20,
    MESSAGE_MAX = 1 << 16
};

static const char late_name[] = "comes late";
static const char *searched; /* what is looked for in messages; NULL: nothing */

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
        found = memmem(copy, (size_t)count, searched, strlen(searched));
    }
    if (found == NULL) {
        return PMPI_Isend(data, count, type, to, tag, comm, request);
    }
    searched = NULL;
    found[1] ^= 0x10;
    return PMPI_Isend(copy, count, type, to, tag, comm, request);
}

static tutti_status submit(
        tutti *t, const char *name, int64_t step, float values[COUNT])
{
    tutti_options options;

    tutti_options_default(&options);
    options.step = step;
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(tutti_rank(t) + i);
    }
    return tutti_allreduce(
            t, name, values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options);
}

static tutti_status train(tutti *t)
{
    static float values[COUNT];
    tutti_status status = TUTTI_OK;

    for (int64_t step = 0; step < STEPS && status == TUTTI_OK; step++) {
        if (tutti_rank(t) == 1 && step == WRONG_STEP) {
            searched = late_name;
        }
        status = submit(t, "even", step, values);
        if (status == TUTTI_OK && step == WRONG_STEP) {
            status = submit(t, late_name, step, values);
        }
    }
    return status;
}

static void run(struct checks *c)
{
    static const struct setting settings[] = { { NULL, NULL } };
    tutti *t = job_open(c, settings);

    EXPECT_STATUS(c, TUTTI_ERR_CONTEXT_FAILED, train(t));
    if (!EXPECT(c,
                strstr(tutti_last_error(),
                        "a message from rank 1 is not what that rank has sent") !=
                        NULL)) {
        (void)printf("rank %d: %s\n", c->rank, tutti_last_error());
    }
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
    run(&c);
    status = process_job_end(&job, &c);
    (void)MPI_Comm_free(&comm);
    (void)MPI_Finalize();
    return status;
}
