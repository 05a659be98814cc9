/*
 * Batches: their queues, windows and ends.
 */
#include "core/dispatcher.h"

#include <limits.h>
#include <string.h>

#include "base/bitset.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/completion.h"
#include "core/context.h"
#include "core/fusion.h"
#include "core/issues.h"
#include "core/launch.h"

static struct set_lane *lane_of(const struct batch *batch)
{
    return &batch->set->lanes[batch->lane];
}

struct batch *dispatcher_batch_new(
        struct tutti *t, struct process_set *set, uint32_t lane)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    struct batch *batch = dispatcher->spare;

    if (batch != NULL) {
        dispatcher->spare = batch->next;
    } else {
        batch = mem_calloc(1, sizeof *batch);
        if (batch == NULL) {
            return NULL;
        }
        batch->task = mem_alloc_aligned(dispatcher->task_bytes);
        if (batch->task == NULL) {
            mem_free(batch);
            return NULL;
        }
    }
    batch->context = t;
    batch->set = set;
    batch->lane = lane;
    batch->work_count = 0;
    batch->priority = INT_MIN;
    batch->timed_ns = 0;
    batch->skipped = false;
    batch->space = OP_HOST;
    batch->stage = STAGE_NONE;
    batch->issued = NULL;
    batch->launch = LAUNCH_AGREED;
    batch->set_ranks = NULL;
    batch->backend = NULL;
    batch->next = NULL;
    return batch;
}

bool dispatcher_batch_add(
        struct dispatcher *dispatcher, struct batch *batch, struct work *work)
{
    if (batch->work_count == batch->work_capacity) {
        /* To what another batch needed, so that all have grown after a few steps. */
        const size_t capacity =
                size_max(2 * batch->work_capacity + 8, dispatcher->works_max);
        struct work **works = mem_resize(batch->works, capacity, sizeof(struct work *));
        struct op_run *runs;
        struct device_mark **marks;

        if (works == NULL) {
            return false;
        }
        batch->works = works;
        runs = mem_resize(batch->runs, capacity, sizeof *runs);
        if (runs == NULL) {
            return false;
        }
        batch->runs = runs;
        marks = mem_resize(batch->marks, capacity, sizeof(struct device_mark *));
        if (marks == NULL) {
            return false;
        }
        batch->marks = marks;
        batch->work_capacity = capacity;
        dispatcher->works_max = capacity;
    }
    batch->works[batch->work_count++] = work;
    if (work->request.priority > batch->priority) {
        batch->priority = work->request.priority;
    }
    return true;
}

bool dispatcher_batch_without(struct batch *batch, const struct bitset *absent)
{
    const struct op_set *set = &batch->set->op;
    int *ranks = batch->ranks;
    int count = 0;

    if (absent == NULL || batch->set_ranks != NULL) {
        return true;
    }
    if (batch->rank_capacity < set->size) {
        ranks = mem_resize(batch->ranks, 2 * (size_t)set->size, sizeof *ranks);
        if (ranks == NULL) {
            return false;
        }
        batch->ranks = ranks;
        batch->rank_capacity = set->size;
    }
    batch->others = *set;
    for (int i = 0; i < set->size; i++) {
        if (bitset_has(absent, i)) {
            continue;
        }
        if (i == set->rank) {
            batch->others.rank = count;
        }
        ranks[set->size + count] = set->world_ranks[i];
        ranks[count++] = i;
    }
    batch->others.size = count;
    batch->others.partial = true;
    batch->others.world_ranks = ranks + set->size;
    batch->set_ranks = ranks;
    return true;
}

struct op_part *batch_parts(struct batch *batch, size_t count)
{
    struct op_part *grown;

    if (count <= batch->part_capacity) {
        return batch->parts;
    }
    grown = mem_resize(batch->parts, count, sizeof *grown);
    if (grown != NULL) {
        batch->parts = grown;
        batch->part_capacity = count;
    }
    return grown;
}

void dispatcher_submit(struct tutti *t, struct batch *batch)
{
    struct set_lane *lane = lane_of(batch);

    batch->next = NULL;
    if (lane->last_waiting != NULL) {
        lane->last_waiting->next = batch;
    } else {
        lane->first_waiting = batch;
    }
    lane->last_waiting = batch;
    batch->set->waiting_lanes |= 1u << batch->lane;
    t->dispatcher.waiting++;
    order_queued(t, batch);
}

