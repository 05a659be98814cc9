/*
 * Joining an MPI job: the launcher's world, or a communicator of the caller.
 */
#include <assert.h>
#include <errno.h>

#include <tutti/mpi.h>

#include "api/call.h"
#include "api/gpus.h"
#include "api/link.h"
#include "api/neighbours.h"
#include "api/setup.h"
#include "base/error.h"
#include "base/failure_page.h"
#include "base/mem.h"
#include "fabric/mpi/mpi_job.h"
#include "fabric/mpi/mpi_life.h"
#include "ops/gpu/gpu.h"
#include "ops/hier/hier.h"
#include "ops/mpi/vendor.h"
#include "ops/p2p/p2p.h"
#include "ops/self/self.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_board.h"
#include "transport/fabric.h"

/** What a context of an MPI job is built on; freed with it. */
struct mpi_env {
    struct mpi_job job;
    struct shm_domain *domain; /* the memory shared with this node; NULL: none */
    bool all_share; /* every node with several ranks shares memory; equal on all ranks */
    struct hier_config nodes; /* of sets that span nodes */
    struct hier_config caches; /* of sets on one node that span caches */
    int *node_of, *cache_of; /* [ranks] for these two; owned; NULL: not needed */
    struct gpu *gpu; /* this rank's; owned */
    struct failure_page failure_page; /* the context's, once it has one */
    bool has_started; /* all ranks have a context */
    int rank;
};

/* A node's ranks are divided by cache from here on. */
#define CACHES_SIZE_MIN 9

/*
 * Batches between nodes are done in pieces of so many chunks: of 4 MiB with chunks of 256 KiB,
 * which 10 Gbit/s carry in 3 ms, and legs start in some 100 us.
 */
#define NODES_PIECE_CHUNKS 16

/* Whether tuttirun has posted that the job failed: then not all ranks will come. */
static tutti_status look_at_failure_page(void *user)
{
    const struct mpi_env *env = user;
    char text[FAILURE_PAGE_TEXT_MAX];
    int rank = -1;

    if (!failure_page_is_posted(&env->failure_page)) {
        return TUTTI_OK;
    }
    failure_page_read(&env->failure_page, &rank, text);
    return error_set(TUTTI_ERR_CONTEXT_FAILED, "the context has failed: %s", text);
}

static tutti_status leave_mpi(void *user, bool failed)
{
    struct mpi_env *env = user;
    enum mpi_job_end end = failed ? MPI_JOB_FAILED : MPI_JOB_ENDED;
    tutti_status status;

    gpu_close(env->gpu);
    shm_domain_destroy(env->domain);
    status = mpi_job_fini(&env->job, env->has_started ? end : MPI_JOB_NOT_BEGUN);
    mem_free(env->node_of);
    mem_free(env->cache_of);
    mem_free(env);
    return status;
}

static tutti_status agree(void *user, tutti_status mine)
{
    const struct mpi_env *env = user;

    return mpi_job_agree(&env->job, mine);
}

static void *shared_alloc(void *user, size_t bytes)
{
    const struct mpi_env *env = user;
    void *memory = shm_domain_alloc(env->domain, env->rank, bytes);

    return memory == NULL && errno == ENOSPC ? mem_alloc_aligned(bytes) : memory;
}

static void shared_free(void *user, void *memory)
{
    const struct mpi_env *env = user;

    shm_domain_free(env->domain, env->rank, memory);
}

static tutti_status share_pages(void *user, void *memory, size_t bytes)
{
    const struct mpi_env *env = user;

    return shm_domain_share(env->domain, env->rank, memory, bytes);
}

static tutti_status unshare_pages(void *user, const void *memory)
{
    const struct mpi_env *env = user;

    return shm_domain_unshare(env->domain, env->rank, memory);
}

static void add_backend(
        struct context_spec *spec, const struct op_backend *backend, void *native)
{
    spec->natives[spec->backend_count] = native;
    spec->backends[spec->backend_count++] = backend;
}

/* -------------------------------------------------------------------- groups */

static bool divides_nodes(const struct context_spec *spec, const struct mpi_env *env)
{
    return env->all_share && spec->nodes.count > 1 &&
            spec->config.hierarchy != CONFIG_HIERARCHY_FLAT;
}

