/*
 * Completion of works.
 */
#include "core/completion.h"

#include "base/mem.h"
#include "core/context.h"
#include "core/lease.h"
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

static bool has_any_of_pool(const struct work *works)
{
    while (works != NULL && lease_is_held(works)) {
        works = works->next;
    }
    return works != NULL;
}

/*
 * Everything but the callbacks, whose works are returned. Under the lock if any is of the
 * pool: names of those are freed, and done, for whoever holds it.
 */
static struct work *publish(struct tutti *t, struct work *works)
{
    struct work *callbacks = NULL;
    struct work *next;

    for (struct work *work = works; work != NULL; work = next) {
        next = work->next;
        if (!lease_is_held(work)) {
            free_name(t, work);
        }
        if (work->status == TUTTI_OK) {
            count(&t->completed, 1);
            count(&t->bytes, work->bytes);
        } else {
            count(&t->failed_works, 1);
        }
        work_advance(work, WORK_DONE);
        count(&t->ended, 1);
        if (work->callback != NULL) {
            work->next = callbacks;
            callbacks = work;
        }
        /*
         * Pairs with work_is_over(): publishes status, error and the result. From here on
         * a work with a request is the waiter's.
         */
        atomic_store_explicit(&work->done, 1, memory_order_release);
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

static void run_callbacks(struct tutti *t, struct work *works)
{
    struct work *next;

    if (works == NULL) {
        return;
    }
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
    callbacks = publish(t, works);
    if (locked) {
        pthread_mutex_unlock(&t->lock);
    }
    doorbell_ring(&t->done_bell);
    run_callbacks(t, reversed(callbacks));
}

void completion_finish_one(
        struct tutti *t, struct work *work, tutti_status status, struct error *error)
{
    completion_set(work, status, error);
    work->next = NULL;
    completion_finish(t, work);
}

static struct error *error_copy(const struct error *from)
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
    completion_finish_one(t, work, status, error_copy(&error));
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
        completion_set(work, error->status, error_copy(error));
        work->next = drained;
        drained = work;
    }
    pthread_mutex_unlock(&t->lock);
    if (drained != NULL) {
        completion_finish(t, drained);
    }
}
