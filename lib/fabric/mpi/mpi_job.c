/*
 * A process's part in an MPI job, begun and ended without a blocking collective.
 */
#include "fabric/mpi/mpi_job.h"

#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "fabric/mpi/mpi_life.h"

static tutti_status leave(struct job *job, enum job_end end)
{
    struct mpi_job *leaving = (struct mpi_job *)job;
    const tutti_status status = mpi_job_fini(leaving, end);

    mem_free(leaving);
    return status;
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

static void fill(struct mpi_job *job)
{
    int level = MPI_THREAD_SINGLE;

    (void)MPI_Query_thread(&level);
    job->job = (struct job){ .name = TUTTI_MPI_NAME,
        .any_thread = level == MPI_THREAD_MULTIPLE,
        .vendor_native = &job->data,
        .leave = leave };
    mpi_fabric_init(&job->job.fabric, &job->fabric, job->control, job->data);
}

tutti_status mpi_job_init(struct mpi_job *job, MPI_Comm comm)
{
    const bool is_world = comm == MPI_COMM_NULL;
    struct mpi_job made = { .control = MPI_COMM_NULL, .data = MPI_COMM_NULL };
    tutti_status status = mpi_life_begin(is_world, &made.ends_mpi);

    if (status != TUTTI_OK) {
        return status;
    }
    status = join(&made, is_world ? MPI_COMM_WORLD : comm);
    if (status != TUTTI_OK) {
        (void)mpi_job_fini(&made, JOB_NOT_BEGUN);
        return status;
    }
    if (is_world) {
        mpi_life_meet_on(made.control);
    }
    *job = made;
    fill(job);
    return TUTTI_OK;
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

tutti_status mpi_job_fini(struct mpi_job *job, enum job_end end)
{
    tutti_status status = TUTTI_OK;

    if (mpi_is_on()) {
        let_go(&job->control, end == JOB_ENDED);
        let_go(&job->data, end == JOB_ENDED);
    }
    mpi_fabric_fini(&job->fabric);
    if (job->ends_mpi) {
        status = mpi_life_end(end == JOB_FAILED, job->job.look, job->job.user);
    }
    *job = (struct mpi_job){ .control = MPI_COMM_NULL, .data = MPI_COMM_NULL };
    return status;
}

/* ------------------------------------------------------------------------ joining */

/*
 * A program that is linked to one MPI and started by the mpirun of another is a world of
 * its own in every process. Each would train for itself and look fine.
 */
static tutti_status check_world(void)
{
    const char *variable = "";
    const int launched = config_launched_ranks(&variable);
    int size = 0;

    if (MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || size > 1 ||
            launched <= 1) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_MPI,
            "%s=%d, but MPI says that this is rank 0 of 1, and so it will be in all of "
            "them: they were started by another MPI's mpirun, by srun, or without an "
            "MPI. Start them with this MPI's mpirun (tuttirun finds it; under srun, "
            "try "
            "--mpi=pmix or --mpi=pmi2)",
            variable, launched);
}

/* A rank that refuses tells so where MPI runs. Where it does not, the others wait in MPI_Init
 * until the launcher sees that this process has ended. */
static tutti_status may_join(bool refuses)
{
    const tutti_status status = mpi_life_check();

    return status == TUTTI_OK && refuses && !mpi_is_on()
            ? error_set(TUTTI_ERR_MPI, "MPI does not run")
            : status;
}

tutti_status mpi_job_join(void *user, bool refuses, struct job **job)
{
    const MPI_Comm *comm = user;
    struct mpi_job *made;
    tutti_status status = may_join(refuses);

    if (status != TUTTI_OK) {
        return status;
    }
    made = mem_calloc(1, sizeof *made);
    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to join an MPI job");
    }
    status = mpi_job_init(made, comm == NULL ? MPI_COMM_NULL : *comm);
    if (status == TUTTI_OK && user == NULL && !refuses) {
        status = check_world();
        if (status != TUTTI_OK) {
            (void)mpi_job_fini(made, JOB_NOT_BEGUN);
        }
    }
    if (status != TUTTI_OK) {
        mem_free(made);
        return status;
    }
    *job = &made->job;
    return TUTTI_OK;
}
