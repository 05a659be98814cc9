/*
 * Turns what was agreed into batches.
 */
#include "run/outcomes.h"

#include <string.h>

#include "agree/meta.h"
#include "agree/outbox.h"
#include "base/mem.h"
#include "run/batch.h"
#include "run/complete.h"
#include "run/context.h"
#include "run/dispatch.h"
#include "run/operation.h"
#include "run/order.h"
#include "run/output.h"
#include "run/process_set.h"

static tutti_status no_memory_for_batch(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for batches");
}

/*
 * A set that cannot be created fails everywhere alike, but for lack of memory. Without ranks
 * none is: then it was to be agreed that sets come now (lib/api/process_sets.c).
 */
static tutti_status create_set(struct tutti *t, struct operation *operation)
{
    const struct meta *meta = &operation->request.meta;
    struct process_set *set = NULL;
    tutti_status status;

    if (meta->ndim == 0) {
        complete_one(t, operation, TUTTI_OK, NULL);
        return TUTTI_OK;
    }
    status = process_sets_add(t, meta->dims, meta->ndim, &set);
    if (status == TUTTI_ERR_UNSUPPORTED) {
        complete_failed(t, operation, status, tutti_last_error());
        return TUTTI_OK;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (!order_created(t, set, operation)) {
        *(tutti_process_set *)operation->memory.output = set->id;
        complete_one(t, operation, TUTTI_OK, NULL);
    }
    return TUTTI_OK;
}

static void destroy_set(struct tutti *t, struct operation *operation)
{
    struct process_set *set = process_sets_find(
            &t->sets, (tutti_process_set)operation->request.meta.count);

    if (set != NULL) {
        process_sets_take(t, set);
        dispatch_forget(&t->dispatcher, set);
        order_removed(t, set);
        process_set_free(set);
    }
    complete_one(t, operation, TUTTI_OK, NULL);
}

/* All members have called finalize: what is still with the negotiator never completes. */
static void finalize_set(
        struct tutti *t, struct process_set *set, struct operation *operation)
{
    struct error error;

    set->finalized = true;
    complete_one(t, operation, TUTTI_OK, NULL);
    error_fill(&error, TUTTI_ERR_FINALIZED, t->rank,
            "all ranks have called tutti_finalize() and not all had submitted this");
    complete_drain(t, set, OPERATION_ANNOUNCED, &error);
}

/* All members have joined: everything starts anew. */
static void finish_join(struct tutti *t, struct operation *operation, int last)
{
    if (operation->memory.output != NULL) {
        *(int *)operation->memory.output = last;
    }
    complete_one(t, operation, TUTTI_OK, NULL);
}

/* The collectives that are no tensors are done with here. */
static tutti_status take_internal(
        struct tutti *t, struct process_set *set, const struct outcome *outcome)
{
    struct operation *operation = outcome->cookie;

    switch (outcome->collective) {
    case META_SET_CREATE:
        return create_set(t, operation);
    case META_SET_DESTROY:
        destroy_set(t, operation);
        return TUTTI_OK;
    case META_FINALIZE:
        finalize_set(t, set, operation);
        return TUTTI_OK;
    default:
        finish_join(t, operation, outcome->last);
        return TUTTI_OK;
    }
}

static tutti_status finish_nothing(struct tutti *t, struct operation *operation)
{
    if (operation->memory.owns_output && !output_give(t, operation, 0)) {
        return no_memory_for_batch();
    }
    complete_one(t, operation, TUTTI_OK, NULL);
    return TUTTI_OK;
}

static uint64_t absent_key(const struct bitset *absent)
{
    uint64_t key = 0;

    for (int i = 0; absent != NULL && i < absent->bits; i++) {
        if (bitset_has(absent, i)) {
            key = hash_u64(key, (uint64_t)i + 1);
        }
    }
    return key;
}

/* The batch of that number, which the planner may just have opened; NULL: no memory. */
static struct batch *batch_at(
        struct tutti *t, struct process_set *set, size_t index, const struct meta *meta)
{
    struct forming *forming = &t->engine.forming;

    if (index < forming->count) {
        return forming->batches[index];
    }
    if (index == SIZE_MAX ||
            !mem_grow(&forming->batches, &forming->capacity, index + 1,
                    sizeof *forming->batches)) {
        return NULL;
    }
    forming->batches[index] = batch_new(t, set);
    if (forming->batches[index] != NULL) {
        forming->batches[index]->space = meta->space;
        forming->count++;
    }
    return forming->batches[index];
}

/* Puts a tensor into a batch; without an operation when this rank has joined. */
static tutti_status add_tensor(
        struct tutti *t, struct process_set *set, const struct outcome *outcome)
{
    struct forming *forming = &t->engine.forming;
    struct operation *operation = outcome->cookie;
    const struct meta *meta = operation != NULL
            ? &operation->request.meta
            : outcome_meta(&set->negotiator.outbox, outcome);
    struct batch *batch;
    size_t index;

    if (meta_is_nothing(outcome->collective, meta)) {
        return operation != NULL ? finish_nothing(t, operation) : TUTTI_OK;
    }
    index = planner_add(&forming->planner, &forming->limits, outcome->collective, meta,
            meta_agreed_bytes(outcome->collective, meta, set->op.size),
            absent_key(outcome->joined));
    batch = batch_at(t, set, index, meta);
    if (batch == NULL) {
        return no_memory_for_batch();
    }
    if (operation == NULL) {
        return TUTTI_OK;
    }
    if (outcome->mixed) {
        operation->request.meta.spot = META_SPOT_MIXED;
    }
    operation_advance(operation, OPERATION_AGREED);
    return batch_add(&t->dispatcher, batch, operation) &&
                    batch_without(batch, outcome->joined)
            ? TUTTI_OK
            : no_memory_for_batch();
}

/* A tensor whose operands are all here is a batch of its own. */
static tutti_status queue_with_operands(
        struct tutti *t, struct process_set *set, const struct outcome *outcome)
{
    const size_t len = outcome->operand_len * (size_t)set->op.size;
    struct operation *operation = outcome->cookie;
    struct batch *batch = batch_new(t, set);

    if (batch == NULL) {
        return no_memory_for_batch();
    }
    batch->operands = mem_alloc(len);
    if (batch->operands == NULL || !batch_add(&t->dispatcher, batch, operation)) {
        batch_put_back(&t->dispatcher, batch);
        return no_memory_for_batch();
    }
    memcpy(batch->operands, set->negotiator.outbox.operands.data + outcome->operands,
            len);
    operation_advance(operation, OPERATION_AGREED);
    dispatch_queue(t, batch);
    return TUTTI_OK;
}

static tutti_status take_ready(
        struct tutti *t, struct process_set *set, const struct outcome *outcome)
{
    if (outcome->operand_len > 0) {
        return queue_with_operands(t, set, outcome);
    }
    return outcome->collective >= META_SET_CREATE && outcome->cookie != NULL
            ? take_internal(t, set, outcome)
            : add_tensor(t, set, outcome);
}

/* A batch that is formed is queued; otherwise the context fails, which ends its operations. */
static void queue_or_drop(struct tutti *t, struct batch *batch, tutti_status status)
{
    if (status == TUTTI_OK) {
        dispatch_queue(t, batch);
    } else {
        batch_put_back(&t->dispatcher, batch);
    }
}

/* Takes the outcomes from `first` on that one message of the log decided; returns the next. */
static size_t take_logged(
        struct tutti *t, struct process_set *set, size_t first, tutti_status *status)
{
    struct negotiator *negotiator = &set->negotiator;
    const uint64_t message = negotiator->outbox.outcomes[first].log_message;
    size_t i = first;

    t->engine.forming.count = 0;
    planner_begin(&t->engine.forming.planner);
    while (i < negotiator->outbox.outcome_count &&
            negotiator->outbox.outcomes[i].log_message == message &&
            *status == TUTTI_OK) {
        struct outcome *outcome = &negotiator->outbox.outcomes[i++];
        struct error *error = outcome->error;

        outcome->error = NULL;
        if (error == NULL) {
            *status = take_ready(t, set, outcome);
        } else {
            complete_one(t, outcome->cookie, error->status, error);
        }
    }
    for (size_t b = 0; b < t->engine.forming.count; b++) {
        queue_or_drop(t, t->engine.forming.batches[b], *status);
    }
    return i;
}

/*
 * Several messages of the log may have arrived at once here and one by one elsewhere: each is
 * planned by itself, so that all ranks form the same batches.
 */
tutti_status outcomes_take(struct tutti *t, struct process_set *set)
{
    tutti_status status = TUTTI_OK;
    size_t next = 0;

    while (next < set->negotiator.outbox.outcome_count && status == TUTTI_OK) {
        next = take_logged(t, set, next, &status);
    }
    return status;
}

void forming_fini(struct forming *forming)
{
    planner_fini(&forming->planner);
    mem_free(forming->batches);
}
