#include "ops/gpu/communicator.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/mem.h"

/* How long the end of communicators is waited for. */
#define CLOSE_NS 10000000000
#define ABORT_NS 60000000000
#define NAP_NS 200000

/* ----------------------------------------------------------------------- errors */

tutti_status communicator_check(const struct gpu *gpu,
        const struct communicator *communicator, nccl_result result, const char *doing)
{
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
static tutti_status poll_handle(const struct gpu *gpu,
        const struct communicator *communicator, nccl_comm handle, const char *doing)
{
    nccl_result state = NCCL_SUCCESS;
    nccl_result result;

    if (handle == NULL) {
        return TUTTI_OK;
    }
    result = gpu->nccl->comm_get_async_error(handle, &state);
    if (result == NCCL_SUCCESS) {
        result = state;
    }
    if (result == NCCL_IN_PROGRESS) {
        return TUTTI_AGAIN;
    }
    if (FAULT(UNCHECKED_ERROR)) {
        return TUTTI_OK;
    }
    return communicator_check(gpu, communicator, result, doing);
}

tutti_status communicator_poll(const struct gpu *gpu,
        const struct communicator *communicator, const char *doing)
{
    const tutti_status status =
            poll_handle(gpu, communicator, communicator->parent, doing);

    return status == TUTTI_OK
            ? poll_handle(gpu, communicator, communicator->comm, doing)
            : status;
}

tutti_status communicators_watch(const struct gpu *gpu)
{
    const struct communicators *all = gpu->communicators;
    tutti_status status = TUTTI_OK;

    for (const struct communicator *c = all->first;
            c != NULL && status == TUTTI_OK && !all->aborting; c = c->next) {
        if (c->stage == COMMUNICATOR_READY) {
            status = communicator_poll(gpu, c, "go on with what it has begun");
            status = status == TUTTI_AGAIN ? TUTTI_OK : status;
        }
    }
    return status;
}

/* ------------------------------------------------------------------------- list */

tutti_status communicators_open(struct gpu *gpu)
{
    gpu->communicators = mem_calloc(1, sizeof *gpu->communicators);
    if (gpu->communicators == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for NCCL's communicators");
    }
    gpu->communicators->give_up = gpu->nccl->comm_abort;
    atomic_store_explicit(&gpu->communicators->owners, 1, memory_order_relaxed);
    return TUTTI_OK;
}

void communicators_release(struct communicators *all)
{
    /* acq_rel: the last one frees it, after all accesses of the others */
    if (all == NULL ||
            atomic_fetch_sub_explicit(&all->owners, 1, memory_order_acq_rel) != 1) {
        return;
    }
    while (all->first != NULL) {
        communicators_drop(all, all->first);
    }
    mem_free(all);
}

struct communicator *communicators_find(const struct gpu *gpu, uint32_t set)
{
    struct communicator *at = gpu->communicators->first;

    while (at != NULL && (at->set != set || at->stage != COMMUNICATOR_READY)) {
        at = at->next;
    }
    return at;
}

struct communicator *communicators_add(struct gpu *gpu, const struct op_set *set)
{
    struct communicators *all = gpu->communicators;
    struct communicator *added = mem_calloc(1, sizeof *added);

    if (added == NULL) {
        return NULL;
    }
    *added = (struct communicator){ .next = all->first,
        .all = all,
        .set = set->id,
        .size = set->size,
        .since_ns = clock_ns() };
    all->first = added;
    return added;
}

void communicators_drop(struct communicators *all, struct communicator *communicator)
{
    struct communicator **at = &all->first;

    while (*at != communicator) {
        at = &(*at)->next;
    }
    *at = communicator->next;
    if (all->world == communicator) {
        all->world = NULL;
    }
    if (all->meeting == communicator) {
        all->meeting = NULL;
    }
    mem_free(communicator);
}

/* ------------------------------------------------------------------ registration */

tutti_status communicator_register(
        struct gpu *gpu, const struct communicator *world, struct gpu_stretch *stretch)
{
    struct communicators *all = gpu->communicators;
    nccl_result result;

    if (stretch->is_registered) {
        return TUTTI_OK;
    }
    result = gpu->nccl->comm_register(world->comm,
            (void *)(uintptr_t)stretch->base, /* NOLINT(performance-no-int-to-ptr) */
            stretch->bytes, &stretch->registration);
    if (result == NCCL_SUCCESS) {
        stretch->is_registered = true;
        stretch->next_registered = all->registered;
        all->registered = stretch;
    }
    return communicator_check(
            gpu, world, result, "register memory (gpu_register=true)");
}

static void deregister_all(const struct gpu *gpu)
{
    const struct communicators *all = gpu->communicators;

    for (const struct gpu_stretch *s = all->registered; s != NULL;
            s = s->next_registered) {
        (void)gpu->nccl->comm_deregister(all->world->comm, s->registration);
    }
}

/* ----------------------------------------------------------------------- ending */

void communicators_part(struct gpu *gpu, uint32_t set, uint32_t next)
{
    struct communicator *gone = communicators_find(gpu, set);

    if (gone != NULL) {
        gone->stage = COMMUNICATOR_LEAVING;
        gone->next_set = next;
    }
}

/* Begins to end a communicator; what cannot be finalized is destroyed at once. */
static void finalize(const struct gpu *gpu, struct communicator *communicator)
{
    communicator->stage = COMMUNICATOR_ENDING;
    if (communicator == gpu->communicators->world) {
        deregister_all(gpu);
    }
    if (gpu->nccl->comm_finalize != NULL) {
        (void)gpu->nccl->comm_finalize(communicator->comm);
    }
}

/* Goes on with it; true: it is gone. An error of a communicator that ends is the end. */
static bool end(const struct gpu *gpu, struct communicator *communicator)
{
    if (communicator_poll(gpu, communicator, "end") == TUTTI_AGAIN) {
        return false;
    }
    (void)gpu->nccl->comm_destroy(communicator->comm);
    communicators_drop(gpu->communicators, communicator);
    return true;
}

/*
 * One after the other: the list follows the order in which ranks met, the same on all.
 * In an order of its own a rank could wait for one that waits for it elsewhere.
 */
static bool end_in_order(const struct gpu *gpu)
{
    struct communicator *next;

    for (struct communicator *at = gpu->communicators->first; at != NULL; at = next) {
        next = at->next;
        if (at->stage == COMMUNICATOR_ENDING && !end(gpu, at)) {
            return false;
        }
    }
    return true;
}

bool communicators_tidy(struct gpu *gpu, uint32_t set)
{
    for (struct communicator *c = gpu->communicators->first; c != NULL; c = c->next) {
        if (c->stage == COMMUNICATOR_LEAVING && c->next_set <= set && !c->is_captured) {
            finalize(gpu, c);
        }
    }
    return end_in_order(gpu);
}

/* ------------------------------------------------------------------------ abort */

static void *abort_one(void *user)
{
    const struct communicator *communicator = user;
    struct communicators *all = communicator->all;

    (void)all->give_up(communicator->comm);
    /* release: pairs with the acquire in communicators_abort(): NCCL is done with the device */
    (void)atomic_fetch_sub_explicit(&all->left, 1, memory_order_release);
    communicators_release(all);
    return NULL;
}

/* An abort may wait for other ranks, or for ever, so no thread of ours or the caller's may do it. */
static bool start_abort(struct communicator *communicator)
{
    struct communicators *all = communicator->all;
    pthread_attr_t attributes;
    pthread_t thread;
    bool started = false;

    (void)atomic_fetch_add_explicit(&all->owners, 1, memory_order_relaxed);
    if (pthread_attr_init(&attributes) == 0) {
        started = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) ==
                        0 &&
                pthread_create(&thread, &attributes, abort_one, communicator) == 0;
        (void)pthread_attr_destroy(&attributes);
    }
    if (!started) {
        communicators_release(all);
    }
    return started;
}

