/*
 * The start of a context over a job, whoever provides it.
 */
#include "api/init.h"

#include <errno.h>

#include "api/gpus.h"
#include "api/link.h"
#include "api/neighbours.h"
#include "api/setup.h"
#include "base/error.h"
#include "base/failure_page.h"
#include "base/mem.h"
#include "ops/gpu/gpu.h"
#include "ops/hier/hier.h"
#include "ops/p2p/p2p.h"
#include "ops/self/self.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_board.h"
#include "transport/agreement.h"
#include "transport/fabric.h"

/** What a context is built on; freed with it. */
struct init_env {
    struct job *job; /* owned */
    struct agreement agreement;
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
    const struct init_env *env = user;
    char text[FAILURE_PAGE_TEXT_MAX];
    int rank = -1;

    if (!failure_page_is_posted(&env->failure_page)) {
        return TUTTI_OK;
    }
    failure_page_read(&env->failure_page, &rank, text);
    return error_set(TUTTI_ERR_CONTEXT_FAILED, "the context has failed: %s", text);
}

static tutti_status leave_job(void *user, bool failed)
{
    struct init_env *env = user;
    enum job_end end = failed ? JOB_FAILED : JOB_ENDED;
    tutti_status status;

    gpu_close(env->gpu);
    status = env->job->leave(env->job, env->has_started ? end : JOB_NOT_BEGUN);
    shm_domain_destroy(env->domain); /* the job rang a bell in it */
    mem_free(env->node_of);
    mem_free(env->cache_of);
    if (!env->agreement.is_left) {
        mem_free(env);
    }
    return status;
}

static tutti_status agree(void *user, tutti_status mine)
{
    struct init_env *env = user;

    return agreement_reach(&env->agreement, &env->job->fabric, mine);
}

static void *shared_alloc(void *user, size_t bytes)
{
    const struct init_env *env = user;
    void *memory = shm_domain_alloc(env->domain, env->rank, bytes);

    return memory == NULL && errno == ENOSPC ? mem_alloc_aligned(bytes) : memory;
}

static void shared_free(void *user, void *memory)
{
    const struct init_env *env = user;

    shm_domain_free(env->domain, env->rank, memory);
}

static tutti_status share_pages(void *user, void *memory, size_t bytes)
{
    const struct init_env *env = user;

    return shm_domain_share(env->domain, env->rank, memory, bytes);
}

static tutti_status unshare_pages(void *user, const void *memory)
{
    const struct init_env *env = user;

    return shm_domain_unshare(env->domain, env->rank, memory);
}

static void add_backend(
        struct context_spec *spec, const struct op_backend *backend, void *native)
{
    spec->natives[spec->backend_count] = native;
    spec->backends[spec->backend_count++] = backend;
}

/* -------------------------------------------------------------------- groups */

static bool divides_nodes(const struct context_spec *spec, const struct init_env *env)
{
    return env->all_share && spec->nodes.count > 1 &&
            spec->config.hierarchy != CONFIG_HIERARCHY_FLAT;
}

/* May differ between nodes: it is about sets that are within one. */
static bool divides_caches(const struct context_spec *spec, const struct init_env *env)
{
    return env->domain != NULL && spec->caches.count > spec->nodes.count &&
            (spec->config.hierarchy == CONFIG_HIERARCHY_AUTO ||
                    spec->config.hierarchy == CONFIG_HIERARCHY_CACHE);
}

