/*
 * Several ranks in one process: one for each of n threads.
 */
#include "api/gpus.h"
#include "api/setup.h"
#include "base/mem.h"
#include "ops/gpu/gpu.h"
#include "ops/self/self.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_board.h"
#include "run/start.h"
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
    struct gpu *gpu; /* its own; owned */
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

static tutti_status leave_local(void *user, bool failed)
{
    struct local_rank *rank = user;

    (void)failed;
    gpu_close(rank->gpu);
    leave_job(rank->job);
    return TUTTI_OK;
}

static tutti_status no_memory_for_ranks(int n)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", n);
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

/* As between processes: backend=messages and vendor are to agree over messages. */
static bool shows_words(const struct config *config)
{
    return config->backend == CONFIG_BACKEND_AUTO ||
            config->backend == CONFIG_BACKEND_SHM;
}

/* Gives each spec its end of the transport and its part in the job. */
static tutti_status hand_out(int n, struct local_job *job, struct context_spec *specs)
{
    struct transport *ends = mem_calloc((size_t)n, sizeof *ends);
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    if (ends != NULL) {
        status = transport_inproc_open(n, job->bells, ends);
    }
    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        (void)atomic_fetch_add_explicit(&job->users, 1, memory_order_relaxed);
        job->ranks[i].job = job;
        specs[i] = (struct context_spec){ .size = n,
            .transport = ends[i],
            .bell = &job->bells[i],
            .any_thread = true,
            .release = leave_local,
            .user = &job->ranks[i] };
    }
    mem_free(ends);
    return status == TUTTI_OK ? status : no_memory_for_ranks(n);
}

/* All ranks are on one node: nothing has to be exchanged. */
static tutti_status prepare_rank(
        struct context_spec *spec, const tutti_config *config, struct local_job *job)
{
    const tutti_status status = setup_begin(spec, config, spec->transport.rank);

    if (status == TUTTI_OK) {
        setup_warn(spec);
    }
    if (status == TUTTI_OK && shows_words(&spec->config)) {
        spec->board = shm_board(job->domain);
    }
    if (status == TUTTI_OK && !nodes_add(&spec->nodes, 0, spec->size)) {
        return no_memory_for_ranks(spec->size);
    }
    return status;
}

/* Each rank opens a GPU, and all decide on what all have. */
static tutti_status open_gpus(
        int n, struct context_spec *specs, const struct local_job *job)
{
    struct gpu_facts *facts = mem_calloc((size_t)n, sizeof *facts);
    int *ranks = mem_calloc((size_t)n, sizeof *ranks);
    struct gpu_view all;
    tutti_status status = TUTTI_OK;

    if (facts == NULL || ranks == NULL) {
        mem_free(facts);
        mem_free(ranks);
        return no_memory_for_ranks(n);
    }
    for (int i = 0; i < n; i++) {
        struct gpu_view view;

        ranks[i] = i;
        job->ranks[i].gpu = gpus_open(&specs[i], n == 1, i, &facts[i]);
        gpu_view_of(i == 0 ? &all : &view, facts, ranks, i);
        if (i > 0) {
            gpu_view_merge(&all, &view);
        }
    }
    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        status = gpus_decide(job->ranks[i].gpu, &specs[i], &all, facts[i].reason);
    }
    if (status == TUTTI_OK) {
        status = gpus_connect(specs, n);
    }
    mem_free(facts);
    mem_free(ranks);
    return status;
}

static void add_backends(struct context_spec *spec, const struct local_job *job)
{
    spec->backends[spec->backend_count++] = &op_self;
    spec->natives[spec->backend_count] = job->domain;
    spec->backends[spec->backend_count++] = &op_shm;
}

static tutti_status prepare_all(int n, const tutti_config *config,
        struct local_job *job, struct context_spec *specs)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        status = prepare_rank(&specs[i], config, job);
    }
    if (status == TUTTI_OK && gpus_expected(&specs[0].config)) {
        status = open_gpus(n, specs, job);
    }
    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        add_backends(&specs[i], job);
    }
    return status;
}

static tutti_status start_all(int n, struct tutti **contexts,
        const tutti_config *config, struct local_job *job)
{
    struct context_spec *specs = mem_calloc((size_t)n, sizeof *specs);
    tutti_status status =
            specs == NULL ? no_memory_for_ranks(n) : hand_out(n, job, specs);
    int started = 0;

    if (status != TUTTI_OK) {
        mem_free(specs);
        return status;
    }
    status = prepare_all(n, config, job, specs);
    while (started < n && status == TUTTI_OK) {
        status = context_create(&contexts[started], &specs[started]);
        started++;
    }
    /* context_create() has taken the last spec over, and made no context of it. */
    if (status != TUTTI_OK) {
        for (int i = 0; i < started - 1; i++) {
            (void)context_destroy(contexts[i]);
        }
        for (int i = started; i < n; i++) {
            context_spec_fini(&specs[i]);
        }
    }
    mem_free(specs);
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
        status = no_memory_for_ranks(n);
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
