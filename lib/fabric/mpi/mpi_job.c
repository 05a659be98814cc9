/*
 * A process's part in an MPI job, begun and ended without a blocking collective.
 */
#include "fabric/mpi/mpi_job.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "fabric/mpi/mpi_life.h"

/* Zeroed jobs hold communicators that are neither owned nor MPI_COMM_NULL. */
static bool comm_is_owned(MPI_Comm comm)
{
    const struct mpi_job zeroed = { 0 };

    return comm != zeroed.control && comm != MPI_COMM_NULL;
}

static void comm_release(MPI_Comm *comm)
{
    if (comm_is_owned(*comm)) {
        (void)MPI_Comm_free(comm);
    }
    *comm = MPI_COMM_NULL;
}

/*
 * A blocking MPI_Comm_dup spins in a collective, which starves the other ranks where
 * ranks share cores.
 */
static tutti_status duplicate(MPI_Comm comm, MPI_Comm *copy)
{
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request;
    int code = MPI_Comm_idup(comm, &made, &request);

    if (code == MPI_SUCCESS) {
        code = mpi_life_await(&request);
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    }
    if (code != MPI_SUCCESS) {
        return mpi_error(code, "duplicating the communicator");
    }
    *copy = made;
    return TUTTI_OK;
}

static tutti_status join(struct mpi_job *job, MPI_Comm comm)
{
    tutti_status status;
    int is_inter = 0;

    (void)MPI_Comm_test_inter(comm, &is_inter);
    if (is_inter != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "the communicator is an inter-communicator; tutti needs an "
                "intra-communicator, e.g. from MPI_Intercomm_merge");
    }
    status = duplicate(comm, &job->control);
    return status == TUTTI_OK ? duplicate(comm, &job->data) : status;
}

tutti_status mpi_job_init(struct mpi_job *job, MPI_Comm comm)
{
    const bool is_world = comm == MPI_COMM_NULL;
    struct mpi_job made = { .control = MPI_COMM_NULL, .data = MPI_COMM_NULL };
    tutti_status status = mpi_life_begin(is_world, &made.ends_mpi);

    if (status != TUTTI_OK) {
        return status;
    }
    (void)MPI_Query_thread(&made.thread_level);
    status = join(&made, is_world ? MPI_COMM_WORLD : comm);
    if (status != TUTTI_OK) {
        (void)mpi_job_fini(&made, MPI_JOB_NOT_BEGUN);
        return status;
    }
    if (is_world) {
        mpi_life_meet_on(made.control);
    }
    *job = made;
    mpi_fabric_init(&job->fabric, &job->state, job->control, job->data);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------- agreement */

/* Who has failed how: the first of the worst counts. */
enum weight {
    WEIGHT_CAUSE,
    WEIGHT_CONSEQUENCE, /* it heard nonsense, or nothing, of another rank */
    WEIGHT_NONE
};

struct verdict {
    int status; /* tutti_status */
    char text[ERROR_TEXT_MAX];
};

static enum weight weight_of(tutti_status status)
{
    if (status == TUTTI_OK) {
        return WEIGHT_NONE;
    }
    return status == TUTTI_ERR_PROTOCOL ? WEIGHT_CONSEQUENCE : WEIGHT_CAUSE;
}

/* The verdict of `from` goes to all. */
static int spread(MPI_Comm comm, struct verdict *verdict, int from)
{
    MPI_Request request;
    int code =
            MPI_Ibcast(verdict, (int)sizeof *verdict, MPI_BYTE, from, comm, &request);

    return code == MPI_SUCCESS ? mpi_life_await(&request) : code;
}

tutti_status mpi_job_agree(const struct mpi_job *job, tutti_status mine)
{
    struct verdict verdict = { .status = mine };
    int worst[2] = { (int)weight_of(mine), 0 };
    MPI_Request request;
    int code = MPI_Comm_rank(job->control, &worst[1]);

    (void)snprintf(verdict.text, sizeof verdict.text, "%s", tutti_last_error());
    if (code == MPI_SUCCESS) {
        code = MPI_Iallreduce(
                MPI_IN_PLACE, worst, 1, MPI_2INT, MPI_MINLOC, job->control, &request);
    }
    if (code == MPI_SUCCESS) {
        code = mpi_life_await(&request);
    }
    if (code == MPI_SUCCESS && worst[0] != WEIGHT_NONE) {
        code = spread(job->control, &verdict, worst[1]);
    }
    if (code != MPI_SUCCESS) {
        return mpi_error(code, "hearing whether all ranks can start");
    }
    if (weight_of(mine) == WEIGHT_CAUSE || worst[0] == WEIGHT_NONE) {
        return mine;
    }
    return error_set((tutti_status)verdict.status, "rank %d cannot start: %s", worst[1],
            verdict.text);
}

/* ------------------------------------------------------------------------- end */

/* MPI deletes the attributes of MPI_COMM_SELF when it is finalized. */
static int free_at_end(MPI_Comm self, int keyval, void *value, void *user)
{
    MPI_Comm *comm = value;

    (void)self;
    (void)keyval;
    (void)user;
    (void)MPI_Comm_free(comm);
    mem_free(comm);
    return MPI_SUCCESS;
}

static void keep_until_end(MPI_Comm comm)
{
    int keyval = MPI_KEYVAL_INVALID;
    MPI_Comm *kept;

    if (!comm_is_owned(comm)) {
        return;
    }
    kept = mem_alloc(sizeof *kept);
    if (kept == NULL) {
        return;
    }
    *kept = comm;
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_at_end, &keyval, NULL) !=
            MPI_SUCCESS) {
        mem_free(kept);
        return;
    }
    (void)MPI_Comm_set_attr(MPI_COMM_SELF, keyval, kept);
    (void)MPI_Comm_free_keyval(&keyval);
}

/*
 * MPI_Comm_free is collective in name; Open MPI and MPICH release a communicator
 * locally, and an MPI that synchronises here meets all ranks, because the core frees
 * only after its own barrier or in a failed context.
 */
static void let_go(MPI_Comm *comm, bool is_quiet)
{
    if (mpi_life_keeps(*comm)) {
        *comm = MPI_COMM_NULL;
    } else if (is_quiet) {
        comm_release(comm);
    } else {
        keep_until_end(*comm);
    }
}

tutti_status mpi_job_fini(struct mpi_job *job, enum mpi_job_end end)
{
    tutti_status status = TUTTI_OK;

    if (mpi_is_on()) {
        let_go(&job->control, end == MPI_JOB_ENDED);
        let_go(&job->data, end == MPI_JOB_ENDED);
    }
    mpi_fabric_fini(&job->state);
    if (job->ends_mpi) {
        status = mpi_life_end(end == MPI_JOB_FAILED, job->look, job->user);
    }
    *job = (struct mpi_job){ .control = MPI_COMM_NULL, .data = MPI_COMM_NULL };
    return status;
}
