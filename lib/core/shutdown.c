/*
 * Finalize.
 *
 * A rank announces META_FINALIZE to all its sets at once, behind all it has announced
 * before: whoever waits for it in any of them is told. When a set's is logged, whatever was
 * not logged earlier was not submitted by all members and never will be. A second round in
 * the world comes last, so that no rank leaves while another one still works in a smaller
 * set.
 */
#include "core/shutdown.h"

#include "base/clock.h"
#include "base/mem.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/engine.h"
#include "core/order.h"
#include "core/registration.h"
#include "core/submit.h"

/* How long a failed context tries to tell the others before it goes. */
#define FAREWELL_NS 1000000000

static bool nothing_in_flight(void *what)
{
    return !context_has_work(what);
}

struct finalizing {
    const struct work *work;
    tutti_request request;
};

static bool is_agreed(void *what)
{
    const struct finalizing *finalizing = what;

    return work_is_over(finalizing->work, finalizing->request);
}

static tutti_status announce_finalize(struct tutti *t, const char *name,
        tutti_process_set set, struct finalizing *finalizing)
{
    const struct submission submission = { .collective = META_FINALIZE,
        .name = name,
        .set = set,
        .meta = { .prescale = 1, .postscale = 1 } };
    const tutti_status status = submit_queue(t, &submission, &finalizing->request);

    if (status != TUTTI_OK) {
        return status;
    }
    finalizing->work = work_find(&t->works, finalizing->request);
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
    return engine_is_flushed(what);
}

tutti_status context_finalize(struct tutti *t)
{
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    t->closing = true;
    registration_gate(t);
    pthread_mutex_unlock(&t->lock);
    order_demand_all(t);
    driver_enter(t);
    status = context_check(t);
    if (status == TUTTI_OK) {
        status = leave_together(t);
    }
    if (status != TUTTI_OK) {
        driver_wait(t, nothing_in_flight, t, INT64_MAX);
        driver_stop_background(t);
        driver_wait(t, farewell_is_said, t, clock_ns() + FAREWELL_NS);
    }
    driver_leave(t);
    context_destroy(t);
    return status;
}
