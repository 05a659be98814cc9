/*
 * Groups of submissions.
 */
#include "core/group.h"

#include "base/mem.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/failure.h"
#include "core/submit.h"

struct open_group *group_of_thread(struct groups *groups)
{
    struct open_group *group = groups->first;

    while (group != NULL && pthread_equal(group->thread, pthread_self()) == 0) {
        group = group->next;
    }
    return group;
}

bool group_is_open(struct tutti *t)
{
    bool open;

    if (atomic_load_explicit(&t->groups.open, memory_order_relaxed) == 0) {
        return false;
    }
    pthread_mutex_lock(&t->lock);
    open = group_of_thread(&t->groups) != NULL;
    pthread_mutex_unlock(&t->lock);
    return open;
}

void group_add(struct open_group *group, struct work *work)
{
    work->next = group->newest;
    group->newest = work;
    if (group->oldest == NULL) {
        group->oldest = work;
    }
    group->count++;
    /* A sum, so that the order of submission does not matter. */
    group->hash += work->request.hash;
}

void group_refuse(struct tutti *t, tutti_status status)
{
    struct open_group *group;

    if (status == TUTTI_OK ||
            atomic_load_explicit(&t->groups.open, memory_order_relaxed) == 0) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    group = group_of_thread(&t->groups);
    if (group != NULL && group->error.status == TUTTI_OK) {
        error_fill(&group->error, status, t->rank, "%s", tutti_last_error());
    }
    pthread_mutex_unlock(&t->lock);
}

tutti_status group_begin(struct tutti *t)
{
    struct open_group *group;
    bool open;

    group = mem_calloc(1, sizeof *group);
    if (group == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group");
    }
    group->thread = pthread_self();
    pthread_mutex_lock(&t->lock);
    open = group_of_thread(&t->groups) != NULL;
    if (!open) {
        group->next = t->groups.first;
        t->groups.first = group;
        (void)atomic_fetch_add_explicit(&t->groups.open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&t->lock);
    if (open) {
        mem_free(group);
        return error_set(TUTTI_ERR_INVALID,
                "this thread of rank %d has a group open; groups do not nest", t->rank);
    }
    return TUTTI_OK;
}

static void detach(struct groups *groups, const struct open_group *group)
{
    struct open_group **at = &groups->first;

    while (*at != group) {
        at = &(*at)->next;
    }
    *at = group->next;
    (void)atomic_fetch_sub_explicit(&groups->open, 1, memory_order_relaxed);
}

static void withdraw(struct tutti *t, struct open_group *group)
{
    struct work *next;

    for (struct work *work = group->newest; work != NULL; work = next) {
        next = work->next;
        submit_withdraw(t, work);
    }
}

static void queue_members(struct tutti *t, struct open_group *group)
{
    if (group->newest == NULL) {
        return;
    }
    for (struct work *work = group->newest; work != NULL; work = work->next) {
        /* 0 means "no group". */
        work->request.meta.group = group->hash != 0 ? group->hash : 1;
        work->request.meta.group_size = group->count;
    }
    intake_push(&t->intake, group->newest, group->oldest, group->count);
}

/*
 * What is on the streams of its members now, where it is submitted: one mark for neighbours
 * with the same stream. The members are this thread's; the driver is called with no lock
 * held. The first error is the group's.
 */
static tutti_status mark_members(struct tutti *t, const struct open_group *group)
{
    const struct work *last = NULL;
    tutti_status status = TUTTI_OK;

    for (struct work *work = group->newest; work != NULL && status == TUTTI_OK;
            work = work->next) {
        if (work->request.meta.space != OP_DEVICE) {
            continue;
        }
        if (last != NULL && last->stream == work->stream) {
            t->device.hold(t->device.state, last->after);
            work->after = last->after;
        } else {
            status = t->device.mark(t->device.state, work->stream, &work->after);
        }
        last = work;
    }
    return status;
}

static tutti_status end_locked(struct tutti *t, struct open_group *group)
{
    if (group->error.status == TUTTI_OK && t->failure.status != TUTTI_OK) {
        group->error = t->failure;
    }
    detach(&t->groups, group);
    if (group->error.status != TUTTI_OK) {
        withdraw(t, group);
        return group->error.status;
    }
    queue_members(t, group);
    return TUTTI_OK;
}

static struct open_group *find_group(struct tutti *t)
{
    struct open_group *group;

    pthread_mutex_lock(&t->lock);
    group = group_of_thread(&t->groups);
    pthread_mutex_unlock(&t->lock);
    return group;
}

tutti_status group_end(struct tutti *t)
{
    struct open_group *group = find_group(t);
    tutti_status status;

    if (group == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "this thread of rank %d has no group open", t->rank);
    }
    if (t->device.state != NULL) {
        group_refuse(t, failure_of_device(t, mark_members(t, group)));
    }
    pthread_mutex_lock(&t->lock);
    status = end_locked(t, group);
    pthread_mutex_unlock(&t->lock);
    if (status != TUTTI_OK) {
        status = error_raise(&group->error);
    } else {
        driver_notify(t);
    }
    mem_free(group);
    return status;
}
