/*
 * Completion of works.
 */
#include "core/completion.h"

#include "base/mem.h"
#include "core/context.h"
#include "core/issues.h"
#include "core/lease.h"
#include "core/order.h"
#include "core/registration.h"

void completion_set(struct work *work, tutti_status status, struct error *error)
{
    work->status = status;
    work->error = error;
}

/* One writer, the engine: so no read-modify-write is needed. */
static void count(_Atomic uint64_t *counter, uint64_t value)
{
    const uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    /* Release: pairs with context_has_work(), for those that wait until nothing is left. */
    atomic_store_explicit(counter, before + value, memory_order_release);
}

/* Lock held: the name of a work of the pool can be used again. */
static void free_name(struct tutti *t, const struct work *work)
{
    tensors_let_go(&work->set->tensors, work->tensor);
    work->set->in_flight--;
    if (work->request.collective == META_JOIN) {
        work->set->joined = false;
        registration_gate(t);
    }
}

/* It has left the device's queues: its commands are issued, or never will be. */
static void leave_device(struct tutti *t, struct work *work)
{
    order_satisfied(t, work);
    if (work->after != NULL) {
        t->device.release(t->device.state, work->after);
        work->after = NULL;
    }
}

/* Of works that end without having been issued. */
static bool has_any_of_pool(const struct work *works)
{
    while (works != NULL && lease_is_held(works)) {
        works = works->next;
    }
    return works != NULL;
}

/*
 * Everything but the callbacks, whose works are returned, newest first. Under the lock if any
 * is of the pool: names of those are freed, and done, for whoever holds it.
 */
struct work *completion_publish(struct tutti *t, struct work *works)
{
    struct work *callbacks = NULL;
    struct work *next;

    for (struct work *work = works; work != NULL; work = next) {
        const bool was_issued = work_state(work) == WORK_ISSUED;

        next = work->next;
        leave_device(t, work);
        if (!was_issued && !lease_is_held(work)) {
            free_name(t, work);
        }
        if (work->status == TUTTI_OK) {
            count(&t->completed, 1);
            count(&t->bytes, work->bytes);
        } else {
            count(&t->failed_works, 1);
        }
        work_advance(work, WORK_DONE);
        if (!was_issued) {
            count(&t->ended, 1);
        }
        if (work->callback != NULL) {
            work->next = callbacks;
            callbacks = work;
        }
        /*
         * Pairs with work_is_over(): publishes status, error and the result. From here on
         * a work with a request is the waiter's.
         */
        atomic_store_explicit(&work->done, WORK_FINAL, memory_order_release);
    }
    return callbacks;
}

static struct work *reversed(struct work *works)
{
    struct work *result = NULL;

    while (works != NULL) {
        struct work *next = works->next;

        works->next = result;
        result = works;
        works = next;
    }
    return result;
}

/* The callback may submit the same tensor again, so the work is free before it runs. */
static void call_back(struct tutti *t, struct work *work)
{
    const tutti_callback callback = work->callback;
    const tutti_status status = work->status;
    struct error *error = work->error;
    void *user = work->user;

    work->error = NULL;
    if (work_end(work)) {
        pthread_mutex_lock(&t->lock);
        work_put_back(&t->works, work);
        pthread_mutex_unlock(&t->lock);
    }
    callback(user, status, error != NULL ? error->text : "");
    mem_free(error);
}

void completion_call_back(struct tutti *t, struct work *works)
{
    struct work *next;

    if (works == NULL) {
        return;
    }
    works = reversed(works);
    atomic_store_explicit(
            &t->calling_back, (uintptr_t)pthread_self(), memory_order_relaxed);
    for (struct work *work = works; work != NULL; work = next) {
        next = work->next;
        call_back(t, work);
    }
    atomic_store_explicit(&t->calling_back, 0, memory_order_relaxed);
}

void completion_finish(struct tutti *t, struct work *works)
{
    const bool locked = has_any_of_pool(works);
    struct work *callbacks;

    if (locked) {
        pthread_mutex_lock(&t->lock);
    }
    callbacks = completion_publish(t, works);
    if (locked) {
        pthread_mutex_unlock(&t->lock);
    }
    doorbell_ring(&t->done_bell);
    completion_call_back(t, callbacks);
}

/*
 * Lock held. Counted as ended after the issue is counted as pending, so that a context
 * never seems to have nothing to do in between.
 */
static void issue_work(struct tutti *t, struct issue *issue, struct work *work)
{
    completion_set(work, TUTTI_OK, NULL);
    leave_device(t, work);
    if (!lease_is_held(work)) {
        free_name(t, work);
    }
    work_advance(work, WORK_ISSUED);
    issue_join(issue, work);
    count(&t->ended, 1);
    /* Pairs with work_is_over_or_issued(): the mark is there. */
    atomic_store_explicit(&work->done, WORK_PASSING, memory_order_release);
}

tutti_status completion_issue(
        struct tutti *t, struct work *works, struct device_mark *mark)
{
    struct issue *issue;
    struct work *next;

    if (mark == NULL) {
        completion_finish(t, works);
        return TUTTI_OK;
    }
    issue = issues_new(t, mark);
    if (issue == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for what is issued");
    }
    issues_append(t, issue);
    pthread_mutex_lock(&t->lock);
    for (struct work *work = works; work != NULL; work = next) {
        next = work->next;
        issue_work(t, issue, work);
    }
    pthread_mutex_unlock(&t->lock);
    doorbell_ring(&t->done_bell);
    return TUTTI_OK;
}

void completion_finish_one(
        struct tutti *t, struct work *work, tutti_status status, struct error *error)
{
    completion_set(work, status, error);
    work->next = NULL;
    completion_finish(t, work);
}

struct error *completion_copy_error(const struct error *from)
{
    struct error *error = mem_alloc(sizeof *error);

    /* Without memory the status alone has to do. */
    if (error != NULL) {
        *error = *from;
    }
    return error;
}

void completion_fail(
        struct tutti *t, struct work *work, tutti_status status, const char *text)
{
    struct error error;

    error_fill(&error, status, t->rank, "%s", text);
    completion_finish_one(t, work, status, completion_copy_error(&error));
}

void completion_drain(struct tutti *t, const struct process_set *set,
        enum work_state last, const struct error *error)
{
    struct work *drained = NULL;
    uint32_t position = 0;
    struct work *work;

    pthread_mutex_lock(&t->lock);
    while ((work = work_next(&t->works, &position)) != NULL) {
        if (work_state(work) < WORK_ANNOUNCED || work_state(work) > last ||
                (set != NULL && work->set != set)) {
            continue;
        }
        completion_set(work, error->status, completion_copy_error(error));
        work->next = drained;
        drained = work;
    }
    pthread_mutex_unlock(&t->lock);
    if (drained != NULL) {
        completion_finish(t, drained);
    }
}
