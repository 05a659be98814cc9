#include "ops/gpu/communicator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/mem.h"

/* How long the end of communicators is waited for. */
#define CLOSE_NS 10000000000
#define ABORT_NS 60000000000
#define NAP_NS 200000

/* ----------------------------------------------------------------------- errors */

tutti_status communicator_check(const struct communicators *all,
        const struct communicator *communicator, nccl_result result, const char *doing)
{
    const struct gpu *gpu = all->gpu;
    const char *more = "";

    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
        return TUTTI_OK;
    }
    if (gpu->nccl->get_last_error != NULL) {
        more = gpu->nccl->get_last_error(communicator->comm);
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "rank %d: NCCL cannot %s for process set %u on GPU %d (%s): %s%s%s; "
            "NCCL_DEBUG=WARN says more",
            gpu->rank, doing, communicator->set, gpu->ordinal, gpu->pci,
            nccl_error_text(gpu->nccl, result), more == NULL || *more == 0 ? "" : ": ",
            more == NULL ? "" : more);
}

/* Of any handle of a communicator, its parent's too. */
static tutti_status poll_handle(const struct communicators *all,
        const struct communicator *communicator, nccl_comm handle, const char *doing)
{
    nccl_result state = NCCL_SUCCESS;
    nccl_result result;

    if (handle == NULL) {
        return TUTTI_OK;
    }
    result = all->gpu->nccl->comm_get_async_error(handle, &state);
    if (result == NCCL_SUCCESS) {
        result = state;
    }
    if (result == NCCL_IN_PROGRESS) {
        return TUTTI_AGAIN;
    }
    if (FAULT(UNCHECKED_ERROR)) {
        return TUTTI_OK;
    }
    return communicator_check(all, communicator, result, doing);
}

tutti_status communicator_poll(const struct communicators *all,
        const struct communicator *communicator, const char *doing)
{
    return poll_handle(all, communicator, communicator->comm, doing);
}

tutti_status communicators_watch(const struct communicators *all)
{
    tutti_status status = TUTTI_OK;

    if (all->aborted) {
        return TUTTI_OK;
    }
    for (const struct communicator *c = all->first; c != NULL && status == TUTTI_OK;
            c = c->next) {
        if (c->stage == COMMUNICATOR_READY) {
            status = communicator_poll(all, c, "go on with what it has begun");
            status = status == TUTTI_AGAIN ? TUTTI_OK : status;
        }
    }
    return status;
}

/* ---------------------------------------------------------------------- meeting */

tutti_status communicators_token(
        const struct communicators *all, uint8_t token[OP_TOKEN_BYTES])
{
    const struct gpu *gpu = all->gpu;
    struct nccl_id id = { .bytes = { 0 } };
    const nccl_result result = gpu->nccl->get_unique_id(&id);

    _Static_assert(OP_TOKEN_BYTES >= sizeof id, "NCCL's id is the token");
    if (result != NCCL_SUCCESS) {
        return error_set(TUTTI_ERR_SYSTEM,
                "rank %d: ncclGetUniqueId(): %s; NCCL_DEBUG=WARN says more", gpu->rank,
                nccl_error_text(gpu->nccl, result));
    }
    memset(token, 0, OP_TOKEN_BYTES);
    memcpy(token, &id, sizeof id);
    return TUTTI_OK;
}

struct communicator *communicators_find(const struct communicators *all, uint32_t set)
{
    struct communicator *at = all->first;

    while (at != NULL && (at->set != set || at->stage != COMMUNICATOR_READY)) {
        at = at->next;
    }
    return at;
}

static struct communicator *add(struct communicators *all, const struct op_set *set)
{
    struct communicator *added = mem_calloc(1, sizeof *added);

    if (added == NULL) {
        return NULL;
    }
    added->set = set->id;
    added->size = set->size;
    added->since_ns = clock_ns();
    added->next = all->first;
    all->first = added;
    return added;
}

static void forget_memory(struct communicator *communicator)
{
    while (communicator->registered != NULL) {
        struct communicator_memory *gone = communicator->registered;

        communicator->registered = gone->next;
        mem_free(gone);
    }
}

static void drop(struct communicators *all, struct communicator *communicator)
{
    struct communicator **at = &all->first;

    while (*at != communicator) {
        at = &(*at)->next;
    }
    *at = communicator->next;
    forget_memory(communicator);
    if (all->world == communicator) {
        all->world = NULL;
    }
    if (all->meeting == communicator) {
        all->meeting = NULL;
    }
    mem_free(communicator);
}

/* With the parameters; what an older NCCL does not know of, it does not read. */
static void make_config(const struct communicators *all, struct nccl_config *config,
        struct communicator *communicator)
{
    const struct config *values = all->gpu->config;