static void note_time(const struct batch *batch)
{
    const size_t bytes = batch->op.count * tutti_dtype_size(batch->op.dtype);

    if (batch->timed_ns != 0) {
        negotiator_sample(&batch->set->negotiator, bytes, clock_ns() - batch->timed_ns);
    }
}

static void recycle(struct dispatcher *dispatcher, struct batch *batch)
{
    fusion_release(dispatcher, batch);
    if (batch->stage != STAGE_NONE) {
        staging_release(batch->context, batch);
    }
    batch->next = dispatcher->spare;
    dispatcher->spare = batch;
}

/* Takes the works of a batch that has ended; a list over next. */
static struct work *take_works(struct batch *batch)
{
    struct work *works = NULL;

    for (size_t i = batch->work_count; i > 0; i--) {
        completion_set(batch->works[i - 1], TUTTI_OK, NULL);
        batch->works[i - 1]->next = works;
        works = batch->works[i - 1];
    }
    batch->work_count = 0;
    return works;
}

/* The commands of a device batch are on their streams. */
static tutti_status finish_issued(struct tutti *t, struct batch *batch)
{
    struct work *works = take_works(batch);
    struct device_mark *mark = batch->issued;

    counter_add(&t->counters.device_batches, 1);
    lane_of(batch)->running--;
    batch->issued = NULL;
    recycle(&t->dispatcher, batch);
    return completion_issue(t, works, mark);
}

/* Its works are issued, but it stays until the host's memory is free again. */
static tutti_status finish_staged(struct tutti *t, struct batch *batch)
{
    const tutti_status status = staging_send_back(t, batch);

    if (status != TUTTI_OK) {
        return status;
    }
    counter_add(&t->counters.device_batches, 1);
    batch->backend = NULL;
    t->device.hold(t->device.state, batch->issued);
    return completion_issue(t, take_works(batch), batch->issued);
}

static void finish(struct tutti *t, struct batch *batch)
{
    struct work *works;

    if (batch->launch != LAUNCH_AGREED) {
        lane_of(batch)->running--;
        dispatcher_rider_ends(t, batch);
        recycle(&t->dispatcher, batch);
        return;
    }
    note_time(batch);
    works = take_works(batch);
    lane_of(batch)->running--;
    recycle(&t->dispatcher, batch);
    completion_finish(t, works);
}

/* It runs no more; its set may have been removed. */
static void leave_lane(const struct batch *batch)
{
    if (batch->set != NULL) {
        lane_of(batch)->running--;
    }
}

/*
 * Backends tell batches of a lane apart by sequence modulo OP_INFLIGHT_MAX, so one that
 * takes long holds up those that far behind it.
 */
static bool window_is_open(const struct tutti *t, const struct set_lane *lane)
{
    if (lane->running >= t->config.inflight) {
        return false;
    }
    for (const struct batch *b = t->dispatcher.running; b != NULL; b = b->next) {
        if (b->set != NULL && lane_of(b) == lane &&
                lane->sequence - b->op.sequence >= OP_INFLIGHT_MAX) {
            return false;
        }
    }
    return true;
}

/*
 * A reducescatter whose rows all fall to members that have joined: the others know it, and
 * backends take no empty batches of reductions.
 */
static bool moves_nothing(const struct batch *batch)
{
    size_t bytes = 0;

    if (batch->set_ranks == NULL ||
            batch->works[0]->request.collective != TUTTI_REDUCESCATTER) {
        return false;
    }
    for (size_t i = 0; i < batch->work_count; i++) {
        for (int m = 0; m < batch->others.size; m++) {
            bytes += batch->works[i]->parts[batch->set_ranks[m]].bytes;
        }
    }
    return bytes == 0;
}

/* Takes the first batch of a lane that has some waiting. */
static struct batch *take_waiting(struct dispatcher *dispatcher, struct set_lane *lane)
{
    struct batch *batch = lane->first_waiting;

    lane->first_waiting = batch->next;
    if (lane->first_waiting == NULL) {
        lane->last_waiting = NULL;
        batch->set->waiting_lanes &= ~(1u << batch->lane);
    }
    dispatcher->waiting--;
    batch->next = NULL;
    return batch;
}

