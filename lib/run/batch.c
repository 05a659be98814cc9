/*
 * Batches: their states, and what they hold.
 */
#include "run/batch.h"

#include <limits.h>

#include "base/bitset.h"
#include "base/mem.h"
#include "run/context.h"

#define NEXT(state) (1u << (state))
const unsigned batch_transitions[BATCH_STATE_COUNT] = {
    [BATCH_SPARE] = NEXT(BATCH_FORMING),
    [BATCH_FORMING] = NEXT(BATCH_WAITING) | NEXT(BATCH_SPARE),
    [BATCH_WAITING] = NEXT(BATCH_LAUNCHED) | NEXT(BATCH_SPARE),
    [BATCH_LAUNCHED] =
            NEXT(BATCH_FETCHING) | NEXT(BATCH_RUNNING) | NEXT(BATCH_CANCELLED),
    [BATCH_FETCHING] = NEXT(BATCH_LAUNCHED) | NEXT(BATCH_CANCELLED),
    [BATCH_RUNNING] = NEXT(BATCH_LAUNCHED) | NEXT(BATCH_RETURNING) | NEXT(BATCH_SPARE) |
            NEXT(BATCH_CANCELLED),
    [BATCH_RETURNING] = NEXT(BATCH_SPARE) | NEXT(BATCH_CANCELLED),
};
#undef NEXT

struct batch *batch_new(struct tutti *t, struct process_set *set)
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
    batch->operation_count = 0;
    batch->priority = INT_MIN;
    batch->space = OP_HOST;
    batch->issued = NULL;
    batch->operands = NULL;
    batch->present.places = NULL;
    batch->sizes.are_asked = false;
    batch->next = NULL;
    batch_advance(batch, BATCH_FORMING);
    return batch;
}

bool batch_add(
        struct dispatcher *dispatcher, struct batch *batch, struct operation *operation)
{
    if (batch->operation_count == batch->operation_capacity) {
        /* To what another batch needed, so that all have grown after a few steps. */
        const size_t capacity =
                size_max(2 * batch->operation_capacity + 8, dispatcher->operations_max);
        struct operation **operations =
                mem_resize(batch->operations, capacity, sizeof(struct operation *));
        struct op_run *runs;
        struct device_event **events;

        if (operations == NULL) {
            return false;
        }
        batch->operations = operations;
        runs = mem_resize(batch->runs, capacity, sizeof *runs);
        if (runs == NULL) {
            return false;
        }
        batch->runs = runs;
        events = mem_resize(batch->events, capacity, sizeof(struct device_event *));
        if (events == NULL) {
            return false;
        }
        batch->events = events;
        batch->operation_capacity = capacity;
        dispatcher->operations_max = capacity;
    }
    batch->operations[batch->operation_count++] = operation;
    if (operation->request.priority > batch->priority) {
        batch->priority = operation->request.priority;
    }
    return true;
}

bool batch_without(struct batch *batch, const struct bitset *absent)
{
    const struct op_set *set = &batch->set->op;
    int *ranks = batch->present.ranks;
    int count = 0;

    if (absent == NULL || batch->present.places != NULL) {
        return true;
    }
    if (batch->present.capacity < set->size) {
        ranks = mem_resize(batch->present.ranks, 2 * (size_t)set->size, sizeof *ranks);
        if (ranks == NULL) {
            return false;
        }
        batch->present.ranks = ranks;
        batch->present.capacity = set->size;
    }
    batch->present.set = *set;
    for (int i = 0; i < set->size; i++) {
        if (bitset_has(absent, i)) {
            continue;
        }
        if (i == set->rank) {
            batch->present.set.rank = count;
        }
        ranks[set->size + count] = set->world_ranks[i];
        ranks[count++] = i;
    }
    batch->present.set.size = count;
    batch->present.set.partial = true;
    batch->present.set.world_ranks = ranks + set->size;
    batch->present.places = ranks;
    return true;
}

struct op_part *batch_parts(struct batch *batch, size_t count)
{
    struct op_part *grown;

    if (count <= batch->parts.capacity) {
        return batch->parts.list;
    }
    grown = mem_resize(batch->parts.list, count, sizeof *grown);
    if (grown != NULL) {
        batch->parts.list = grown;
        batch->parts.capacity = count;
    }
    return grown;
}

void batch_unstage(struct batch *batch)
{
    const struct device *device = &batch->context->device;

    if (!batch_is_staged(batch)) {
        return;
    }
    for (size_t i = 0; i < batch->staging.count; i++) {
        const struct staged *staged = &batch->staging.tensors[i];

        if (staged->host_output != staged->host_input) {
            device->host_give_back(device->state, staged->host_output);
        }
        device->host_give_back(device->state, staged->host_input);
    }
    device->release(device->state, batch->issued);
    batch->issued = NULL;
    batch->staging.count = 0;
}

void batch_put_back(struct dispatcher *dispatcher, struct batch *batch)
{
    batch_unstage(batch);
    mem_free(batch->operands);
    batch->operands = NULL;
    batch_advance(batch, BATCH_SPARE);
    batch->next = dispatcher->spare;
    dispatcher->spare = batch;
}

void batch_free_all(struct batch *batches)
{
    while (batches != NULL) {
        struct batch *next = batches->next;

        batch_unstage(batches);
        mem_free(batches->operands);
        mem_free(batches->staging.tensors);
        mem_free(batches->staging.copies);
        mem_free(batches->sizes.table);
        mem_free(batches->events);
        mem_free(batches->operations);
        mem_free(batches->runs);
        mem_free(batches->parts.list);
        mem_free(batches->present.ranks);
        mem_free(batches->task);
        mem_free(batches);
        batches = next;
    }
}
