/*
 * Several ranks in one process: one for each of n threads.
 */
#include "api/gpus.h"
#include "api/setup.h"
#include "base/mem.h"
#include "ops/self/self.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_arrival_flags.h"
#include "run/stop.h"
#include "transport/inproc.h"

#define LOCAL_RANKS_MAX 1024

/* What the ranks of one tutti_init_local() share; freed by the last of them. */
struct local_job {
    struct shm_domain *domain;
    struct doorbell *bells; /* one per rank: a peer may still ring one that has left */
    struct local_rank *ranks; /* one per rank */
    _Atomic int users;
};

/* A rank of it. */
struct local_rank {
    struct local_job *job;
    struct gpus gpus; /* its own */
};

static void leave_job(struct local_job *job)
{
    /* The last one sees all that the others did: acquire and release in one. */
    if (atomic_fetch_sub_explicit(&job->users, 1, memory_order_acq_rel) == 1) {
        if (job->domain != NULL) {
            shm_domain_destroy(job->domain);
        }
        mem_free(job->bells);
        mem_free(job->ranks);
        mem_free(job);
    }
}

static tutti_status leave(void *user, bool failed)
{
    struct local_rank *rank = user;

    (void)failed;
    gpus_close(&rank->gpus);
    leave_job(rank->job);
    return TUTTI_OK;
}

static struct local_job *job_create(int n)
{
    struct local_job *job = mem_calloc(1, sizeof *job);

    if (job == NULL) {
        return NULL;
    }
    atomic_init(&job->users, 1);
    job->domain = shm_domain_create(n);
    job->bells = mem_calloc((size_t)n, sizeof *job->bells);
    job->ranks = mem_calloc((size_t)n, sizeof *job->ranks);
    if (job->domain == NULL || job->bells == NULL || job->ranks == NULL) {
        leave_job(job);
        return NULL;
    }
    return job;
}

static tutti_status open_controls(
        int n, struct local_job *job, struct transport *controls)
{
    struct doorbell **bells = mem_calloc((size_t)n, sizeof(struct doorbell *));
    tutti_status status;

    if (bells == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    for (int i = 0; i < n; i++) {
        bells[i] = &job->bells[i];
    }
    status = transport_inproc_open(n, bells, controls);
    mem_free(bells);
    return status;
}

/* All ranks are on one node: nothing has to be exchanged. */
static tutti_status one_node(struct nodes *nodes, int n)
{
    const char **hosts = mem_calloc((size_t)n, sizeof *hosts);
    tutti_status status;

    if (hosts == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", n);
    }
    for (int i = 0; i < n; i++) {
        hosts[i] = "";
    }
    status = nodes_init(nodes, hosts, n);
    mem_free(hosts);
    return status;
}

/* As between processes: backend=mpi and vendor are to agree over messages. */
static bool shows_words(const struct config *config)
{
    return config->backend == CONFIG_BACKEND_AUTO ||
            config->backend == CONFIG_BACKEND_SHM;
}

/* Takes over the control end, and makes one of the job's users of the spec. */
static tutti_status prepare_rank(struct context_spec *spec, const tutti_config *config,
        const struct transport *transport, struct local_job *job)
{
    struct local_rank *rank = &job->ranks[transport->rank];
    tutti_status status = setup_begin(spec, config, transport->rank);

    (void)atomic_fetch_add_explicit(&job->users, 1, memory_order_relaxed);
    rank->job = job;
    spec->size = transport->size;
    spec->transport = *transport;
    spec->bell = &job->bells[transport->rank];
    spec->any_thread = true;
    if (shows_words(&spec->config)) {
        spec->arrival_flags = shm_arrival_flags(job->domain);
    }
    spec->release = leave;
    spec->user = rank;
    return status == TUTTI_OK ? one_node(&spec->nodes, transport->size) : status;
}

/* Each rank opens a GPU, and all decide on what all have. */
static tutti_status open_gpus(
        int n, struct context_spec *specs, const struct local_job *job)
{
    struct gpu_facts *facts = mem_calloc((size_t)n, sizeof *facts);
    tutti_status status = TUTTI_OK;

    if (facts == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", n);
    }
    for (int i = 0; i < n; i++) {
        gpus_open(&job->ranks[i].gpus, &specs[i], n == 1, i, &facts[i]);
    }
    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        status = gpus_decide(&job->ranks[i].gpus, &specs[i], facts);
    }
    mem_free(facts);
    return status;
}

