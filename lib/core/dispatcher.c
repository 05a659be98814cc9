/*
 * Launching batches: window, fusion buffers, backends.
 */
#include "core/dispatcher.h"

#include <string.h>

#include "base/mem.h"
#include "core/completion.h"
#include "core/context.h"

struct batch *dispatcher_batch_new(struct tutti *t, struct process_set *set)
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
    batch->set = set;
    batch->work_count = 0;
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

        if (works == NULL) {
            return false;
        }
        batch->works = works;
        runs = mem_resize(batch->runs, capacity, sizeof *runs);
        if (runs == NULL) {
            return false;
        }
        batch->runs = runs;
        batch->work_capacity = capacity;
        dispatcher->works_max = capacity;
    }
    batch->works[batch->work_count++] = work;
    return true;
}

void dispatcher_submit(struct tutti *t, struct batch *batch)
{
    struct process_set *set = batch->set;

    batch->next = NULL;
    if (set->last_waiting != NULL) {
        set->last_waiting->next = batch;
    } else {
        set->first_waiting = batch;
    }
    set->last_waiting = batch;
    t->dispatcher.waiting++;
}

/* ------------------------------------------------------- fusion buffers */

static void *buffer_take(struct dispatcher *dispatcher, size_t bytes, size_t *size)
{
    for (int i = 0; i < dispatcher->buffer_count; i++) {
        struct fusion_buffer *spare = &dispatcher->buffers[i];

        if (spare->bytes >= bytes) {
            void *memory = spare->memory;

            *size = spare->bytes;
            *spare = dispatcher->buffers[--dispatcher->buffer_count];
            return memory;
        }
    }
    *size = bytes;
    return mem_alloc_aligned(bytes);
}

/* Keeps the largest ones: they fit the most batches, and those that need them come back. */
static void buffer_give(struct dispatcher *dispatcher, struct fusion_buffer buffer)
{
    if (dispatcher->buffer_count < DISPATCHER_BUFFERS_MAX) {
        dispatcher->buffers[dispatcher->buffer_count++] = buffer;
        return;
    }
    for (int i = 0; i < dispatcher->buffer_count; i++) {
        if (dispatcher->buffers[i].bytes < buffer.bytes) {
            const struct fusion_buffer smaller = dispatcher->buffers[i];

            dispatcher->buffers[i] = buffer;
            buffer = smaller;
        }
    }
    mem_free(buffer.memory);
}

static void pack(const struct batch *batch)
{
    char *to = batch->buffer;

    if (batch->op.collective == TUTTI_BROADCAST &&
            batch->set->op.rank != batch->op.root) {
        return;
    }
    for (size_t i = 0; i < batch->work_count; i++) {
        memcpy(to, batch->works[i]->input, batch->works[i]->bytes);
        to += batch->works[i]->bytes;
    }
}

static void unpack(const struct batch *batch)
{
    const char *from = batch->buffer;

    if (batch->op.collective == TUTTI_BROADCAST &&
            batch->set->op.rank == batch->op.root) {
        return;
    }
    for (size_t i = 0; i < batch->work_count; i++) {
        memcpy(batch->works[i]->output, from, batch->works[i]->bytes);
        from += batch->works[i]->bytes;
    }
}

/* --------------------------------------------------------------- launching */

static void describe(struct batch *batch)
{
    const struct work *first = batch->works[0];
    const struct meta *meta = &first->request.meta;

    batch->op = (struct op_batch){ .set = &batch->set->op,
        .sequence = batch->set->sequence++,
        .collective = (tutti_collective)first->request.collective,
        .dtype = meta->dtype,
        .op = meta->op,
        .prescale = meta->prescale,
        .postscale = meta->postscale,
        .root = meta->root,
        .runs = batch->runs };
    for (size_t i = 0; i < batch->work_count; i++) {
        struct work *work = batch->works[i];

        work_advance(work, WORK_RUNNING);
        batch->runs[i] = (struct op_run){ .input = work->input,
            .output = work->output,
            .count = (size_t)work->request.meta.count };
        batch->op.count += batch->runs[i].count;
    }
}

static const struct dispatcher_backend *choose(
        const struct dispatcher *dispatcher, struct batch *batch)
{
    for (int b = 0; b < dispatcher->backend_count; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];
        const bool takes_runs = (backend->ops->capabilities & OP_TAKES_RUNS) != 0;

        batch->op.run_count = takes_runs ? batch->work_count : 1;
        if (backend->ops->accepts(backend->state, &batch->op)) {
            return backend;
        }
    }
    return NULL;
}

static tutti_status use_buffer(struct dispatcher *dispatcher, struct batch *batch)
{
    const size_t bytes = batch->op.count * tutti_dtype_size(batch->op.dtype);

    batch->buffer = buffer_take(dispatcher, bytes, &batch->buffer_bytes);
    if (batch->buffer == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for a fusion buffer of %zu bytes", bytes);
    }
    pack(batch);
    batch->runs[0] = (struct op_run){
        .input = batch->buffer, .output = batch->buffer, .count = batch->op.count
    };
    return TUTTI_OK;
}

static tutti_status launch(struct tutti *t, struct batch *batch)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    tutti_status status = TUTTI_OK;

    describe(batch);
    batch->backend = choose(dispatcher, batch);
    if (batch->backend == NULL) {
        return error_set(TUTTI_ERR_INTERNAL, "no backend takes a %s of %s on %d ranks",
                tutti_collective_name(batch->op.collective),
                tutti_dtype_name(batch->op.dtype), batch->op.set->size);
    }
    if (batch->op.run_count < batch->work_count) {
        status = use_buffer(dispatcher, batch);
    }
    if (status == TUTTI_OK) {
        memset(batch->task, 0, batch->backend->ops->task_bytes);
        status = batch->backend->ops->start(
                batch->backend->state, batch->task, &batch->op);
    }
    if (status != TUTTI_OK) {
        /* Nothing was begun, so there is nothing to cancel. */
        batch->backend = NULL;
    }
    return status;
}

