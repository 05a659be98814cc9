/*
 * Life of a context.
 */
#include "core/context.h"

#include <sched.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/crew.h"
#include "core/driver.h"
#include "core/engine.h"
#include "core/output.h"
#include "core/set_list.h"

/* Without stall times, how often a driven engine asks its negotiators. */
#define TICK_LIMIT_NS 1000000000

static void wake_rank(void *user, int world_rank)
{
    struct tutti *t = user;

    t->control.ops->wake(t->control.state, world_rank);
}

/* Called by the driver, from inside a backend. */
static bool share_work(
        void *user, void (*piece)(void *arg, size_t index), void *arg, size_t pieces)
{
    struct tutti *t = user;

    return crew_share(&t->crew, piece, arg, pieces);
}

static void *heap_alloc(void *user, size_t bytes)
{
    (void)user;
    return mem_alloc_aligned(bytes);
}

static void heap_free(void *user, void *memory)
{
    (void)user;
    mem_free(memory);
}

static void move_in(struct tutti *t, struct context_spec *spec)
{
    const double warn = spec->config.stall_warning_s;
    const double fail = spec->config.stall_fail_s;
    const double shorter = fail > 0 && (fail < warn || warn <= 0) ? fail : warn;

    t->rank = spec->rank;
    t->size = spec->size;
    t->config = spec->config;
    t->log = spec->log;
    t->nodes = spec->nodes;
    t->caches = spec->caches;
    t->control = spec->control;
    t->limits = spec->limits;
    t->memory = spec->memory.alloc != NULL
            ? spec->memory
            : (struct memory){ .alloc = heap_alloc, .give_back = heap_free };
    t->device = spec->device;
    t->board = spec->board;
    t->notice = spec->notice;
    t->dispatcher.memory = &t->memory;
    t->bell = spec->bell != NULL ? spec->bell : &t->own_bell;
    t->any_thread = spec->any_thread;
    t->release = spec->release;
    t->release_user = spec->release_user;
    t->tick_limit_ns = shorter > 0 ? (int64_t)(shorter * 0.25e9) : TICK_LIMIT_NS;
    spec->config = (struct config){ 0 };
    spec->nodes = (struct nodes){ 0 };
    spec->caches = (struct nodes){ 0 };
    spec->control = (struct control){ 0 };
    spec->notice = (struct notice){ 0 };
}

static tutti_status open_backends(struct tutti *t, const struct context_spec *spec)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    tutti_status status = TUTTI_OK;

    for (int b = 0; b < spec->backend_count && status == TUTTI_OK; b++) {
        struct dispatcher_backend *backend = &dispatcher->backends[b];

        backend->ops = spec->backends[b];
        backend->env = (struct op_env){ .config = &t->config,
            .log = &t->log,
            .world_rank = t->rank,
            .world_size = t->size,
            .chunk_bytes = spec->chunk_bytes,
            .native = spec->natives[b],
            .wake = wake_rank,
            .wake_user = t,
            .share = crew_may_help(&t->crew) ? share_work : NULL,
            .share_user = t,
            .counts = &t->device_counts };
        status = backend->ops->open(&backend->env, &backend->state);
        if (status == TUTTI_OK) {
            dispatcher->backend_count++;
            dispatcher->task_bytes =
                    size_max(dispatcher->task_bytes, backend->ops->task_bytes);
        }
    }
    return status;
}

static tutti_status create_world(struct tutti *t)
{
    int64_t *ranks = mem_calloc((size_t)t->size, sizeof *ranks);
    struct process_set *world = NULL;
    tutti_status status;

    if (ranks == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", t->size);
    }
    for (int r = 0; r < t->size; r++) {
        ranks[r] = r;
    }
    status = process_sets_add(t, ranks, t->size, &world);
    mem_free(ranks);
    return status;
}

/* The same on all ranks, because the parameter is. */
static tutti_status create_listed_sets(struct tutti *t)
{
    struct set_list list;
    struct process_set *set = NULL;
    size_t first = 0;
    tutti_status status = set_list_parse(&list, t->config.process_sets, t->size);

    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t i = 0; i < list.count && status == TUTTI_OK; i++) {
        status = process_sets_add(
                t, list.ranks + first, (int)(list.ends[i] - first), &set);
        first = list.ends[i];
    }
    set_list_fini(&list);
    return status;
}

