/*
 * Finalize, and the end of a context.
 *
 * A rank announces META_FINALIZE to all its sets at once, behind all it has announced
 * before: whoever waits for it in any of them is told. When a set's is logged, whatever was
 * not logged earlier was not submitted by all members and never will be. A second round in
 * the world comes last, so that no rank leaves while another one still works in a smaller
 * set.
 */
#include <sched.h>

#include "agree/meta.h"
#include "base/clock.h"
#include "base/mem.h"
#include "device/tickets.h"
#include "run/complete_device.h"
#include "run/dispatch.h"
#include "run/driver.h"
#include "run/engine.h"
#include "run/failure.h"
#include "run/messages.h"
#include "run/operation.h"
#include "run/order.h"
#include "run/outcomes.h"
#include "run/output.h"
#include "run/persistent.h"
#include "run/process_set.h"
#include "run/start.h"
#include "run/submit.h"

/*
 * How long a failed context tries to tell the others before it goes. It is gone within a
 * second, be they there or not.
 */
#define FAREWELL_NS 400000000

static bool nothing_in_flight(void *what)
{
    return !context_has_work(what) && !order_is_owed(what);
}

struct finalizing {
    const struct operation *operation;
    tutti_request request;
};

static bool is_agreed(void *what)
{
    const struct finalizing *finalizing = what;

    return operation_is_over(finalizing->operation, finalizing->request);
}

static tutti_status announce_finalize(struct tutti *t, const char *name,
        tutti_process_set set, struct finalizing *finalizing)
{
    struct submission submission = { .collective = META_FINALIZE,
        .name = name,
        .set = set,
        .meta = { .prescale = 1, .postscale = 1 } };
    const tutti_status status = submit_queue(t, &submission, &finalizing->request);

    if (status != TUTTI_OK) {
        return status;
    }
    finalizing->operation = operation_find(&t->work.operations, finalizing->request);
    return TUTTI_OK;
}

static tutti_status await_finalize(struct tutti *t, struct finalizing *finalizing)
{
    driver_wait(t, is_agreed, finalizing, INT64_MAX);
    return context_check(t);
}

