/*
 * Works that are issued.
 */
#include "core/issues.h"

#include "base/clock.h"
#include "base/mem.h"
#include "core/completion.h"
#include "core/context.h"

/*
 * After a failure marks pass soon, since the backends have given up. Those behind commands
 * of the application that never end are not waited for any longer than this.
 */
#define PATIENCE_NS 5000000000

struct issue *issues_new(struct tutti *t, struct device_mark *mark)
{
    struct issue *issue = t->issues.spare;

    if (issue != NULL) {
        t->issues.spare = issue->next;
    } else {
        issue = mem_calloc(1, sizeof *issue);
    }
    if (issue == NULL) {
        t->device.release(t->device.state, mark);
        return NULL;
    }
    *issue = (struct issue){ .mark = mark };
    return issue;
}

/* One writer, the engine. */
static void count(struct issues *issues, uint32_t change)
{
    const uint32_t before = atomic_load_explicit(&issues->count, memory_order_relaxed);

    /* Release: pairs with issues_pending(), for those that wait until nothing is left. */
    atomic_store_explicit(&issues->count, before + change, memory_order_release);
}

void issues_append(struct tutti *t, struct issue *issue)
{
    struct issues *issues = &t->issues;

    if (issues->newest != NULL) {
        issues->newest->next = issue;
    } else {
        issues->oldest = issue;
    }
    issues->newest = issue;
    count(issues, 1);
}

void issue_join(struct issue *issue, struct work *work)
{
    struct work *newest = issue->works;

    /* Newest first, as completion_publish() returns what it is to be called back for. */
    work->issue = issue;
    work->next = newest;
    work->before = NULL;
    if (newest != NULL) {
        newest->before = work;
    }
    issue->works = work;
}

void issue_leave(struct work *work)
{
    struct issue *issue = work->issue;

    if (issue == NULL) {
        return;
    }
    if (work->next != NULL) {
        work->next->before = work->before;
    }
    if (work->before != NULL) {
        work->before->next = work->next;
    } else {
        issue->works = work->next;
    }
    work->issue = NULL;
    work->next = NULL;
    work->before = NULL;
}

/* Lock held: all of them, in the order in which they came. */
static struct work *take_works(struct issue *issue)
{
    struct work *works = NULL;

    while (issue->works != NULL) {
        struct work *work = issue->works;

        issue_leave(work);
        work->next = works;
        works = work;
    }
    return works;
}

static void recycle_oldest(struct tutti *t)
{
    struct issues *issues = &t->issues;
    struct issue *issue = issues->oldest;

    issues->oldest = issue->next;
    if (issues->oldest == NULL) {
        issues->newest = NULL;
    }
    t->device.release(t->device.state, issue->mark);
    issue->next = issues->spare;
    issues->spare = issue;
    count(issues, (uint32_t)-1);
}

/* Ends the works of the oldest issue; `error` is NULL when it has passed. */
static void end_oldest(struct tutti *t, const struct error *error)
{
    struct work *callbacks;
    struct work *works;

    pthread_mutex_lock(&t->lock);
    works = take_works(t->issues.oldest);
    for (struct work *work = works; work != NULL && error != NULL; work = work->next) {
        completion_set(work, error->status, completion_copy_error(error));
    }
    callbacks = completion_publish(t, works);
    pthread_mutex_unlock(&t->lock);
    recycle_oldest(t);
    doorbell_ring(&t->done_bell);
    completion_call_back(t, callbacks);
}

tutti_status issues_look(struct tutti *t, bool *moved)
{
    while (t->issues.oldest != NULL) {
        const tutti_status status =
                t->device.passed(t->device.state, t->issues.oldest->mark);

        if (status == TUTTI_AGAIN) {
            return TUTTI_OK;
        }
        if (status != TUTTI_OK) {
            return status;
        }
        *moved = true;
        end_oldest(t, NULL);
    }
    return TUTTI_OK;
}

bool issues_wait_for(struct tutti *t, struct device_mark *mark)
{
    struct issues *issues = &t->issues;

    if (t->device.passed(t->device.state, mark) != TUTTI_AGAIN) {
        return false;
    }
    if (issues->patience_ns == 0) {
        issues->patience_ns = clock_ns() + PATIENCE_NS;
    }
    return clock_ns() < issues->patience_ns;
}

bool issues_give_up(struct tutti *t, const struct error *error)
{
    struct issues *issues = &t->issues;

    while (issues->oldest != NULL) {
        if (issues_wait_for(t, issues->oldest->mark)) {
            return false;
        }
        end_oldest(t, error);
    }
    return true;
}

/*
 * Lock held. Requests change hands without it, but not while they are in an issue: what is
 * of this request now stays so.
 */
static bool is_issued(const struct work *work, tutti_request request)
{
    return work != NULL && work->issue != NULL && work_is_of(work, request);
}

void issues_marks(struct tutti *t, struct work *const *works,
        const tutti_request *requests, struct device_mark **marks, size_t count)
{
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < count; i++) {
        marks[i] = NULL;
        if (is_issued(works[i], requests[i])) {
            marks[i] = works[i]->issue->mark;
            t->device.hold(t->device.state, marks[i]);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

/* Lock held. The engine may have ended it meanwhile, or another thread have had it. */
static void end_on_stream(struct tutti *t, struct work *work, tutti_request request)
{
    if (!is_issued(work, request)) {
        return;
    }
    issue_leave(work);
    work_advance(work, WORK_DONE);
    counter_add(&t->issues.streamed, 1);
    counter_add(&t->issues.streamed_bytes, work->bytes);
    /* Pairs with work_is_done(), as in completion.c. */
    atomic_store_explicit(&work->done, WORK_FINAL, memory_order_release);
}

void issues_stream(struct tutti *t, struct work *const *works,
        const tutti_request *requests, struct device_mark *const *marks, size_t count)
{
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < count; i++) {
        if (marks[i] != NULL) {
            end_on_stream(t, works[i], requests[i]);
        }
    }
    pthread_mutex_unlock(&t->lock);
    doorbell_ring(&t->done_bell);
}

void issues_fini(struct tutti *t)
{
    struct issues *issues = &t->issues;
    uint32_t position = 0;
    struct work *work;

    while (issues->oldest != NULL) {
        recycle_oldest(t);
    }
    while (issues->spare != NULL) {
        struct issue *next = issues->spare->next;

        mem_free(issues->spare);
        issues->spare = next;
    }
    while ((work = work_next(&t->works, &position)) != NULL) {
        if (work->after != NULL) {
            t->device.release(t->device.state, work->after);
            work->after = NULL;
        }
    }
}
