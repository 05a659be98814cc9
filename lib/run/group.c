/*
 * Groups of submissions: all or nothing.
 */
#include "run/group.h"

#include "base/mem.h"
#include "observe/observe.h"
#include "run/check.h"
#include "run/complete.h"
#include "run/context.h"
#include "run/failure.h"
#include "run/intake.h"
#include "run/operation.h"

struct open_group *group_of_thread(struct groups *groups)
{
    struct open_group *group = groups->first;

    while (group != NULL && pthread_equal(group->thread, pthread_self()) == 0) {
        group = group->next;
    }
    return group;
}

static struct open_group *find_group(struct tutti *t)
{
    struct open_group *group;

    if (!groups_are_open(&t->work.groups)) {
        return NULL;
    }
    pthread_mutex_lock(&t->lock);
    group = group_of_thread(&t->work.groups);
    pthread_mutex_unlock(&t->lock);
    return group;
}

bool group_is_open(struct tutti *t)
{
    return find_group(t) != NULL;
}

void group_add(struct open_group *group, struct operation *operation)
{
    operation->next = group->newest;
    group->newest = operation;
    group->callbacks += operation->callback.call != NULL ? 1 : 0;
    if (group->oldest == NULL) {
        group->oldest = operation;
    }
    group->count++;
    if (!op_is_pair(&operation->set->op)) {
        group->agreed++;
        group->set = operation->set;
        /* A sum, so that the order of submission does not matter. */
        group->hash += operation->request.hash;
    }
}

/* Its error is its thread's alone, as its members are. */
static void refuse(const struct tutti *t, struct open_group *group, tutti_status status)
{
    if (group != NULL && status != TUTTI_OK && group->error.status == TUTTI_OK) {
        error_fill(&group->error, status, t->rank, "%s", tutti_last_error());
    }
}

void group_refuse(struct tutti *t, tutti_status status)
{
    refuse(t, find_group(t), status);
}

tutti_status group_begin(struct tutti *t)
{
    struct open_group *group;

    if (group_is_open(t)) {
        return error_set(TUTTI_ERR_INVALID,
                "this thread of rank %d has a group open; groups do not nest", t->rank);
    }
    group = mem_calloc(1, sizeof *group);
    if (group == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group");
    }
    group->thread = pthread_self();
    pthread_mutex_lock(&t->lock);
    group->next = t->work.groups.first;
    t->work.groups.first = group;
    (void)atomic_fetch_add_explicit(&t->work.groups.open, 1, memory_order_relaxed);
    pthread_mutex_unlock(&t->lock);
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
    struct operation *next;

    for (struct operation *operation = group->newest; operation != NULL;
            operation = next) {
        next = operation->next;
        complete_release(t, operation);
        if (operation_end(operation)) {
            operation_put_back(&t->work.operations, operation);
        }
    }
}

static void queue_members(struct tutti *t, struct open_group *group)
{
    uint64_t order = atomic_load_explicit(&t->work.intake.count, memory_order_relaxed) +
            group->count;

    if (group->newest == NULL) {
        return;
    }
    for (struct operation *operation = group->newest; operation != NULL;
            operation = operation->next) {
        if (!op_is_pair(&operation->set->op)) {
            /* 0 means "no group". */
            operation->request.meta.group = group->hash != 0 ? group->hash : 1;
            operation->request.meta.group_size = group->agreed;
        }
        observe_operation(t, operation, EVENT_SUBMITTED, --order);
    }
    intake_push(&t->work.intake, group->newest, group->oldest, group->count);
}

/*
 * What is on the streams of its members now, where it is submitted: one event for neighbours
 * with the same stream. The members are this thread's; the driver is called with no lock
 * held. The first error is the group's.
 */
static tutti_status record_members(struct tutti *t, const struct open_group *group)
{
    const struct operation *last = NULL;
    tutti_status status = TUTTI_OK;
    bool captured = false;

    for (struct operation *operation = group->newest;
            operation != NULL && status == TUTTI_OK; operation = operation->next) {
        if (operation->request.meta.space != OP_DEVICE) {
            continue;
        }
        if (last != NULL && last->on_device.stream == operation->on_device.stream) {
            t->device.hold(t->device.state, last->on_device.after);
            operation->on_device.after = last->on_device.after;
        } else {
            status = t->device.record(t->device.state, operation->on_device.stream,
                    &operation->on_device.after, &captured);
        }
        operation->request.meta.space = captured ? OP_CAPTURED : OP_DEVICE;
        last = operation;
    }
    return status;
}

/* Another thread may have joined, or ended the context, since the members were taken. */
static tutti_status end_locked(struct tutti *t, struct open_group *group)
{
    refuse(t, group, check_late(t, group->set, group->oldest));
    detach(&t->work.groups, group);
    if (group->error.status != TUTTI_OK) {
        withdraw(t, group);
        return group->error.status;
    }
    queue_members(t, group);
    return TUTTI_OK;
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
        refuse(t, group, failure_of_device(t, record_members(t, group)));
    }
    pthread_mutex_lock(&t->lock);
    status = end_locked(t, group);
    pthread_mutex_unlock(&t->lock);
    if (status != TUTTI_OK) {
        status = error_raise(&group->error);
    } else {
        context_notify(t, group->callbacks);
    }
    mem_free(group);
    return status;
}
