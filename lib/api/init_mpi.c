/*
 * Joining an MPI job: the launcher's world, or a communicator of the caller.
 */
#include <tutti/mpi.h>

#include "api/setup.h"
#include "base/mem.h"
#include "control/mpi.h"
#include "ops/mpi/mpi.h"
#include "ops/self/self.h"

static void leave_job(void *user, bool failed)
{
    struct mpi_job *job = user;

    if (failed) {
        control_mpi_job_abandon(job);
    } else {
        control_mpi_job_fini(job);
    }
    mem_free(job);
}

static void choose_backends(struct context_spec *spec, struct mpi_job *job)
{
    spec->backends[spec->backend_count++] = &op_self;
    if (spec->config.backend == CONFIG_BACKEND_VENDOR) {
        spec->natives[spec->backend_count] = &job->data;
        spec->backends[spec->backend_count++] = &op_mpi_vendor;
    }
    spec->natives[spec->backend_count] = &job->data;
    spec->backends[spec->backend_count++] = &op_mpi;
}

static void say_thread_level(const struct context_spec *spec)
{
    if (!spec->any_thread && spec->rank == 0 && spec->config.background_thread) {
        log_warn(&spec->log,
                "MPI was initialised below MPI_THREAD_MULTIPLE: tutti has no "
                "background "
                "thread, data move only inside tutti calls of the thread that called "
                "tutti_init, and communication does not overlap with computation");
    }
}

/* The job is joined; the spec takes it over in any case. */
static tutti_status start(tutti **t, struct context_spec *spec, struct mpi_job *job)
{
    tutti_status status;

    spec->release = leave_job;
    spec->release_user = job;
    status = control_mpi_open(job, &spec->control);
    if (status == TUTTI_OK) {
        spec->rank = spec->control.rank;
        spec->size = spec->control.size;
        spec->log.rank = spec->rank;
        spec->any_thread = job->thread_level == MPI_THREAD_MULTIPLE;
        status = setup_agree(spec);
    }
    if (status != TUTTI_OK) {
        context_spec_fini(spec);
        return status;
    }
    choose_backends(spec, job);
    say_thread_level(spec);
    return context_create(t, spec);
}

static tutti_status join(tutti **t, MPI_Comm comm, const tutti_config *config)
{
    struct mpi_job *job;
    struct context_spec spec;
    tutti_status status = setup_begin(&spec, config, -1);

    if (status != TUTTI_OK) {
        return status;
    }
    job = mem_calloc(1, sizeof *job);
    if (job == NULL) {
        context_spec_fini(&spec);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to initialise");
    }
    status = control_mpi_job_init(job, comm);
    if (status != TUTTI_OK) {
        mem_free(job);
        context_spec_fini(&spec);
        return status;
    }
    return start(t, &spec, job);
}

tutti_status tutti_init(tutti **t, const tutti_config *config)
{
    if (t == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_init: t is NULL");
    }
    return join(t, MPI_COMM_NULL, config);
}

tutti_status tutti_init_mpi(tutti **t, MPI_Comm comm, const tutti_config *config)
{
    if (t == NULL || comm == MPI_COMM_NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_init_mpi: %s",
                t == NULL ? "t is NULL" : "comm is MPI_COMM_NULL");
    }
    return join(t, comm, config);
}