/* Behind the others, but with `priority` before those that are less urgent. */
static void add_running(
        const struct tutti *t, struct dispatcher *dispatcher, struct batch *batch)
{
    struct batch **at = &dispatcher->running;

    for (struct batch *b = *at; b != NULL; b = b->next) {
        b->timed_ns = 0;
    }
    while (*at != NULL && !(t->config.priority && (*at)->priority < batch->priority)) {
        at = &(*at)->next;
    }
    batch->next = *at;
    *at = batch;
}

static tutti_status launch_lane(struct tutti *t, struct set_lane *lane, bool *moved)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    tutti_status status = TUTTI_OK;

    while (lane->first_waiting != NULL && status == TUTTI_OK &&
            window_is_open(t, lane) && order_allows(t, lane->first_waiting)) {
        struct batch *batch = take_waiting(dispatcher, lane);

        *moved = true;
        if (batch->space == OP_DEVICE && order_is_on(t)) {
            order_use(t);
        }
        if (batch->skipped) {
            lane->sequence++;
            recycle(dispatcher, batch);
            continue;
        }
        lane->running++;
        if (moves_nothing(batch)) {
            lane->sequence++;
            finish(t, batch);
            continue;
        }
        add_running(t, dispatcher, batch);
        status = launch_batch(t, batch);
        counter_add(&t->counters.batches, batch->launch == LAUNCH_AGREED ? 1 : 0);
    }
    return status;
}

/* Mostly one lane is in use, the first. */
static tutti_status launch_waiting(
        struct tutti *t, struct process_set *set, bool *moved)
{
    const unsigned lanes = set->waiting_lanes;
    tutti_status status = TUTTI_OK;

    for (int lane = 0; lanes >> lane != 0 && status == TUTTI_OK; lane++) {
        status = launch_lane(t, &set->lanes[lane], moved);
    }
    return status;
}

/* A batch that its backend has ended. TUTTI_AGAIN: something of it is left to do. */
static tutti_status end(struct tutti *t, struct batch *batch)
{
    tutti_status status;

    if (batch->buffer != NULL && batch->launch == LAUNCH_AGREED) {
        fusion_unpack(batch);
    }
    if (batch->stage != STAGE_HOST) {
        return TUTTI_OK;
    }
    status = finish_staged(t, batch);
    return status == TUTTI_OK ? TUTTI_AGAIN : status;
}

static tutti_status step(struct tutti *t, struct batch *batch, bool *moved)
{
    tutti_status status;

    if (batch->stage == STAGE_IN) {
        status = staging_step(t, batch, moved);
        return status == TUTTI_OK ? TUTTI_AGAIN : status;
    }
    if (batch->stage == STAGE_OUT) {
        return staging_step(t, batch, moved);
    }
    status = batch->backend->ops->step(batch->backend->state, batch->task, moved);
    return status == TUTTI_OK ? end(t, batch) : status;
}

/* It runs no more. */
static tutti_status finish_any(struct tutti *t, struct batch *batch)
{
    if (batch->stage == STAGE_OUT) {
        leave_lane(batch);
        recycle(&t->dispatcher, batch);
        return TUTTI_OK;
    }
    if (batch->space == OP_DEVICE) {
        return finish_issued(t, batch);
    }
    finish(t, batch);
    return TUTTI_OK;
}

/*
 * With `priority` a less urgent batch moves only when nothing more urgent can, because it
 * waits for other ranks. That holds nothing up for good: each batch ends after a number of
 * moves that is bounded.
 */