/* Where ranks are, for backends that look that up for each batch. */
static tutti_status make_tables(const struct context_spec *spec, struct init_env *env)
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
static void add_nodes(struct context_spec *spec, struct init_env *env)
{
    const bool is_alone = env->domain == NULL;

    env->nodes = (struct hier_config){ .inner = is_alone ? &op_self : &op_shm,
        .across = &op_p2p,
        .inner_native = env->domain,
        .across_native = &env->job->fabric,
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

static void add_caches(struct context_spec *spec, struct init_env *env)
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

static void choose_backends(struct context_spec *spec, struct init_env *env)
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
    if (spec->config.backend == CONFIG_BACKEND_VENDOR && env->job->vendor != NULL) {
        add_backend(spec, env->job->vendor, env->job->vendor_native);
    }
    add_backend(spec, &op_p2p, &env->job->fabric);
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

static tutti_status open_control(struct context_spec *spec, struct init_env *env)
{
    const tutti_status status =
            transport_fabric_open(&env->job->fabric, &spec->transport);

    if (status == TUTTI_OK) {
        spec->rank = spec->transport.rank;
        spec->size = spec->transport.size;
        spec->log.rank = spec->rank;
        spec->any_thread = env->job->any_thread;
        env->rank = spec->rank;
        setup_warn(spec);
    }
    return status;
}

/* Each step is done by all ranks or ends the start of all. */
static tutti_status prepare(struct context_spec *spec, struct init_env *env)
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
        status = agree(env, link_meet(spec, &env->job->fabric));
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

static tutti_status check_vendor(const struct context_spec *spec, const struct job *job)
{
    return spec->config.backend == CONFIG_BACKEND_VENDOR && job->vendor == NULL
            ? error_set(TUTTI_ERR_CONFIG,
                      "backend=vendor means the collectives of an MPI, and the "
                      "messages of "
                      "this job go over %s; use another backend, or transport=mpi",
                      job->name)
            : TUTTI_OK;
}

static struct doorbell *bell_of(const void *user, int rank)
{
    return shm_domain_bell(user, rank);
}

/* Ranks of a node wake each other by doorbells in the memory that they share. */
static void share_bells(struct context_spec *spec, const struct init_env *env)
{
    if (env->domain != NULL && spec->transport.ops->wakes) {
        spec->bell = shm_domain_bell(env->domain, env->rank);
        transport_fabric_bells(&spec->transport, bell_of, env->domain);
    }
}

/* The job is joined; the spec takes it over in any case. */
static tutti_status start(tutti **t, struct context_spec *spec, struct init_env *env)
{
    tutti_status status;

    spec->agree = agree;
    spec->release = leave_job;
    spec->user = env;
    status = prepare(spec, env);
    if (status == TUTTI_OK) {
        status = check_vendor(spec, env->job); /* the same on all ranks */
    }
    if (status != TUTTI_OK) {
        context_spec_fini(spec);
        return status;
    }
    choose_backends(spec, env);
    share_bells(spec, env);
    say_thread_level(spec);
    status = context_create(t, spec);
    if (status == TUTTI_OK) {
        env->has_started = true;
        env->failure_page = (*t)->failure.page;
        env->job->look = look_at_failure_page;
        env->job->user = env;
    }
    return status;
}

/* This rank has failed before it could join: it joins to say so. */
static tutti_status refuse(const struct job_source *source, tutti_status status)
{
    struct agreement agreement = { .is_left = false };
    struct job *job;
    struct error error;

    error_fill(&error, status, -1, "%s", tutti_last_error());
    if (source->join(source->user, true, &job) == TUTTI_OK) {
        (void)!agreement_reach(&agreement, &job->fabric, error_raise(&error));
        (void)job->leave(job, JOB_NOT_BEGUN);
    }
    return error_raise(&error);
}

tutti_status init_join(
        tutti **t, const struct job_source *source, const tutti_config *config)
{
    struct init_env *env;
    struct context_spec spec = { 0 };
    tutti_status status = setup_begin(&spec, config, -1);

    if (status != TUTTI_OK) {
        return refuse(source, status);
    }
    env = mem_calloc(1, sizeof *env);
    if (env == NULL) {
        context_spec_fini(&spec);
        return refuse(
                source, error_set(TUTTI_ERR_NO_MEMORY, "no memory to initialise"));
    }
    status = source->join(source->user, false, &env->job);
    if (status != TUTTI_OK) {
        mem_free(env);
        context_spec_fini(&spec);
        return status == TUTTI_ERR_NO_MEMORY ? refuse(source, status) : status;
    }
    return start(t, &spec, env);
}
