/*
 * The life cycle of MPI: a process's part in a job, begun and ended without a blocking
 * collective.
 */
#include <assert.h>
#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "control/mpi.h"
#include "control/mpi_end.h"

/* Civil waiting: yields first, then sleeps. */
#define YIELDS 200
#define NAP_NS 50000

tutti_status control_mpi_error(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    (void)MPI_Error_string(code, text, &length);
    return error_set(TUTTI_ERR_MPI, "%s: %s", what, text);
}

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
    int done = 0;
    int code;

    code = MPI_Comm_idup(comm, &made, &request);
    for (int tries = 0; code == MPI_SUCCESS && done == 0; tries++) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (tries < YIELDS) {
            (void)sched_yield();
        } else if (done == 0) {
            clock_sleep_ns(NAP_NS);
        }
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    }
    if (code != MPI_SUCCESS) {
        return control_mpi_error(code, "duplicating the communicator");
    }
    *copy = made;
    return TUTTI_OK;
}

/* Makes sure that MPI runs and takes calls; initialises it for world jobs only. */
static tutti_status start_mpi(struct mpi_job *job, bool may_initialise)
{
    int initialised = 0;
    int finalized = 0;
    int code;

    (void)MPI_Initialized(&initialised);
    (void)MPI_Finalized(&finalized);
    if (finalized != 0) {
        return error_set(TUTTI_ERR_MPI,
                "MPI was already finalized in this process; it cannot be started "
                "again, "
                "so call tutti_init before MPI_Finalize");
    }
    if (initialised != 0) {
        code = MPI_Query_thread(&job->thread_level);
        return code == MPI_SUCCESS ? TUTTI_OK
                                   : control_mpi_error(code, "MPI_Query_thread");
    }
    if (!may_initialise) {
        return error_set(TUTTI_ERR_MPI,
                "a communicator was given but MPI is not initialised; call "
                "MPI_Init_thread first");
    }
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &job->thread_level);
    if (code != MPI_SUCCESS) {
        return control_mpi_error(code, "MPI_Init_thread");
    }
    job->initialised = true;
    return TUTTI_OK;
}

tutti_status control_mpi_job_init(struct mpi_job *job, MPI_Comm comm)
{
    struct mpi_job made = { .control = MPI_COMM_NULL };
    tutti_status status;
    int is_inter = 0;

    status = start_mpi(&made, comm == MPI_COMM_NULL);
    if (status != TUTTI_OK) {
        return status;
    }
    if (comm == MPI_COMM_NULL) {
        comm = MPI_COMM_WORLD;
    }
    (void)MPI_Comm_test_inter(comm, &is_inter);
    if (is_inter != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "the communicator is an inter-communicator; tutti needs an "
                "intra-communicator, e.g. from MPI_Intercomm_merge");
    }
    status = duplicate(comm, &made.control);
    if (status == TUTTI_OK) {
        status = control_mpi_job_widen(&made, 1);
    }
    if (status != TUTTI_OK) {
        control_mpi_job_fini(&made);
        return status;
    }
    *job = made;
    return TUTTI_OK;
}

tutti_status control_mpi_job_widen(struct mpi_job *job, int count)
{
    assert(count <= MPI_JOB_DATA_MAX);
    while (job->data_count < count) {
        tutti_status status = duplicate(job->control, &job->data[job->data_count]);

        if (status != TUTTI_OK) {
            return status;
        }
        job->data_count++;
    }
    return TUTTI_OK;
}

static bool mpi_is_running(void)
{
    int initialised = 0;
    int finalized = 0;

    (void)MPI_Initialized(&initialised);
    (void)MPI_Finalized(&finalized);
    return initialised != 0 && finalized == 0;
}

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

void control_mpi_job_abandon(struct mpi_job *job)
{
    if (mpi_is_running()) {
        keep_until_end(job->control);
        for (int i = 0; i < job->data_count; i++) {
            keep_until_end(job->data[i]);
        }
    }
    job->control = MPI_COMM_NULL;
    job->data_count = 0;
    control_mpi_job_fini(job);
}

/*
 * MPI_Comm_free is collective in name; Open MPI and MPICH release a communicator
 * locally, and an MPI that synchronises here meets all ranks, because the core frees
 * only after its own barrier or in a failed context.
 */
void control_mpi_job_fini(struct mpi_job *job)
{
    const bool failed = job->control == MPI_COMM_NULL;

    if (mpi_is_running()) {
        comm_release(&job->control);
        for (int i = 0; i < job->data_count; i++) {
            comm_release(&job->data[i]);
        }
        if (job->initialised && failed) {
            (void)MPI_Finalize(); /* not all ranks may come */
        } else if (job->initialised) {
            control_mpi_end();
        }
    }
    *job = (struct mpi_job){ .control = MPI_COMM_NULL };
}