    (void)snprintf(communicator->name, sizeof communicator->name,
            "tutti process set %u", communicator->set);
    nccl_config_init(config, communicator->name);
    if (values->gpu_nccl_min_ctas > 0) {
        config->min_ctas = values->gpu_nccl_min_ctas;
    }
    if (values->gpu_nccl_max_ctas > 0) {
        config->max_ctas = values->gpu_nccl_max_ctas;
    }
    if (values->gpu_nccl_traffic_class >= 0) {
        config->traffic_class = values->gpu_nccl_traffic_class;
    }
    if (*values->gpu_nccl_net != '\0') {
        config->net_name = values->gpu_nccl_net;
    }
}

/* For messages. */
static const char *making(const struct communicators *all)
{
    return *all->gpu->config->gpu_nccl_net == '\0'
            ? "make a communicator"
            : "make a communicator (over the network that gpu_nccl_net names)";
}

/* Part of another one: no second search for the ranks. */
static nccl_result split(const struct communicators *all, nccl_comm parent,
        struct communicator *communicator, int colour, int key)
{
    struct nccl_config config;

    make_config(all, &config, communicator);
    communicator->parent = parent;
    return all->gpu->nccl->comm_split(
            parent, colour, key, &communicator->comm, &config);
}

/* A part of the world's. A rank that is no member helps. */
static nccl_result split_world(struct communicators *all,
        struct communicator *communicator, const struct op_set *set)
{
    const bool is_member = set->rank >= 0;

    return split(all, all->world->comm, communicator, is_member ? 0 : NCCL_NO_COLOUR,
            is_member ? set->rank : 0);
}

static nccl_result init(struct communicators *all, struct communicator *communicator,
        const struct op_set *set, struct nccl_id *ids, int count)
{
    const struct nccl_api *nccl = all->gpu->nccl;
    struct nccl_config config;

    if (nccl->comm_init_rank_config == NULL) {
        log_info(all->gpu->log,
                "NCCL %d blocks while the ranks of process set %u meet; 2.14 does not",
                nccl->version, set->id);
        return nccl->comm_init_rank(&communicator->comm, set->size, *ids, set->rank);
    }
    make_config(all, &config, communicator);
    if (count > 1) {
        return nccl->comm_init_rank_scalable(
                &communicator->comm, set->size, set->rank, count, ids, &config);
    }
    return nccl->comm_init_rank_config(
            &communicator->comm, set->size, *ids, set->rank, &config);
}

/* Tokens as NCCL takes them, to be freed. */
static struct nccl_id *copy_ids(const uint8_t *tokens, int count)
{
    struct nccl_id *ids = mem_calloc((size_t)count, sizeof *ids);

    for (int i = 0; i < count && ids != NULL; i++) {
        memcpy(&ids[i], tokens + (size_t)i * OP_TOKEN_BYTES, sizeof *ids);
    }
    return ids;
}

/* *all->meeting stays NULL where there is nothing to do for this rank. */
static tutti_status begin(struct communicators *all, const struct op_set *set,
        const uint8_t *tokens, int count, bool everyone)
{
    const bool splits =
            everyone && all->world != NULL && all->gpu->nccl->comm_split != NULL;
    struct communicator *made;
    struct nccl_id *ids;
    nccl_result result;

    if (!splits && set->rank < 0) {
        return TUTTI_OK;
    }
    ids = copy_ids(tokens, count);
    made = ids != NULL ? add(all, set) : NULL;
    if (made == NULL) {
        mem_free(ids);
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the communicator of process set %u", set->id);
    }
    all->meeting = made;
    result = splits ? split_world(all, made, set) : init(all, made, set, ids, count);
    mem_free(ids);
    return communicator_check(all, made, result, making(all));
}

static tutti_status poll_meeting(const struct communicators *all)
{
    const char *doing = making(all);
    const struct communicator *made = all->meeting;
    const double limit_s = all->gpu->config->gpu_timeout_s;
    const double age_s = (double)(clock_ns() - made->since_ns) * 1e-9;
    tutti_status status = poll_handle(all, made, made->parent, doing);

    if (status == TUTTI_OK) {
        status = poll_handle(all, made, made->comm, doing);
    }
    if (status != TUTTI_AGAIN || limit_s <= 0 || age_s < limit_s) {
        return status;
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "rank %d: the %d ranks of process set %u have not met in NCCL on GPU %d "
            "(%s) "
            "for %.1f s (gpu_timeout_s=%g): do all of them reach each other "
            "(NCCL_SOCKET_IFNAME)?",
            all->gpu->rank, made->size, made->set, all->gpu->ordinal, all->gpu->pci,
            age_s, limit_s);
}