/* May differ between nodes: it is about sets that are within one. */
static bool divides_caches(const struct context_spec *spec, const struct mpi_env *env)
{
    return env->domain != NULL && spec->caches.count > spec->nodes.count &&
            (spec->config.hierarchy == CONFIG_HIERARCHY_AUTO ||
                    spec->config.hierarchy == CONFIG_HIERARCHY_CACHE);
}

/* Where ranks are, for backends that look that up for each batch. */
static tutti_status make_tables(const struct context_spec *spec, struct mpi_env *env)
{
    const bool with_nodes = divides_nodes(spec, env) || divides_caches(spec, env);
    const bool with_caches = divides_caches(spec, env);

    env->node_of = with_nodes ? nodes_table(&spec->nodes) : NULL;
    env->cache_of = with_caches ? nodes_table(&spec->caches) : NULL;
    if ((with_nodes && env->node_of == NULL) ||
            (with_caches && env->cache_of == NULL)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", spec->size);
    }
    return TUTTI_OK;
}

/* A rank that is alone on its node has no domain, and needs none. */
static void add_nodes(struct context_spec *spec, struct mpi_env *env)
{
    const bool is_alone = env->domain == NULL;

    env->nodes = (struct hier_config){ .inner = is_alone ? &op_self : &op_shm,
        .across = &op_p2p,
        .inner_native = env->domain,
        .across_native = &env->job.fabric,
        .group_of = env->node_of,
        .piece_chunks = NODES_PIECE_CHUNKS,
        .alloc = is_alone ? NULL : shared_alloc,
        .give_back = is_alone ? NULL : shared_free,
        .user = env };
    add_backend(spec, &op_hier, &env->nodes);
    log_debug(&spec->log,
            "sets that span nodes: shared memory inside the %d nodes, messages "
            "between them",
            spec->nodes.count);
}

static void add_caches(struct context_spec *spec, struct mpi_env *env)
{
    const bool always = spec->config.hierarchy == CONFIG_HIERARCHY_CACHE;

    env->caches = (struct hier_config){ .inner = &op_shm,
        .across = &op_shm,
        .inner_native = env->domain,
        .across_native = env->domain,
        .group_of = env->cache_of,
        .within = env->node_of,
        .size_min = always ? 0 : CACHES_SIZE_MIN,
        .alloc = shared_alloc,
        .give_back = shared_free,
        .user = env };
    add_backend(spec, &op_hier, &env->caches);
    log_debug(&spec->log,
            "sets of %d ranks or more on one node: shared memory inside the %d groups "
            "of ranks that share a cache, then between them",
            always ? 3 : CACHES_SIZE_MIN, spec->caches.count);
}