/* The ids of the sets this rank is in; NULL when out of memory. */
static tutti_process_set *own_sets(struct tutti *t, size_t *count)
{
    tutti_process_set *ids;

    pthread_mutex_lock(&t->lock);
    ids = mem_calloc(t->sets.count + 1, sizeof *ids);
    *count = 0;
    for (size_t s = 0; s < t->sets.count && ids != NULL; s++) {
        if (t->sets.sets[s]->op.rank >= 0) {
            ids[(*count)++] = t->sets.sets[s]->id;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return ids;
}

static tutti_status finalize_sets(struct tutti *t, const tutti_process_set *ids,
        struct finalizing *finalizing, size_t count)
{
    tutti_status status = TUTTI_OK;

    for (size_t s = 0; s < count && status == TUTTI_OK; s++) {
        status = announce_finalize(t, "finalize", ids[s], &finalizing[s]);
    }
    for (size_t s = 0; s < count && status == TUTTI_OK; s++) {
        status = await_finalize(t, &finalizing[s]);
    }
    return status;
}

/* All ranks know of the same sets now, since the log of the world has ended. */
static tutti_status say_farewell(struct tutti *t)
{
    struct finalizing finalizing = { 0 };
    tutti_status status;
    bool alone;

    pthread_mutex_lock(&t->lock);
    alone = t->sets.count == 1;
    pthread_mutex_unlock(&t->lock);
    if (alone) {
        return TUTTI_OK;
    }
    status = announce_finalize(t, "farewell", TUTTI_WORLD, &finalizing);
    return status == TUTTI_OK ? await_finalize(t, &finalizing) : status;
}

static tutti_status leave_together(struct tutti *t)
{
    size_t count = 0;
    tutti_process_set *ids = own_sets(t, &count);
    struct finalizing *finalizing = mem_calloc(count + 1, sizeof *finalizing);
    tutti_status status;

    if (ids == NULL || finalizing == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory to finalize");
    } else {
        status = finalize_sets(t, ids, finalizing, count);
    }
    mem_free(ids);
    mem_free(finalizing);
    if (status == TUTTI_OK) {
        driver_wait(t, nothing_in_flight, t, INT64_MAX);
        status = context_check(t);
    }
    return status == TUTTI_OK ? say_farewell(t) : status;
}

static bool farewell_is_said(void *what)
{
    const struct tutti *t = what;

    return atomic_load_explicit(&t->failure.is_told, memory_order_relaxed) != 0 &&
            engine_is_flushed(t);
}

static void free_open_groups(struct groups *groups)
{
    while (groups->first != NULL) {
        struct open_group *next = groups->first->next;

        mem_free(groups->first);
        groups->first = next;
    }
}

/* What operations still wait for. */
static void release_events(struct tutti *t)
{
    uint32_t position = 0;
    struct operation *operation;

    while ((operation = operation_next(&t->work.operations, &position)) != NULL) {
        if (operation->on_device.after != NULL) {
            t->device.release(t->device.state, operation->on_device.after);
            operation->on_device.after = NULL;
        }
    }
}

tutti_status context_destroy(struct tutti *t)
{
    tutti_status status = TUTTI_OK;

    driver_stop_background(t);
    while (!dispatch_cancel_all(t)) {
        (void)sched_yield();
    }
    dispatch_fini(t);
    tickets_fini(&t->engine.tickets);
    process_sets_fini(&t->sets);
    if (t->peers.transport.ops != NULL) {
        transport_close(&t->peers.transport);
    }
    complete_device_fini(t);
    release_events(t);
    operation_table_fini(&t->work.operations);
    forming_fini(&t->engine.forming);
    messages_fini(t);
    free_open_groups(&t->work.groups);
    output_fini(t);
    nodes_fini(&t->peers.nodes);
    nodes_fini(&t->peers.caches);
    config_fini(&t->config);
    cpu_load_fini(&t->driver.load);
    headroom_fini(&t->outputs.headroom);
    forkmark_fini(&t->origin.forkmark);
    observer_close(t);
    (void)pthread_mutex_destroy(&t->lock);
    if (t->origin.release != NULL) {
        status = t->origin.release(t->origin.user,
                atomic_load_explicit(&t->failure.is_set, memory_order_relaxed) != 0);
    }
    if (status == TUTTI_OK) { /* else others are still to come, and tuttirun knows it */
        failure_page_end(&t->failure.page);
    }
    failure_page_close(&t->failure.page);
    mem_free(t);
    return status;
}

/* The first cause comes first, then what it left undone. */
static tutti_status end_context(struct tutti *t, tutti_status status)
{
    struct error error;
    tutti_status left;

    error_fill(&error, status, t->rank, "%s", tutti_last_error());
    left = context_destroy(t);
    if (status != TUTTI_OK && left != TUTTI_OK) {
        return error_set(status, "%s; %s", error.text, tutti_last_error());
    }
    return status == TUTTI_OK ? left : error_raise(&error);
}

/* It waits, and ends what calls the callback; and it calls MPI itself. */
static tutti_status may_finalize(struct tutti *t)
{
    if (atomic_load_explicit(&t->driver.calling_back, memory_order_relaxed) ==
            (uintptr_t)pthread_self()) {
        return error_set(TUTTI_ERR_THREAD,
                "a callback may not call tutti_finalize() of its context (rank %d); "
                "let "
                "it tell a thread of the application",
                t->rank);
    }
    if (!t->driver.any_thread && pthread_equal(pthread_self(), t->driver.owner) == 0) {
        return error_set(TUTTI_ERR_THREAD,
                "MPI was initialised below MPI_THREAD_MULTIPLE: only the thread of "
                "rank "
                "%d that called tutti_init may call tutti_finalize()",
                t->rank);
    }
    return TUTTI_OK;
}

tutti_status context_finalize(struct tutti *t)
{
    tutti_status status = may_finalize(t);

    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    persistent_gate_all(t);
    pthread_mutex_unlock(&t->lock);
    tickets_demand(&t->engine.tickets); /* whatever is queued is waited for now */
    driver_enter(t);
    status = context_check(t);
    if (status == TUTTI_OK) {
        status = leave_together(t);
    }
    if (status != TUTTI_OK) {
        /* Where this rank has no memory to leave in good order, the others hear of that. */
        failure_set(t, t->rank, tutti_last_error());
        driver_wait(t, nothing_in_flight, t, INT64_MAX);
        driver_stop_background(t);
        if (!failure_page_is_posted(&t->failure.page)) { /* which all ranks have */
            driver_wait(t, farewell_is_said, t, clock_ns() + FAREWELL_NS);
        }
        status = context_check(t); /* what is lost meanwhile is not why */
    }
    driver_leave(t);
    return end_context(t, status);
}