static void add_backends(struct context_spec *spec, const struct local_job *job)
{
    spec->backends[spec->backend_count++] = &op_self;
    spec->natives[spec->backend_count] = job->domain;
    spec->backends[spec->backend_count++] = &op_shm;
}

/* *prepared counts the specs that hold something. */
static tutti_status prepare_all(int n, const tutti_config *config,
        struct local_job *job, const struct transport *controls,
        struct context_spec *specs, int *prepared)
{
    tutti_status status = TUTTI_OK;

    while (*prepared < n && status == TUTTI_OK) {
        status = prepare_rank(&specs[*prepared], config, &controls[*prepared], job);
        ++*prepared;
    }
    if (status == TUTTI_OK && gpus_expected(&specs[0].config)) {
        status = open_gpus(n, specs, job);
    }
    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        add_backends(&specs[i], job);
    }
    return status;
}

/* The specs are taken over. */
static tutti_status start_ranks(
        int n, struct tutti **contexts, struct context_spec *specs)
{
    tutti_status status = TUTTI_OK;
    int started = 0;

    while (started < n && status == TUTTI_OK) {
        status = context_create(&contexts[started], &specs[started]);
        started++;
    }
    if (status != TUTTI_OK) {
        for (int i = 0; i < started - 1; i++) {
            (void)context_destroy(contexts[i]);
        }
        for (int i = started; i < n; i++) {
            context_spec_fini(&specs[i]);
        }
    }
    return status;
}

/* Takes the control ends over. */
static tutti_status start_with(struct tutti **contexts, const tutti_config *config,
        struct local_job *job, const struct transport *controls)
{
    const int n = controls[0].size;
    struct context_spec *specs = mem_calloc((size_t)n, sizeof *specs);
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    int prepared = 0;

    if (specs != NULL) {
        status = prepare_all(n, config, job, controls, specs, &prepared);
    }
    if (status == TUTTI_OK) {
        status = start_ranks(n, contexts, specs);
    } else {
        for (int i = 0; i < prepared; i++) {
            context_spec_fini(&specs[i]);
        }
        for (int i = prepared; i < n; i++) {
            controls[i].ops->close(controls[i].state);
        }
    }
    mem_free(specs);
    return status;
}

static tutti_status start_all(int n, struct tutti **contexts,
        const tutti_config *config, struct local_job *job)
{
    struct transport *controls = mem_calloc((size_t)n, sizeof *controls);
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    if (controls != NULL) {
        status = open_controls(n, job, controls);
    }
    if (status != TUTTI_OK) {
        mem_free(controls);
        return error_set(status, "no memory for %d ranks", n);
    }
    status = start_with(contexts, config, job, controls);
    mem_free(controls);
    return status;
}

tutti_status tutti_init_local(int n, tutti **contexts, const tutti_config *config)
{
    struct local_job *job;
    struct tutti **started;
    tutti_status status;

    if (n < 1 || n > LOCAL_RANKS_MAX || contexts == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_init_local: n is %d (1 to %d are possible)%s", n,
                LOCAL_RANKS_MAX, contexts == NULL ? " and contexts is NULL" : "");
    }
    started = mem_calloc((size_t)n, sizeof(struct tutti *));
    job = job_create(n);
    if (job == NULL || started == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", n);
    } else {
        status = start_all(n, started, config, job);
    }
    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        contexts[i] = started[i];
    }
    if (job != NULL) {
        leave_job(job);
    }
    mem_free(started);
    return status;
}