void context_spec_fini(struct context_spec *spec)
{
    if (spec->control.ops != NULL) {
        spec->control.ops->close(spec->control.state);
    }
    nodes_fini(&spec->nodes);
    nodes_fini(&spec->caches);
    config_fini(&spec->config);
    notice_close(&spec->notice);
    if (spec->release != NULL) {
        spec->release(spec->release_user, false);
    }
    *spec = (struct context_spec){ 0 };
}

tutti_status context_create(struct tutti **created, struct context_spec *spec)
{
    /* Zero is the initial state of everything that is not set here. */
    struct tutti *t = mem_alloc_aligned(sizeof *t);
    tutti_status status;

    if (t == NULL) {
        context_spec_fini(spec);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a context");
    }
    (void)pthread_mutex_init(&t->lock, NULL);
    t->owner = pthread_self();
    cpu_load_init(&t->load);
    forkmark_init(&t->forkmark);
    move_in(t, spec);
    crew_init(&t->crew, &t->config, &t->done_bell, &t->load);
    status = open_backends(t, spec);
    if (status == TUTTI_OK) {
        status = create_world(t);
    }
    if (status == TUTTI_OK) {
        status = create_listed_sets(t);
    }
    if (status == TUTTI_OK) {
        order_begin(t);
    }
    if (status == TUTTI_OK && t->config.background_thread && t->any_thread) {
        status = driver_start_background(t);
    }
    if (status != TUTTI_OK) {
        notice_close(&t->notice); /* it knows nothing of this one */
        context_destroy(t);
        return status;
    }
    notice_begin(&t->notice);
    *created = t;
    return TUTTI_OK;
}

static void free_open_groups(struct groups *groups)
{
    while (groups->first != NULL) {
        struct open_group *next = groups->first->next;

        mem_free(groups->first);
        groups->first = next;
    }
}

static void free_early(struct tutti *t)
{
    while (t->early != NULL) {
        struct early_message *next = t->early->next;

        mem_free(t->early);
        t->early = next;
    }
}

void context_destroy(struct tutti *t)
{
    driver_stop_background(t);
    while (!dispatcher_cancel_all(t)) {
        (void)sched_yield();
    }
    dispatcher_fini(t);
    order_fini(&t->order);
    process_sets_fini(&t->sets);
    if (t->control.ops != NULL) {
        t->control.ops->close(t->control.state);
    }
    issues_fini(t);
    work_table_fini(&t->works);
    planner_fini(&t->planner);
    mem_free(t->items);
    mem_free(t->ready);
    mem_free(t->batches);
    wire_writer_fini(&t->envelope);
    free_early(t);
    free_open_groups(&t->groups);
    output_fini(t);
    nodes_fini(&t->nodes);
    nodes_fini(&t->caches);
    config_fini(&t->config);
    cpu_load_fini(&t->load);
    forkmark_fini(&t->forkmark);
    (void)pthread_mutex_destroy(&t->lock);
    if (t->release != NULL) {
        t->release(t->release_user,
                atomic_load_explicit(&t->failed, memory_order_relaxed) != 0);
    }
    notice_end(&t->notice);
    notice_close(&t->notice);
    mem_free(t);
}

bool context_has_work(const struct tutti *t)
{
    /*
     * In this order: what ends in between makes the answer late, not wrong. Acquire: pairs
     * with completion.c. The count is sequentially consistent against that of waiters: see
     * driver_leave().
     */
    const uint64_t ended = atomic_load_explicit(&t->ended, memory_order_acquire);

    return atomic_load_explicit(&t->intake.count, memory_order_seq_cst) != ended ||
            issues_pending(&t->issues);
}

tutti_status context_check(struct tutti *t)
{
    tutti_status status = TUTTI_OK;

    if (atomic_load_explicit(&t->failed, memory_order_acquire) != 0) {
        pthread_mutex_lock(&t->lock);
        status = error_raise(&t->failure);
        pthread_mutex_unlock(&t->lock);
    }
    return status;
}
