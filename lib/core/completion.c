/*
 * Completion of works.
 */
#include "core/completion.h"

#include "base/mem.h"
#include "core/context.h"

void completion_set(struct work *work, tutti_status status, struct error *error)
{
    work->status = status;
    work->error = error;
}

/* Under the lock: everything but the callbacks, whose works are returned. */
static struct work *publish(struct tutti *t, struct work *works)
{
    struct work *callbacks = NULL;
    struct work *next;

    for (struct work *work = works; work != NULL; work = next) {
        next = work->next;
        tensors_let_go(&work->set->tensors, work->tensor);
        work->set->in_flight--;
        if (work->request.collective == META_JOIN) {
            work->set->joined = false;
        }
        if (work->status == TUTTI_OK) {
            t->completed++;
            t->bytes += work->bytes;
        } else {
            t->failed_works++;
        }
        work_advance(work, WORK_DONE);
        (void)atomic_fetch_sub_explicit(&t->in_flight, 1, memory_order_seq_cst);
        if (work->callback != NULL) {
            work->next = callbacks;
            callbacks = work;
        }
        /* Pairs with work_is_over(): publishes status, error and the result. */
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
        work->callback(
                work->user, work->status, work->error != NULL ? work->error->text : "");
        pthread_mutex_lock(&t->lock);
        work_release(&t->works, work);
        pthread_mutex_unlock(&t->lock);
    }
    atomic_store_explicit(&t->calling_back, 0, memory_order_relaxed);
}

void completion_finish(struct tutti *t, struct work *works)
{
    struct work *callbacks;

    pthread_mutex_lock(&t->lock);
    callbacks = publish(t, works);
    pthread_mutex_unlock(&t->lock);
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
        if (work->state < WORK_ANNOUNCED || work->state > last ||
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
