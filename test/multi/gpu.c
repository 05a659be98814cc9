/*
 * Ranks that are processes, over the simulated GPU: what depends on that.
 *
 *     gpu CASE NCCL        (under mpirun)
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "lib/fabric/mpi/mpi_end.h"
#include "test/gpu/ends.h"

enum {
    HANG_SECONDS = 1000,
    COUNT = 500,
    WORDS = 2048
};

/* ---------------------------------------------------------------------------- meeting */

/* Civil: a rank that is late leaves the core to the others. */
static void meet_processes(struct ends_rank *r)
{
    MPI_Request request;
    int done = 0;

    (void)r;
    (void)MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
        ends_nap();
    }
}

/* The last error is the same on all ranks. */
static void expect_one_text(struct ends_rank *r)
{
    char first[WORDS] = "";
    char mine[WORDS] = "";

    (void)snprintf(mine, sizeof mine, "%s", tutti_last_error());
    memcpy(first, mine, sizeof first);
    CHECK(MPI_Bcast(first, WORDS, MPI_CHAR, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(strcmp(first, mine) == 0);
}

/* --------------------------------------------------------------------------- refusals */

static void open_job(struct ends_rank *r)
{
    CHECK(tutti_init_mpi(&r->t, MPI_COMM_WORLD, r->job->config) == TUTTI_OK);
    ends_enter(r);
}

/* No rank starts, and all say whose parameter is wrong. */
static void run_refused(struct ends_rank *r)
{
    tutti *t = NULL;

    CHECK(tutti_init_mpi(&t, MPI_COMM_WORLD, r->job->config) == TUTTI_ERR_CONFIG);
    CHECK(strstr(tutti_last_error(), "there is no device \"9\" for rank 1") != NULL);
    expect_one_text(r);
}

/* NCCL connects nobody, which ends the start of all. */
static void run_unconnected(struct ends_rank *r)
{
    tutti *t = NULL;

    gpusim_fail("init", 0, 1);
    CHECK(tutti_init_mpi(&t, MPI_COMM_WORLD, r->job->config) == TUTTI_ERR_SYSTEM);
    CHECK(strstr(tutti_last_error(), "have not met in NCCL") != NULL);
}

/* A rank without a GPU: host memory works, and what is not alike is told to all. */
static void run_one_off(struct ends_rank *r)
{
    float value = (float)(r->rank + 1);
    float *memory;
    tutti_request request;

    CHECK(r->rank != 1 || tutti_config_set(r->job->config, "gpu", "off") == TUTTI_OK);
    open_job(r);
    memory = ends_alloc(r, 1);
    CHECK(tutti_allreduce(r->t, "host", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                  NULL) == TUTTI_OK);
    CHECK(value == ends_total(r));
    CHECK(r->rank != 0 ||
            ends_was_logged(r->job, "rank 0 has a GPU, but rank 1 has none: gpu=off"));
    ends_fill(r, memory, 1, 1, r->stream);
    request = r->rank == 1 ? ends_sum(r, "x", &value, &value, 1, NULL)
                           : ends_sum(r, "x", memory, memory, 1, r->stream);
    CHECK(tutti_wait(r->t, &request, ENDS_PATIENCE) == TUTTI_ERR_MISMATCH);
    expect_one_text(r);
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    CHECK(tutti_finalize(r->t) == TUTTI_OK);
    ends_leave(r);
    CHECK(gpusim_live().device_bytes == 0 && gpusim_live().streams == 0);
    CHECK(gpusim_live().events == 0 && gpusim_live().retained == 0);
}

/* ------------------------------------------------------------------------------ death */

/*
 * The last rank ends; its kernel, for which the others' wait, is never launched. NCCL is just
 * putting a batch on the GPU of rank 0.
 */
static void run_death(struct ends_rank *r)
{
    const int victim = r->size - 1;
    float *memory;
    tutti_request request;
    tutti_request begun;
    char named[32];

    open_job(r);
    memory = ends_alloc(r, COUNT);
    ends_whole_sum(r, "before");
    ends_fill(r, memory, 1, COUNT, r->stream);
    if (r->rank == victim) {
        gpusim_hold(r->stream);
    }
    request = ends_sum(r, "x", memory, memory, COUNT, r->stream);
    CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
    if (r->rank == 0) {
        gpusim_fail("late of rank 0", 1, 1);
    }
    begun = ends_sum(r, "begun", memory, memory, COUNT, r->stream);
    CHECK(tutti_wait_stream(
                  r->t, &begun, r->stream, r->rank == 0 ? 1000 : ENDS_PATIENCE) ==
            (r->rank == 0 ? TUTTI_ERR_TIMEOUT : TUTTI_OK));
    ends_meet(r);
    if (r->rank == victim) {
        if (strcmp(r->job->what->name, "killed") == 0) {
            (void)raise(SIGKILL);
        }
        _Exit(0);
    }
    request = ends_sum(r, "y", memory, memory, COUNT, r->stream);
    CHECK(tutti_wait(r->t, &request, ENDS_PATIENCE) == TUTTI_ERR_CONTEXT_FAILED);
    (void)snprintf(named, sizeof named, "rank %d (process ", victim);
    CHECK(strstr(tutti_last_error(), named) != NULL);
    CHECK(strstr(tutti_last_error(), "has died") != NULL);
    CHECK(r->rank != 0 ||
            tutti_wait(r->t, &begun, ENDS_PATIENCE) == TUTTI_ERR_CONTEXT_FAILED);
    /* The stream that waits for what has been issued goes on. */
    CHECK(cuStreamSynchronize(r->stream) == CUDA_SUCCESS);
    CHECK(tutti_finalize(r->t) == TUTTI_ERR_CONTEXT_FAILED);
    printf("rank %d noticed\n", r->rank);
    (void)fflush(stdout);
    /* MPI cannot be finalized in order without the dead rank. */
    _Exit(0);
}

/* ------------------------------------------------------------------------------- main */

static const struct ends_case cases[] = {
    { "refused", run_refused, "gpu=0,9", TUTTI_OK, false },
    { "unconnected", run_unconnected, "gpu_timeout_s=1", TUTTI_OK, false },
    { "one_off", run_one_off, "", TUTTI_OK, false },
    { "killed", run_death, "", TUTTI_OK, false },
    { "exited", run_death, "", TUTTI_OK, false },
};

int main(int argc, char **argv)
{
    static struct ends_job job = { .meet = meet_processes };
    struct ends_rank *r = &job.ranks[0];
    int level = 0;

    if (argc != 3 ||
            MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    (void)alarm(HANG_SECONDS); /* a hang ends with a signal */
    r->job = &job;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &r->size);
    r->device = r->rank;
    job.size = r->size;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            ends_configure(&job, &cases[i], argv[2]);
            cases[i].body(r);
            tutti_config_destroy(job.config);
            ends_meet(r);
            mpi_end(getenv("PMI_FD"));
            return 0;
        }
    }
    return 2;
}
