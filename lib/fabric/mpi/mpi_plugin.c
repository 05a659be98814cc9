/*
 * The plug-in of an MPI: the jobs of its ranks, and what of the public interface names MPI.
 */
#include <tutti/mpi.h>

#include "api/call.h"
#include "api/init.h"
#include "api/plugin.h"
#include "base/error.h"
#include "fabric/mpi/mpi_job.h"
#include "fabric/mpi/mpi_life.h"
#include "ops/mpi/vendor.h"

static tutti_status join(void *user, bool refuses, struct job **job)
{
    const tutti_status status = mpi_job_join(user, refuses, job);

    if (status == TUTTI_OK) {
        (*job)->vendor = &op_mpi_vendor;
    }
    return status;
}

tutti_status tutti_init_mpi(tutti **t, MPI_Comm comm, const tutti_config *config)
{
    const struct job_source source = { .join = join, .user = &comm };

    if (t == NULL || comm == MPI_COMM_NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_init_mpi: %s",
                t == NULL ? "t is NULL" : "comm is MPI_COMM_NULL");
    }
    return init_join(t, &source, config);
}

/* A communicator of some ranks of the world. */
static tutti_status among(const int *ranks, int n, MPI_Comm *comm)
{
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    int code = MPI_Comm_group(MPI_COMM_WORLD, &world);

    if (code == MPI_SUCCESS) {
        code = MPI_Group_incl(world, n, ranks, &group);
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, comm);
    }
    if (group != MPI_GROUP_NULL) {
        (void)MPI_Group_free(&group);
    }
    if (world != MPI_GROUP_NULL) {
        (void)MPI_Group_free(&world);
    }
    return code == MPI_SUCCESS ? TUTTI_OK : mpi_error(code, "MPI_Comm_create_group");
}

/* MPI would end the process if it were called with these. */
static tutti_status check_among(const int *ranks, int n)
{
    tutti_status status = mpi_life_check();
    int size = 0;
    int rank = -1;

    if (status != TUTTI_OK) {
        return status;
    }
    if (!mpi_is_on()) {
        return error_set(TUTTI_ERR_MPI,
                "tutti_init_ranks: MPI is not running; call tutti_init() or "
                "tutti_mpi_hold() first");
    }
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    status = call_check_ranks("tutti_init_ranks", ranks, n, size);
    for (int i = 0; status == TUTTI_OK && i < n; i++) {
        if (ranks[i] == rank) {
            return TUTTI_OK;
        }
    }
    return status != TUTTI_OK
            ? status
            : error_set(TUTTI_ERR_INVALID,
                      "tutti_init_ranks: this is rank %d, which is not "
                      "listed; only the listed ranks may call it",
                      rank);
}

static tutti_status init_ranks(
        tutti **t, const int *ranks, int n, const tutti_config *config)
{
    MPI_Comm comm = MPI_COMM_NULL;
    const struct job_source source = { .join = join, .user = &comm };
    tutti_status status = check_among(ranks, n);

    if (status == TUTTI_OK) {
        status = among(ranks, n, &comm);
    }
    if (status == TUTTI_OK) {
        status = init_join(t, &source, config);
        (void)MPI_Comm_free(&comm);
    }
    return status;
}

static tutti_status hold(void)
{
    const tutti_status status = mpi_life_check();

    return status == TUTTI_OK ? mpi_life_hold() : status;
}

static tutti_status release(void)
{
    const tutti_status status = mpi_life_check();

    return status == TUTTI_OK ? mpi_life_release() : status;
}

const struct mpi_plugin mpi_plugin = {
    .version = TUTTI_VERSION_STRING,
    .name = TUTTI_MPI_NAME,
    .join = join,
    .init_ranks = init_ranks,
    .hold = hold,
    .release = release,
};