static void recycle(struct dispatcher *dispatcher, struct batch *batch)
{
    if (batch->buffer != NULL) {
        buffer_give(dispatcher,
                (struct fusion_buffer){
                        .memory = batch->buffer, .bytes = batch->buffer_bytes });
        batch->buffer = NULL;
    }
    batch->next = dispatcher->spare;
    dispatcher->spare = batch;
}

static void finish(struct tutti *t, struct batch *batch)
{
    struct work *works = NULL;

    if (batch->buffer != NULL) {
        unpack(batch);
    }
    for (size_t i = batch->work_count; i > 0; i--) {
        completion_set(batch->works[i - 1], TUTTI_OK, NULL);
        batch->works[i - 1]->next = works;
        works = batch->works[i - 1];
    }
    batch->set->running--;
    recycle(&t->dispatcher, batch);
    completion_finish(t, works);
}

/*
 * Backends tell batches in flight apart by sequence modulo OP_INFLIGHT_MAX, so one that
 * takes long holds up those that far behind it.
 */
static bool window_is_open(const struct tutti *t, const struct process_set *set)
{
    if (set->running >= t->config.inflight) {
        return false;
    }
    for (const struct batch *b = t->dispatcher.running; b != NULL; b = b->next) {
        if (b->set == set && set->sequence - b->op.sequence >= OP_INFLIGHT_MAX) {
            return false;
        }
    }
    return true;
}

static tutti_status launch_waiting(
        struct tutti *t, struct process_set *set, bool *moved)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    tutti_status status = TUTTI_OK;

    while (set->first_waiting != NULL && status == TUTTI_OK && window_is_open(t, set)) {
        struct batch *batch = set->first_waiting;
        struct batch **last = &dispatcher->running;

        set->first_waiting = batch->next;
        if (set->first_waiting == NULL) {
            set->last_waiting = NULL;
        }
        dispatcher->waiting--;
        set->running++;
        batch->next = NULL;
        while (*last != NULL) {
            last = &(*last)->next;
        }
        *last = batch;
        status = launch(t, batch);
        counter_add(&t->counters.batches, 1);
        *moved = true;
    }
    return status;
}

static tutti_status step_running(struct tutti *t, bool *moved)
{
    struct batch **at = &t->dispatcher.running;

    while (*at != NULL) {
        struct batch *batch = *at;
        const tutti_status status =
                batch->backend->ops->step(batch->backend->state, batch->task, moved);

        if (status == TUTTI_AGAIN) {
            at = &batch->next;
            continue;
        }
        if (status != TUTTI_OK) {
            return status;
        }
        *at = batch->next;
        *moved = true;
        finish(t, batch);
    }
    return TUTTI_OK;
}

tutti_status dispatcher_run(struct tutti *t, bool *moved)
{
    tutti_status status = TUTTI_OK;

    if (t->dispatcher.waiting > 0) {
        for (size_t s = 0; s < t->sets.count && status == TUTTI_OK; s++) {
            status = launch_waiting(t, t->sets.sets[s], moved);
        }
    }
    return status == TUTTI_OK ? step_running(t, moved) : status;
}

static void recycle_waiting(struct tutti *t)
{
    struct dispatcher *dispatcher = &t->dispatcher;

    for (size_t s = 0; s < t->sets.count && dispatcher->waiting > 0; s++) {
        struct process_set *set = t->sets.sets[s];

        while (set->first_waiting != NULL) {
            struct batch *batch = set->first_waiting;

            set->first_waiting = batch->next;
            recycle(dispatcher, batch);
        }
        set->last_waiting = NULL;
    }
    dispatcher->waiting = 0;
}

bool dispatcher_cancel_all(struct tutti *t)
{
    struct dispatcher *dispatcher = &t->dispatcher;
    struct batch **at = &dispatcher->running;

    recycle_waiting(t);
    while (*at != NULL) {
        struct batch *batch = *at;

        if (batch->backend != NULL &&
                !batch->backend->ops->cancel(batch->backend->state, batch->task)) {
            at = &batch->next;
            continue;
        }
        *at = batch->next;
        batch->set->running--;
        /* The backend may still write into the buffer until it is closed. */
        batch->next = dispatcher->cancelled;
        dispatcher->cancelled = batch;
    }
    return dispatcher->running == NULL;
}

bool dispatcher_is_idle(const struct dispatcher *dispatcher)
{
    return dispatcher->running == NULL && dispatcher->waiting == 0;
}

static void free_batches(struct batch *batch)
{
    while (batch != NULL) {
        struct batch *next = batch->next;

        mem_free(batch->works);
        mem_free(batch->runs);
        mem_free(batch->buffer);
        mem_free(batch->task);
        mem_free(batch);
        batch = next;
    }
}

void dispatcher_fini(struct dispatcher *dispatcher)
{
    for (int b = dispatcher->backend_count; b > 0; b--) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b - 1];

        backend->ops->close(backend->state);
    }
    free_batches(dispatcher->running);
    free_batches(dispatcher->spare);
    free_batches(dispatcher->cancelled);
    for (int i = 0; i < dispatcher->buffer_count; i++) {
        mem_free(dispatcher->buffers[i].memory);
    }
    *dispatcher = (struct dispatcher){ 0 };
}
