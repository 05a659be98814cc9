/*
 * Taking the outcomes of one turn.
 */
#include "core/ready.h"

#include <string.h>

#include "base/mem.h"
#include "core/completion.h"
#include "core/context.h"
#include "core/output.h"

/* The works of one turn that need a backend. */
struct turn {
    size_t count; /* in t->items and t->ready */
};

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the batches of a turn");
}

/* A set that cannot be created fails everywhere alike, but for lack of memory. */
static tutti_status create_set(struct tutti *t, struct work *work)
{
    const struct meta *meta = &work->request.meta;
    struct process_set *set = NULL;
    const tutti_status status = process_sets_add(t, meta->dims, meta->ndim, &set);

    if (status == TUTTI_ERR_UNSUPPORTED) {
        completion_fail(t, work, status, tutti_last_error());
        return TUTTI_OK;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (!order_created(t, set, work)) {
        *(tutti_process_set *)work->output = set->id;
        completion_finish_one(t, work, TUTTI_OK, NULL);
    }
    return TUTTI_OK;
}

static void destroy_set(struct tutti *t, struct work *work)
{
    struct process_set *set =
            process_sets_find(&t->sets, (tutti_process_set)work->request.meta.count);

    if (set != NULL) {
        process_sets_remove(t, set);
    }
    completion_finish_one(t, work, TUTTI_OK, NULL);
}

/* All members have called finalize: what is still with the negotiator never completes. */
static void finalize_set(struct tutti *t, struct process_set *set, struct work *work)
{
    struct error error;

    set->finalized = true;
    completion_finish_one(t, work, TUTTI_OK, NULL);
    error_fill(&error, TUTTI_ERR_FINALIZED, t->rank,
            "all ranks have called tutti_finalize() and not all had submitted this");
    completion_drain(t, set, WORK_ANNOUNCED, &error);
}

/* All members have joined: everything starts anew. */
static void finish_join(struct tutti *t, struct work *work, int last)
{
    if (work->output != NULL) {
        *(int *)work->output = last;
    }
    completion_finish_one(t, work, TUTTI_OK, NULL);
}

/* True for the collectives that are no tensors, which are done with here. */
static bool take_internal(struct tutti *t, struct process_set *set,
        const struct outcome *outcome, tutti_status *status)
{
    struct work *work = outcome->cookie;

    switch (work->request.collective) {
    case META_SET_CREATE:
        *status = create_set(t, work);
        return true;
    case META_SET_DESTROY:
        destroy_set(t, work);
        return true;
    case META_FINALIZE:
        finalize_set(t, set, work);
        return true;
    case META_JOIN:
        finish_join(t, work, outcome->last);
        return true;
    default:
        return false;
    }
}

/* Nothing is to be moved, and every rank knows it. */
static bool is_nothing(int collective, const struct meta *meta)
{
    if (rows_apply(collective)) {
        return rows_are_none(collective, meta);
    }
    return collective == TUTTI_BARRIER || meta->count == 0;
}

static tutti_status finish_nothing(struct tutti *t, struct work *work)
{
    if (work->owns_output && !output_give(t, work, 0)) {
        return no_memory();
    }
    completion_finish_one(t, work, TUTTI_OK, NULL);
    return TUTTI_OK;
}

static size_t agreed_bytes(
        const struct process_set *set, int collective, const struct meta *meta)
{
    if (rows_apply(collective)) {
        return rows_agreed_bytes(collective, meta, set->op.size);
    }
    return (size_t)meta->count * tutti_dtype_size(meta->dtype);
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

/* A tensor for the planner; without a work when this rank has joined. */
static tutti_status add_item(struct tutti *t, const struct process_set *set,
        const struct outcome *outcome, struct turn *turn)
{
    struct work *work = outcome->cookie;
    const int collective =
            work != NULL ? work->request.collective : outcome->collective;
    const struct meta *meta = work != NULL ? &work->request.meta : &outcome->meta;

    if (is_nothing(collective, meta)) {
        return work != NULL ? finish_nothing(t, work) : TUTTI_OK;
    }
    if (!mem_grow(&t->items, &t->item_capacity, turn->count + 1, sizeof *t->items) ||
            !mem_grow(
                    &t->ready, &t->ready_capacity, turn->count + 1, sizeof *t->ready)) {
        return no_memory();
    }
    if (work != NULL) {
        work_advance(work, WORK_AGREED);
    }
    t->items[turn->count] = (struct planner_item){ .collective = collective,
        .meta = *meta,
        .bytes = agreed_bytes(set, collective, meta),
        .absent = absent_key(outcome->absent) };
    t->ready[turn->count++] =
            (struct ready_work){ .work = work, .absent = outcome->absent };
    return TUTTI_OK;
}

static tutti_status take_ready(struct tutti *t, struct process_set *set,
        const struct outcome *outcome, struct turn *turn)
{
    tutti_status status = TUTTI_OK;

    if (outcome->cookie != NULL && take_internal(t, set, outcome, &status)) {
        return status;
    }
    return add_item(t, set, outcome, turn);
}

static tutti_status fill_batches(struct tutti *t, const struct turn *turn)
{
    for (size_t i = 0; i < turn->count; i++) {
        struct batch *batch = t->batches[t->items[i].batch];
        const struct ready_work *ready = &t->ready[i];

        batch->space = t->items[i].meta.space;
        if (ready->work == NULL) {
            batch->skipped = true;
        } else if (!dispatcher_batch_add(&t->dispatcher, batch, ready->work) ||
                !dispatcher_batch_without(batch, ready->absent)) {
            return no_memory();
        }
    }
    return TUTTI_OK;
}

static tutti_status make_batches(
        struct tutti *t, struct process_set *set, const struct turn *turn)
{
    tutti_status status;
    size_t count = 0;

    if (!planner_plan(&t->planner, &t->limits, t->items, turn->count, &count) ||
            !mem_grow(&t->batches, &t->batch_capacity, count, sizeof *t->batches)) {
        return no_memory();
    }
    for (size_t b = 0; b < count; b++) {
        t->batches[b] = dispatcher_batch_new(t, set, 0);
        if (t->batches[b] == NULL) {
            return no_memory();
        }
    }
    status = fill_batches(t, turn);
    for (size_t b = 0; b < count && status == TUTTI_OK; b++) {
        dispatcher_submit(t, t->batches[b]);
    }
    return status;
}

/* Takes the outcomes from `first` on that belong to one turn; returns the next one. */
static size_t take_turn(
        struct tutti *t, struct process_set *set, size_t first, tutti_status *status)
{
    struct negotiator *negotiator = &set->negotiator;
    const uint64_t this_turn = negotiator->outcomes[first].turn;
    struct turn turn = { 0 };
    size_t i = first;

    while (i < negotiator->outcome_count && negotiator->outcomes[i].turn == this_turn &&
            negotiator->outcomes[i].lane == 0 && *status == TUTTI_OK) {
        struct outcome *outcome = &negotiator->outcomes[i++];
        struct error *error = outcome->error;

        outcome->error = NULL;
        if (error == NULL) {
            *status = take_ready(t, set, outcome, &turn);
        } else {
            completion_finish_one(t, outcome->cookie, error->status, error);
        }
    }
    if (*status == TUTTI_OK && turn.count > 0) {
        *status = make_batches(t, set, &turn);
    }
    return i;
}

/* What the backends are told of a batch before it is one. */
static struct op_batch describe_planned(const struct process_set *set,
        const struct plan *plan, const struct plan_batch *batch)
{
    const struct entry *first = plan->items[batch->first];
    struct op_batch what = { .set = &set->op,
        .lane = plan->lane,
        .space = first->meta.space,
        .collective = (tutti_collective)first->collective,
        .dtype = first->meta.dtype,
        .op = first->meta.op,
        .divisor = set->op.size,
        .prescale = first->meta.prescale,
        .postscale = first->meta.postscale,
        .root = first->meta.root,
        .run_count = 1 };

    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        const struct entry *entry = plan->items[i];

        what.count += agreed_bytes(set, entry->collective, &entry->meta) /
                tutti_dtype_size(what.dtype);
    }
    return what;
}

bool ready_plan_rides(void *user, const struct plan *plan)
{
    const struct process_set *set = user;

    if (!set->context->config.plan_rides) {
        return false;
    }
    for (uint32_t b = 0; b < plan->batch_count; b++) {
        const struct plan_batch *batch = &plan->batches[b];
        struct op_batch what;

        if (!op_is_reduction((tutti_collective)plan->items[batch->first]->collective)) {
            return false;
        }
        what = describe_planned(set, plan, batch);
        if (!dispatcher_rides(&set->context->dispatcher, &what)) {
            return false;
        }
    }
    return true;
}

tutti_status ready_begin(
        struct tutti *t, struct process_set *set, const struct action *action)
{
    const uint8_t *cookies = set->negotiator.arena.data + action->offset;
    struct batch *batch = dispatcher_batch_new(t, set, action->lane);

    if (batch == NULL) {
        return no_memory();
    }
    for (size_t at = 0; at < action->len; at += sizeof(struct work *)) {
        struct work *work = NULL;

        memcpy(&work, cookies + at, sizeof work);
        work_advance(work, WORK_BEGUN);
        if (!dispatcher_batch_add(&t->dispatcher, batch, work)) {
            return no_memory();
        }
    }
    dispatcher_begin(t, batch, action->word);
    return TUTTI_OK;
}

/* Takes the outcomes from `first` on that are a batch of a plan; returns the next one. */
static size_t take_planned(
        struct tutti *t, struct process_set *set, size_t first, tutti_status *status)
{
    struct negotiator *negotiator = &set->negotiator;
    const struct outcome *head = &negotiator->outcomes[first];
    struct batch *batch;
    size_t i = first;

    if (head->begun) {
        return first + dispatcher_agree(t, set, head->lane, head->index);
    }
    batch = dispatcher_batch_new(t, set, head->lane);
    if (batch == NULL) {
        *status = no_memory();
        return i;
    }
    while (i < negotiator->outcome_count &&
            negotiator->outcomes[i].lane == head->lane &&
            negotiator->outcomes[i].turn == head->turn) {
        struct work *work = negotiator->outcomes[i++].cookie;

        work_advance(work, WORK_AGREED);
        batch->space = work->request.meta.space;
        if (!dispatcher_batch_add(&t->dispatcher, batch, work)) {
            *status = no_memory();
            return i;
        }
    }
    dispatcher_submit(t, batch);
    return i;
}

/*
 * Several turns may have arrived at once here and one by one elsewhere: each is planned by
 * itself, so that all ranks form the same batches.
 */
tutti_status ready_take(struct tutti *t, struct process_set *set)
{
    tutti_status status = TUTTI_OK;
    size_t next = 0;

    while (next < set->negotiator.outcome_count && status == TUTTI_OK) {
        next = set->negotiator.outcomes[next].lane == 0
                ? take_turn(t, set, next, &status)
                : take_planned(t, set, next, &status);
    }
    return status;
}
