/*
 * Creates a context: backends, the first process sets, the background thread.
 */
#include "run/start.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/driver.h"
#include "run/engine.h"
#include "run/order.h"
#include "run/process_set.h"
#include "run/set_list.h"

/* Without stall times, how often a driven engine asks its negotiators. */
#define TICK_LIMIT_NS 1000000000

static void *heap_alloc(void *user, size_t bytes)
{
    struct tutti *t = user;

    return headroom_take(&t->outputs.headroom, bytes) ? mem_alloc_aligned(bytes) : NULL;
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
    t->peers.nodes = spec->nodes;
    t->peers.caches = spec->caches;
    t->peers.transport = spec->transport;
    t->engine.forming.limits = spec->limits;
    t->sets.act = engine_act;
    t->outputs.memory = spec->memory.alloc != NULL
            ? spec->memory
            : (struct memory){ .alloc = heap_alloc, .give_back = heap_free, .user = t };
    t->device = spec->device;
    t->peers.board = spec->board;
    t->failure.page = spec->failure_page;
    t->dispatcher.memory = &t->outputs.memory;
    t->driver.bell = spec->bell != NULL ? spec->bell : &t->driver.own_bell;
    if (t->peers.transport.ops->listen != NULL) {
        t->peers.transport.ops->listen(t->peers.transport.state, t->driver.bell);
    }
    t->driver.any_thread = spec->any_thread;
    t->origin.release = spec->release;
    t->origin.user = spec->user;
    t->engine.stall_ns = (int64_t)(warn * 1e9);
    t->engine.stall_fail_ns = (int64_t)(fail * 1e9);
    t->engine.tick_limit_ns = shorter > 0 ? (int64_t)(shorter * 0.25e9) : TICK_LIMIT_NS;
    spec->config = (struct config){ 0 };
    spec->nodes = (struct nodes){ 0 };
    spec->caches = (struct nodes){ 0 };
    spec->transport = (struct transport){ 0 };
    spec->failure_page = (struct failure_page){ 0 };
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
            .link = spec->link,
            .native = spec->natives[b],
            .wake = messages_wake,
            .wake_user = t };
        observer_attach(t, b, backend->ops->name, &backend->env);
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
    if (spec->transport.ops != NULL) {
        transport_close(&spec->transport);
    }
    nodes_fini(&spec->nodes);
    nodes_fini(&spec->caches);
    config_fini(&spec->config);
    failure_page_close(&spec->failure_page);
    if (spec->release != NULL) {
        (void)spec->release(spec->user, true);
    }
    *spec = (struct context_spec){ 0 };
}

static tutti_status start(struct tutti *t, const struct context_spec *spec)
{
    tutti_status status = observer_open(t, &spec->link);

    if (status != TUTTI_OK) {
        return status;
    }
    status = open_backends(t, spec);
    if (status != TUTTI_OK) {
        return status;
    }
    status = create_world(t);
    if (status != TUTTI_OK) {
        return status;
    }
    status = create_listed_sets(t);
    if (status != TUTTI_OK) {
        return status;
    }
    order_begin(t, spec->are_connected);
    return t->config.background_thread && t->driver.any_thread
            ? driver_start_background(t)
            : TUTTI_OK;
}

/* The error that is known stays the last one. */
static tutti_status give_up(struct tutti *t, tutti_status status)
{
    struct error error;

    error_fill(&error, status, t->rank, "%s", tutti_last_error());
    failure_page_close(&t->failure.page); /* it knows nothing of this one */
    atomic_store_explicit(&t->failure.is_set, 1, memory_order_relaxed);
    (void)context_destroy(t);
    return error_raise(&error);
}

static tutti_status create_nothing(struct context_spec *spec)
{
    const tutti_status status = context_spec_agree(
            spec, error_set(TUTTI_ERR_NO_MEMORY, "no memory for a context"));

    context_spec_fini(spec);
    return status;
}

tutti_status context_create(struct tutti **created, struct context_spec *spec)
{
    /* Zero is the initial state of everything that is not set here. */
    struct tutti *t = mem_alloc_aligned(sizeof *t);
    tutti_status status;

    if (t == NULL) {
        return create_nothing(spec);
    }
    (void)pthread_mutex_init(&t->lock, NULL);
    t->driver.owner = pthread_self();
    cpu_load_init(&t->driver.load);
    headroom_init(&t->outputs.headroom,
            nodes_ranks(&spec->nodes, nodes_of(&spec->nodes, spec->rank)));
    forkmark_init(&t->origin.forkmark);
    move_in(t, spec);
    status = context_spec_agree(spec, start(t, spec));
    if (status != TUTTI_OK) {
        return give_up(t, status);
    }
    failure_page_begin(&t->failure.page);
    *created = t;
    return TUTTI_OK;
}