static void choose_backends(struct context_spec *spec, struct mpi_env *env)
{
    add_backend(spec, &op_self, NULL);
    if (divides_caches(spec, env)) {
        add_caches(spec, env);
    }
    if (env->domain != NULL) {
        add_backend(spec, &op_shm, env->domain);
        spec->memory = (struct memory){ .alloc = shared_alloc,
            .give_back = shared_free,
            .share = share_pages,
            .unshare = unshare_pages,
            .user = env };
        spec->board = shm_board(env->domain);
    }
    if (divides_nodes(spec, env)) {
        add_nodes(spec, env);
    }
    if (spec->config.backend == CONFIG_BACKEND_VENDOR) {
        add_backend(spec, &op_mpi_vendor, &env->job.data);
    }
    add_backend(spec, &op_p2p, &env->job.fabric);
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

static tutti_status open_control(struct context_spec *spec, struct mpi_env *env)
{
    const tutti_status status =
            transport_fabric_open(&env->job.fabric, &spec->transport);

    if (status == TUTTI_OK) {
        spec->rank = spec->transport.rank;
        spec->size = spec->transport.size;
        spec->log.rank = spec->rank;
        spec->any_thread = env->job.thread_level == MPI_THREAD_MULTIPLE;
        env->rank = spec->rank;
        setup_warn(spec);
    }
    return status;
}

/* Each step is done by all ranks or ends the start of all. */
static tutti_status prepare(struct context_spec *spec, struct mpi_env *env)
{
    tutti_status status = agree(env, open_control(spec, env));

    if (status == TUTTI_OK) {
        if (spec->size > 1) {
            failure_page_open(
                    &spec->failure_page, config_internal(FAILURE_PAGE_VARIABLE));
        }
        spec->expects_gpus = gpus_expected(&spec->config);
        status = agree(env, setup_agree(spec));
    }
    if (status == TUTTI_OK) {
        status = agree(env, link_meet(spec, &env->job.fabric));
    }
    if (status == TUTTI_OK) {
        status = agree(env, neighbours_meet(spec, &env->domain, &env->all_share));
    }
    if (status == TUTTI_OK && spec->expects_gpus) {
        status = agree(env, gpus_meet(&env->gpu, spec));
    }
    if (status == TUTTI_OK) {
        status = agree(env, make_tables(spec, env));
    }
    return status;
}

/* The job is joined; the spec takes it over in any case. */
static tutti_status start(tutti **t, struct context_spec *spec, struct mpi_env *env)
{
    tutti_status status;

    spec->agree = agree;
    spec->release = leave_mpi;
    spec->user = env;
    status = prepare(spec, env);
    if (status != TUTTI_OK) {
        context_spec_fini(spec);
        return status;
    }
    choose_backends(spec, env);
    say_thread_level(spec);
    status = context_create(t, spec);
    if (status == TUTTI_OK) {
        env->has_started = true;
        env->failure_page = (*t)->failure.page;
        env->job.look = look_at_failure_page;
        env->job.user = env;
    }
    return status;
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
    tutti_status status = mpi_job_init(job, comm);

    if (status == TUTTI_OK && comm == MPI_COMM_NULL) {
        status = check_world();
        if (status != TUTTI_OK) {
            (void)mpi_job_fini(job, MPI_JOB_NOT_BEGUN);
        }
    }
    return status;
}

/*
 * This rank has failed before it could join: it joins to say so, where MPI runs. Where it does
 * not, the others wait in MPI_Init until the launcher sees that this process has ended.
 */
static tutti_status refuse(MPI_Comm comm, tutti_status status)
{
    struct mpi_job job;
    struct error error;

    error_fill(&error, status, -1, "%s", tutti_last_error());
    if (mpi_is_on() && mpi_job_init(&job, comm) == TUTTI_OK) {
        (void)!mpi_job_agree(&job, error_raise(&error));
        (void)mpi_job_fini(&job, MPI_JOB_NOT_BEGUN);
    }
    return error_raise(&error);
}

static tutti_status join(tutti **t, MPI_Comm comm, const tutti_config *config)
{
    struct mpi_env *env;
    struct context_spec spec = { 0 };
    tutti_status status = mpi_life_check();

    if (status != TUTTI_OK) {
        return status;
    }
    status = setup_begin(&spec, config, -1);
    if (status != TUTTI_OK) {
        return refuse(comm, status);
    }
    env = mem_calloc(1, sizeof *env);
    if (env == NULL) {
        context_spec_fini(&spec);
        return refuse(comm, error_set(TUTTI_ERR_NO_MEMORY, "no memory to initialise"));
    }
    status = join_job(&env->job, comm);
    if (status != TUTTI_OK) {
        mem_free(env);
        context_spec_fini(&spec);
        return status;
    }
    return start(t, &spec, env);
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

tutti_status tutti_init_ranks(
        tutti **t, const int *ranks, int n, const tutti_config *config)
{
    MPI_Comm comm = MPI_COMM_NULL;
    tutti_status status;

    if (t == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_init_ranks: t is NULL");
    }
    status = check_among(ranks, n);
    if (status == TUTTI_OK) {
        status = among(ranks, n, &comm);
    }
    if (status == TUTTI_OK) {
        status = join(t, comm, config);
        (void)MPI_Comm_free(&comm);
    }
    return status;
}

tutti_status tutti_mpi_hold(void)
{
    const tutti_status status = mpi_life_check();

    return status == TUTTI_OK ? mpi_life_hold() : status;
}

tutti_status tutti_mpi_release(void)
{
    const tutti_status status = mpi_life_check();

    return status == TUTTI_OK ? mpi_life_release() : status;
}