static tutti_status step_running(struct tutti *t, bool *moved)
{
    struct batch **at = &t->dispatcher.running;
    int urgency = INT_MIN; /* of what moved last and goes on: of the most urgent */

    while (*at != NULL && (*at)->priority >= urgency) {
        struct batch *batch = *at;
        bool went_on = false;
        tutti_status status = step(t, batch, &went_on);

        *moved = *moved || went_on;
        if (status == TUTTI_AGAIN) {
            urgency = t->config.priority && went_on ? batch->priority : urgency;
            at = &batch->next;
            continue;
        }
        if (status == TUTTI_OK) {
            *at = batch->next;
            *moved = true;
            status = finish_any(t, batch);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

/* Device batches of a lane may have to wait for one of a lane that was looked at before. */
static tutti_status launch_all(struct tutti *t, bool *moved)
{
    tutti_status status = TUTTI_OK;
    uint64_t used;

    do {
        used = t->order.used;
        if (order_is_on(t)) {
            status = order_advance(t, moved);
        }
        if (t->dispatcher.waiting == 0) {
            break;
        }
        for (size_t s = 0; s < t->sets.count && status == TUTTI_OK; s++) {
            status = launch_waiting(t, t->sets.sets[s], moved);
        }
    } while (status == TUTTI_OK && t->order.used != used);
    return status;
}

tutti_status dispatcher_run(struct tutti *t, bool *moved)
{
    const tutti_status status = launch_all(t, moved);

    return status == TUTTI_OK ? step_running(t, moved) : status;
}

static void recycle_waiting(struct dispatcher *dispatcher, struct process_set *set)
{
    for (int lane = 0; lane < OP_LANES; lane++) {
        while (set->lanes[lane].first_waiting != NULL) {
            recycle(dispatcher, take_waiting(dispatcher, &set->lanes[lane]));
        }
    }
}

static void forget_waiting(struct tutti *t, struct set_lane *lane)
{
    struct batch *batch = take_waiting(&t->dispatcher, lane);

    if (batch->launch != LAUNCH_AGREED) {
        dispatcher_rider_ends(t, batch);
    }
    recycle(&t->dispatcher, batch);
}

void dispatcher_forget(struct tutti *t, struct process_set *set)
{
    for (int lane = 0; lane < OP_LANES; lane++) {
        while (set->lanes[lane].first_waiting != NULL) {
            forget_waiting(t, &set->lanes[lane]);
        }
    }
    for (struct batch *b = t->dispatcher.running; b != NULL; b = b->next) {
        if (b->set == set && b->stage == STAGE_OUT) {
            b->set = NULL;
        }
    }
}

/* Nobody reads or writes the caller's memory for it any more. */
static bool is_cancelled(struct tutti *t, const struct batch *batch)
{
    if (batch->stage == STAGE_IN) {
        return !issues_wait_for(t, batch->issued);
    }
    return batch->backend == NULL ||
            batch->backend->ops->cancel(batch->backend->state, batch->task);
}

bool dispatcher_cancel_all(struct tutti *t)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    struct batch **at = &dispatcher->running;

    for (size_t s = 0; s < t->sets.count; s++) {
        recycle_waiting(dispatcher, t->sets.sets[s]);
    }
    while (*at != NULL) {
        struct batch *batch = *at;

        if (!is_cancelled(t, batch)) {
            at = &batch->next;
            continue;
        }
        *at = batch->next;
        leave_lane(batch);
        /* The backend may still write into the buffer until it is closed. */
        batch->next = dispatcher->cancelled;
        dispatcher->cancelled = batch;
    }
    return dispatcher->running == NULL;
}

tutti_status dispatcher_watch(const struct dispatcher *dispatcher)
{
    tutti_status status = TUTTI_OK;

    for (int b = 0; b < dispatcher->backend_count && status == TUTTI_OK; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];

        if (backend->ops->watch != NULL) {
            status = backend->ops->watch(backend->state);
        }
    }
    return status;
}

bool dispatcher_is_idle(const struct dispatcher *dispatcher)
{
    return dispatcher->running == NULL && dispatcher->waiting == 0;
}

static void free_batches(const struct dispatcher *dispatcher, struct batch *batch)
{
    while (batch != NULL) {
        struct batch *next = batch->next;

        if (batch->stage != STAGE_NONE) {
            staging_release(batch->context, batch);
        }
        mem_free(batch->staged);
        mem_free(batch->copies);
        mem_free(batch->marks);
        mem_free(batch->works);
        mem_free(batch->runs);
        mem_free(batch->parts);
        mem_free(batch->ranks);
        if (batch->buffer != NULL) {
            dispatcher->memory->give_back(dispatcher->memory->user, batch->buffer);
        }
        mem_free(batch->task);
        mem_free(batch);
        batch = next;
    }
}

void dispatcher_fini(struct tutti *t)
{
    struct dispatcher *dispatcher = &t->dispatcher;

    for (int b = dispatcher->backend_count; b > 0; b--) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b - 1];

        backend->ops->close(backend->state);
    }
    free_batches(dispatcher, dispatcher->running);
    free_batches(dispatcher, dispatcher->spare);
    free_batches(dispatcher, dispatcher->cancelled);
    for (int i = 0; i < dispatcher->buffer_count; i++) {
        dispatcher->memory->give_back(
                dispatcher->memory->user, dispatcher->buffers[i].memory);
    }
    *dispatcher = (struct dispatcher){ 0 };
}