/* The one that is being made is ready. */
static void settle(struct communicators *all, const struct op_set *set)
{
    struct communicator *made = all->meeting;

    all->meeting = NULL;
    made->parent = NULL;
    made->stage = COMMUNICATOR_READY;
    if (set->rank < 0) {
        drop(all, made);
    } else if (set->index == 0) {
        all->world = made;
    }
}

tutti_status communicators_meet(struct communicators *all, const struct op_set *set,
        const uint8_t *tokens, int count, bool everyone)
{
    tutti_status status = TUTTI_OK;

    if (all->meeting == NULL) {
        status = begin(all, set, tokens, count, everyone);
    }
    if (status == TUTTI_OK && all->meeting != NULL) {
        status = poll_meeting(all);
        if (status == TUTTI_OK) {
            settle(all, set);
        }
    }
    return status;
}

/* ------------------------------------------------------------------ registration */

static bool is_registered(const struct communicator *communicator, cu_pointer memory)
{
    const struct communicator_memory *at = communicator->registered;

    while (at != NULL && at->memory != memory) {
        at = at->next;
    }
    return at != NULL;
}

tutti_status communicator_register(const struct communicators *all,
        struct communicator *communicator, cu_pointer memory, size_t bytes)
{
    struct communicator_memory *added;
    nccl_result result;

    if (is_registered(communicator, memory)) {
        return TUTTI_OK;
    }
    added = mem_calloc(1, sizeof *added);
    if (added == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to register a buffer");
    }
    result = all->gpu->nccl->comm_register(communicator->comm,
            (void *)(uintptr_t)memory, /* NOLINT(performance-no-int-to-ptr) */
            bytes, &added->handle);
    if (result != NCCL_SUCCESS) {
        mem_free(added);
        return communicator_check(
                all, communicator, result, "register memory (gpu_register=true)");
    }
    added->memory = memory;
    added->next = communicator->registered;
    communicator->registered = added;
    return TUTTI_OK;
}

static void deregister_all(
        const struct communicators *all, struct communicator *communicator)
{
    for (const struct communicator_memory *at = communicator->registered; at != NULL;
            at = at->next) {
        (void)all->gpu->nccl->comm_deregister(communicator->comm, at->handle);
    }
    forget_memory(communicator);
}

/* ----------------------------------------------------------------------- ending */

void communicators_part(struct communicators *all, uint32_t set, uint32_t next)
{
    struct communicator *gone = communicators_find(all, set);

    if (gone != NULL) {
        gone->stage = COMMUNICATOR_LEAVING;
        gone->next_set = next;
    }
}

/* Begins to end a communicator; what cannot be finalized is destroyed at once. */
static void finalize(struct communicators *all, struct communicator *communicator)
{
    const struct nccl_api *nccl = all->gpu->nccl;

    communicator->stage = COMMUNICATOR_ENDING;
    deregister_all(all, communicator);
    if (nccl->comm_finalize != NULL) {
        (void)nccl->comm_finalize(communicator->comm);
    }
}

/* Goes on with it; true: it is gone. An error of a communicator that ends is the end. */
static bool end(struct communicators *all, struct communicator *communicator)
{
    if (communicator_poll(all, communicator, "end") == TUTTI_AGAIN) {
        return false;
    }
    (void)all->gpu->nccl->comm_destroy(communicator->comm);
    drop(all, communicator);
    return true;
}

/*
 * One after the other: the list follows the order in which ranks met, the same on all.
 * In an order of its own a rank could wait for one that waits for it elsewhere.
 */
static bool end_in_order(struct communicators *all)
{
    struct communicator *next;

    for (struct communicator *at = all->first; at != NULL; at = next) {
        next = at->next;
        if (at->stage == COMMUNICATOR_ENDING && !end(all, at)) {
            return false;
        }
    }
    return true;
}

bool communicators_tidy(struct communicators *all, uint32_t set)
{
    for (struct communicator *c = all->first; c != NULL; c = c->next) {
        if (c->stage == COMMUNICATOR_LEAVING && c->next_set <= set && !c->is_captured) {
            finalize(all, c);
        }
    }
    return end_in_order(all);
}

/* ------------------------------------------------------------------------ abort */

/* One thread's part. */
struct abort_job {
    struct communicator_aborts *aborts; /* borrowed */
    nccl_comm comm; /* to abort */
    bool started; /* has a thread */
};

/* Aborts in progress. Counted references: an abort may be left behind, and end later. */
struct communicator_aborts {
    nccl_result (*give_up)(nccl_comm comm); /* ncclCommAbort() */
    _Atomic size_t left; /* jobs that have not ended */
    _Atomic size_t references; /* one of each job, and that of struct communicators */
    int64_t since_ns; /* when they began */
    struct communicator *first; /* owned: until its abort ends NCCL may write to one */
    size_t count;
    struct abort_job jobs[]; /* one for each communicator */
};

