/*
 * Joining an MPI job: the launcher's world, or a communicator of the caller.
 */
#include <assert.h>

#include <tutti/mpi.h>

#include "api/gpus.h"
#include "api/neighbours.h"
#include "api/setup.h"
#include "base/mem.h"
#include "control/mpi.h"
#include "ops/hier/hier.h"
#include "ops/mpi/mpi.h"
#include "ops/self/self.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_board.h"

/** What a context of an MPI job stands on; lives as long as it. */
struct mpi_ground {
    struct mpi_job job;
    struct shm_domain *domain; /* the memory shared with this node; NULL: none */
    bool all_share; /* every node with several ranks shares memory; equal on all ranks */
    struct hier_ground nodes; /* of sets that span nodes */
    struct hier_ground caches; /* of sets on one node that span caches */
    struct gpus gpus; /* this rank's */
    int rank;
};

/* A node's ranks are divided by cache from here on. */
#define CACHES_SIZE_MIN 9

static void leave(void *user, bool failed)
{
    struct mpi_ground *ground = user;

    gpus_close(&ground->gpus);
    shm_domain_destroy(ground->domain);
    if (failed) {
        control_mpi_job_abandon(&ground->job);
    } else {
        control_mpi_job_fini(&ground->job);
    }
    mem_free(ground);
}

static void *shared_alloc(void *user, size_t bytes)
{
    const struct mpi_ground *ground = user;

    return shm_domain_alloc(ground->domain, ground->rank, bytes);
}

static void shared_free(void *user, void *memory)
{
    const struct mpi_ground *ground = user;

    shm_domain_free(ground->domain, ground->rank, memory);
}

static void add_backend(
        struct context_spec *spec, const struct op_backend *backend, void *native)
{
    spec->natives[spec->backend_count] = native;
    spec->backends[spec->backend_count++] = backend;
}

/* -------------------------------------------------------------------- groups */

static bool divides_nodes(
        const struct context_spec *spec, const struct mpi_ground *ground)
{
    return ground->all_share && spec->nodes.count > 1 &&
            spec->config.hierarchy != CONFIG_HIERARCHY_FLAT;
}

/* May differ between nodes: it is about sets that are within one. */
static bool divides_caches(
        const struct context_spec *spec, const struct mpi_ground *ground)
{
    return ground->domain != NULL && spec->caches.count > spec->nodes.count &&
            (spec->config.hierarchy == CONFIG_HIERARCHY_AUTO ||
                    spec->config.hierarchy == CONFIG_HIERARCHY_CACHE);
}

/* A rank that is alone on its node has no domain, and needs none. */
static void add_nodes(struct context_spec *spec, struct mpi_ground *ground)
{
    const bool is_alone = ground->domain == NULL;

    ground->nodes = (struct hier_ground){ .inner = is_alone ? &op_self : &op_shm,
        .across = &op_mpi,
        .inner_native = ground->domain,
        .across_native = ground->job.data,
        .group_of = spec->nodes.node_of,
        .alloc = is_alone ? NULL : shared_alloc,
        .give_back = is_alone ? NULL : shared_free,
        .user = ground };
    add_backend(spec, &op_hier, &ground->nodes);
    log_debug(&spec->log,
            "sets that span nodes: shared memory inside the %d nodes, MPI messages "
            "between them",
            spec->nodes.count);
}

static void add_caches(struct context_spec *spec, struct mpi_ground *ground)
{
    const bool always = spec->config.hierarchy == CONFIG_HIERARCHY_CACHE;

    ground->caches = (struct hier_ground){ .inner = &op_shm,
        .across = &op_shm,
        .inner_native = ground->domain,
        .across_native = ground->domain,
        .group_of = spec->caches.node_of,
        .within = spec->nodes.node_of,
        .size_min = always ? 0 : CACHES_SIZE_MIN,
        .alloc = shared_alloc,
        .give_back = shared_free,
        .user = ground };
    add_backend(spec, &op_hier, &ground->caches);
    log_debug(&spec->log,
            "sets of %d ranks or more on one node: shared memory inside the %d groups "
            "of ranks that share a cache, then between them",
            always ? 3 : CACHES_SIZE_MIN, spec->caches.count);
}

