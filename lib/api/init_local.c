/*
 * Several ranks in one process: one for each of n threads.
 */
#include "api/setup.h"
#include "base/mem.h"
#include "control/inproc.h"
#include "ops/self/self.h"
#include "ops/shm/shm.h"
#include "ops/shm/shm_board.h"

#define LOCAL_RANKS_MAX 1024

/* What the ranks of one tutti_init_local() share; freed by the last of them. */
struct local_job {
    struct shm_domain *domain;
    struct doorbell *bells; /* one per rank: a peer may still ring one that has left */
    _Atomic int users;
};

static void leave_job(void *user, bool failed)
{
    struct local_job *job = user;

    (void)failed;
    /* The last one sees all that the others did: acquire and release in one. */
    if (atomic_fetch_sub_explicit(&job->users, 1, memory_order_acq_rel) == 1) {
        if (job->domain != NULL) {
            shm_domain_destroy(job->domain);
        }
        mem_free(job->bells);
        mem_free(job);
    }
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
    if (job->domain == NULL || job->bells == NULL) {
        leave_job(job, false);
        return NULL;
    }
    return job;
}

static tutti_status open_controls(
        int n, struct local_job *job, struct control *controls)
{
    struct doorbell **bells = mem_calloc((size_t)n, sizeof(struct doorbell *));
    tutti_status status;

    if (bells == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    for (int i = 0; i < n; i++) {
        bells[i] = &job->bells[i];
    }
    status = control_inproc_open(n, bells, controls);
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

/* Takes over the control end. */
static tutti_status start_rank(struct tutti **t, const tutti_config *config,
        const struct control *control, struct local_job *job)
{
    struct context_spec spec;
    tutti_status status = setup_begin(&spec, config, control->rank);

    (void)atomic_fetch_add_explicit(&job->users, 1, memory_order_relaxed);
    spec.size = control->size;
    spec.control = *control;
    spec.bell = &job->bells[control->rank];
    spec.any_thread = true;
    spec.backends[0] = &op_self;
    spec.backends[1] = &op_shm;
    spec.natives[1] = job->domain;
    spec.backend_count = 2;
    if (shows_words(&spec.config)) {
        spec.board = shm_board(job->domain);
    }
    spec.release = leave_job;
    spec.release_user = job;
    if (status == TUTTI_OK) {
        status = one_node(&spec.nodes, control->size);
    }
    if (status != TUTTI_OK) {
        context_spec_fini(&spec);
        return status;
    }
    return context_create(t, &spec);
}

static tutti_status start_all(int n, struct tutti **contexts,
        const tutti_config *config, struct local_job *job)
{
    struct control *controls = mem_calloc((size_t)n, sizeof *controls);
    tutti_status status = TUTTI_ERR_NO_MEMORY;
    int started = 0;

    if (controls != NULL) {
        status = open_controls(n, job, controls);
    }
    if (status != TUTTI_OK) {
        mem_free(controls);
        return error_set(status, "no memory for %d ranks", n);
    }
    while (started < n && status == TUTTI_OK) {
        status = start_rank(&contexts[started], config, &controls[started], job);
        started++;
    }
    if (status != TUTTI_OK) {
        for (int i = 0; i < started - 1; i++) {
            context_destroy(contexts[i]);
        }
        for (int i = started; i < n; i++) {
            controls[i].ops->close(controls[i].state);
        }
    }
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
        leave_job(job, false);
    }
    mem_free(started);
    return status;
}