static void aborts_release(struct communicator_aborts *aborts)
{
    /* acq_rel: the last one frees it, after all accesses of the others */
    if (atomic_fetch_sub_explicit(&aborts->references, 1, memory_order_acq_rel) == 1) {
        while (aborts->first != NULL) {
            struct communicator *gone = aborts->first;

            aborts->first = gone->next;
            forget_memory(gone);
            mem_free(gone);
        }
        mem_free(aborts);
    }
}

static void *abort_one(void *user)
{
    const struct abort_job *job = user;
    struct communicator_aborts *aborts = job->aborts;

    (void)aborts->give_up(job->comm);
    /* release: pairs with the acquire in communicators_abort(): NCCL is done with the device */
    (void)atomic_fetch_sub_explicit(&aborts->left, 1, memory_order_release);
    aborts_release(aborts);
    return NULL;
}

/* An abort may wait for other ranks, or for ever, so no thread of ours or the caller's may do it. */
static bool start_job(struct abort_job *job)
{
    pthread_attr_t attributes;
    pthread_t thread;
    bool started = false;

    if (pthread_attr_init(&attributes) == 0) {
        started = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) ==
                        0 &&
                pthread_create(&thread, &attributes, abort_one, job) == 0;
        (void)pthread_attr_destroy(&attributes);
    }
    return started;
}

/* Those that have no thread yet: the system may have had none for them. */
static void start_jobs(struct communicator_aborts *aborts)
{
    for (size_t i = 0; i < aborts->count; i++) {
        if (!aborts->jobs[i].started) {
            aborts->jobs[i].started = start_job(&aborts->jobs[i]);
        }
    }
}

static void leave_jobs(struct communicator_aborts *aborts)
{
    for (size_t i = 0; i < aborts->count; i++) {
        if (!aborts->jobs[i].started) {
            aborts_release(aborts); /* the thread would have done so */
        }
    }
    aborts_release(aborts);
}

static void begin_abort(struct communicators *all)
{
    struct communicator_aborts *aborts;
    size_t count = 0;

    for (const struct communicator *c = all->first; c != NULL; c = c->next) {
        count += c->comm != NULL ? 1 : 0;
    }
    aborts = mem_calloc(1, sizeof *aborts + count * sizeof *aborts->jobs);
    if (aborts == NULL) {
        return; /* tried again at the next call */
    }
    aborts->give_up = all->gpu->nccl->comm_abort;
    aborts->since_ns = clock_ns();
    atomic_store_explicit(&aborts->left, count, memory_order_relaxed);
    atomic_store_explicit(&aborts->references, count + 1, memory_order_relaxed);
    all->aborts = aborts;
    for (const struct communicator *c = all->first; c != NULL; c = c->next) {
        if (c->comm != NULL) {
            aborts->jobs[aborts->count++] =
                    (struct abort_job){ .aborts = aborts, .comm = c->comm };
        }
    }
}

bool communicators_abort(struct communicators *all)
{
    int64_t patience_ns;
    size_t left;

    if (all->aborted) {
        return true;
    }
    if (all->aborts == NULL) {
        begin_abort(all);
    }
    if (all->aborts == NULL) {
        return false;
    }
    start_jobs(all->aborts);
    left = atomic_load_explicit(&all->aborts->left, memory_order_acquire);
    /* They would wait for the end of graphs. */
    patience_ns = gpu_graphs_count(all->gpu) > 0 ? CLOSE_NS : ABORT_NS;
    if (left > 0 && clock_ns() - all->aborts->since_ns < patience_ns) {
        return false;
    }
    if (left > 0) {
        log_error(all->gpu->log, "%zu aborts of NCCL do not end; they are left behind",
                left);
    }
    all->aborts->first = all->first;
    leave_jobs(all->aborts);
    *all = (struct communicators){ .gpu = all->gpu, .aborted = true };
    return true;
}

/* ------------------------------------------------------------------------ close */

/* True: all of them have ended. */
static bool end_all(struct communicators *all)
{
    const int64_t deadline_ns = clock_ns() + CLOSE_NS;

    for (struct communicator *c = all->first; c != NULL; c = c->next) {
        if (c->stage != COMMUNICATOR_ENDING) {
            finalize(all, c);
        }
    }
    while (!end_in_order(all)) {
        if (clock_ns() > deadline_ns) {
            return false;
        }
        clock_sleep_ns(NAP_NS);
    }
    return true;
}

void communicators_close(struct communicators *all, bool in_peace)
{
    if (in_peace && all->meeting == NULL && all->aborts == NULL && end_all(all)) {
        return;
    }
    while (!communicators_abort(all)) {
        clock_sleep_ns(NAP_NS);
    }
}