static void choose_backends(struct context_spec *spec, struct mpi_ground *ground)
{
    add_backend(spec, &op_self, NULL);
    if (divides_caches(spec, ground)) {
        add_caches(spec, ground);
    }
    if (ground->domain != NULL) {
        add_backend(spec, &op_shm, ground->domain);
        spec->memory = (struct memory){
            .alloc = shared_alloc, .give_back = shared_free, .user = ground
        };
        spec->board = shm_board(ground->domain);
    }
    if (divides_nodes(spec, ground)) {
        add_nodes(spec, ground);
    }
    if (spec->config.backend == CONFIG_BACKEND_VENDOR) {
        add_backend(spec, &op_mpi_vendor, ground->job.data);
    }
    add_backend(spec, &op_mpi, ground->job.data);
}

/* How many the backends need is known when the ranks have agreed on the configuration. */
static tutti_status add_communicators(
        const struct context_spec *spec, struct mpi_ground *ground)
{
    static_assert(OP_LANES <= MPI_JOB_DATA_MAX, "each lane may have a communicator");

    return spec->config.backend == CONFIG_BACKEND_VENDOR
            ? control_mpi_job_widen(&ground->job, OP_LANES)
            : TUTTI_OK;
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
static tutti_status start(
        tutti **t, struct context_spec *spec, struct mpi_ground *ground)
{
    tutti_status status;

    spec->release = leave;
    spec->release_user = ground;
    status = control_mpi_open(&ground->job, &spec->control);
    if (status == TUTTI_OK) {
        spec->rank = spec->control.rank;
        spec->size = spec->control.size;
        spec->log.rank = spec->rank;
        if (spec->size > 1) {
            notice_open(&spec->notice, config_internal(NOTICE_VARIABLE));
        }
        spec->any_thread = ground->job.thread_level == MPI_THREAD_MULTIPLE;
        ground->rank = spec->rank;
        spec->expects_gpus = gpus_expected(&spec->config);
        status = setup_agree(spec);
    }
    if (status == TUTTI_OK) {
        status = add_communicators(spec, ground);
    }
    if (status == TUTTI_OK) {
        status = neighbours_meet(spec, &ground->domain, &ground->all_share);
    }
    if (status == TUTTI_OK && spec->expects_gpus) {
        status = gpus_meet(&ground->gpus, spec);
    }
    if (status != TUTTI_OK) {
        context_spec_fini(spec);
        return status;
    }
    choose_backends(spec, ground);
    say_thread_level(spec);
    return context_create(t, spec);
}

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
            "them: the program is linked to another MPI than the mpirun or srun that "
            "started it. Start it with that MPI's mpirun (tuttirun finds it; under "
            "srun, try --mpi=pmix or --mpi=pmi2)",
            variable, launched);
}

/* The process's part in the job; of the world when comm is MPI_COMM_NULL. */
static tutti_status join_job(struct mpi_job *job, MPI_Comm comm)
{
    tutti_status status = control_mpi_job_init(job, comm);

    if (status == TUTTI_OK && comm == MPI_COMM_NULL) {
        status = check_world();
        if (status != TUTTI_OK) {
            control_mpi_job_fini(job);
        }
    }
    return status;
}

static tutti_status join(tutti **t, MPI_Comm comm, const tutti_config *config)
{
    struct mpi_ground *ground;
    struct context_spec spec;
    tutti_status status = setup_begin(&spec, config, -1);

    if (status != TUTTI_OK) {
        return status;
    }
    ground = mem_calloc(1, sizeof *ground);
    if (ground == NULL) {
        context_spec_fini(&spec);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to initialise");
    }
    status = join_job(&ground->job, comm);
    if (status != TUTTI_OK) {
        mem_free(ground);
        context_spec_fini(&spec);
        return status;
    }
    return start(t, &spec, ground);
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