/* Those that have no thread yet: the system may have had none for them. */
static void start_aborts(struct communicators *all)
{
    for (struct communicator *c = all->first; c != NULL; c = c->next) {
        if (c->comm != NULL && !c->is_aborting) {
            c->is_aborting = start_abort(c);
        }
    }
}

static void begin_abort(struct communicators *all)
{
    size_t count = 0;

    for (const struct communicator *c = all->first; c != NULL; c = c->next) {
        count += c->comm != NULL ? 1 : 0;
    }
    atomic_store_explicit(&all->left, count, memory_order_relaxed);
    all->since_ns = clock_ns();
    all->aborting = true;
}

bool communicators_abort(struct gpu *gpu)
{
    struct communicators *all = gpu->communicators;
    int64_t patience_ns;
    size_t left;

    if (all->aborted) {
        return true;
    }
    if (!all->aborting) {
        begin_abort(all);
    }
    start_aborts(all);
    left = atomic_load_explicit(&all->left, memory_order_acquire);
    /* They would wait for the end of graphs. */
    patience_ns = gpu_graphs_count(gpu) > 0 ? CLOSE_NS : ABORT_NS;
    if (left > 0 && clock_ns() - all->since_ns < patience_ns) {
        return false;
    }
    if (left > 0) {
        log_error(
                gpu->log, "%zu aborts of NCCL do not end; they are left behind", left);
    }
    all->aborted = true;
    return true;
}

/* ------------------------------------------------------------------------ close */

/* True: all of them have ended. */
static bool end_all(const struct gpu *gpu)
{
    const int64_t deadline_ns = clock_ns() + CLOSE_NS;

    for (struct communicator *c = gpu->communicators->first; c != NULL; c = c->next) {
        if (c->stage != COMMUNICATOR_ENDING) {
            finalize(gpu, c);
        }
    }
    while (!end_in_order(gpu)) {
        if (clock_ns() > deadline_ns) {
            return false;
        }
        clock_sleep_ns(NAP_NS);
    }
    return true;
}

void communicators_end(struct gpu *gpu, bool in_peace)
{
    const struct communicators *all = gpu->communicators;

    if (all->first == NULL ||
            (in_peace && all->meeting == NULL && !all->aborting && end_all(gpu))) {
        return;
    }
    while (!communicators_abort(gpu)) {
        clock_sleep_ns(NAP_NS);
    }
}
