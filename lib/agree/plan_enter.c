/*
 * Plans begin and end with the log: PLAN entries, written by the coordinator, read by all.
 *
 * From there on its tensors count as submitted to the plan, announced or not, and what was
 * announced of them before is void wherever it is: here, held by a node, or under way.
 */
#include "agree/groups.h"
#include "agree/joined.h"
#include "agree/log.h"
#include "agree/names.h"
#include "agree/plans.h"
#include "agree/protocol.h"
#include "base/mem.h"

/* ------------------------------------------------------------------- storage */

static void plan_free(struct plan *plan)
{
    if (plan != NULL) {
        mem_free(plan->items);
        mem_free(plan->batches);
        mem_free(plan->arrivals);
        mem_free(plan);
    }
}

static size_t arrivals_of(const struct negotiator *negotiator)
{
    return sees_members(negotiator) ? (size_t)negotiator->config.size
                                    : (size_t)negotiator->tree.child_count;
}

static struct plan *plan_new(const struct negotiator *negotiator, uint32_t lane,
        uint32_t items, uint32_t batches)
{
    struct plan *plan = mem_calloc(1, sizeof *plan);

    if (plan == NULL) {
        return NULL;
    }
    plan->lane = lane;
    plan->item_count = items;
    plan->batch_count = batches;
    plan->history.is_new = true;
    plan->items = mem_calloc(items, sizeof(struct tensor_state *));
    plan->batches = mem_calloc(batches, sizeof *plan->batches);
    plan->arrivals = mem_calloc(arrivals_of(negotiator) + 1, sizeof *plan->arrivals);
    if (plan->items == NULL || plan->batches == NULL || plan->arrivals == NULL) {
        plan_free(plan);
        return NULL;
    }
    return plan;
}

void plans_fini(struct negotiator *negotiator)
{
    for (int l = 0; l < PLAN_LANES_MAX; l++) {
        plan_free(negotiator->plans.lanes[l].current);
        plan_free(negotiator->plans.lanes[l].next);
    }
    layout_fini(&negotiator->learner.layout);
    mem_free(negotiator->learner.items);
    mem_free(negotiator->learner.candidates);
}

/* Its tensors are those of no plan any more. */
static void plan_dissolve(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->item_count; i++) {
        struct tensor_state *tensor = plan->items[i];

        if (tensor == NULL || tensor->plan != plan) {
            continue;
        }
        tensor->plan = NULL;
        if (tensor->tally != NULL) {
            tensor->tally->history.launched = false;
            tensor->tally->history.iteration = 0;
        }
    }
    plan_free(plan);
}

tutti_status plan_forget(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct plan_lane *lane = &negotiator->plans.lanes[tensor->plan->lane];

    if (tensor->plan->state != PLAN_SLOW || lane->current != tensor->plan) {
        return corrupt("a number is retired that is planned");
    }
    plan_dissolve(lane->current);
    lane->current = NULL;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------ entering */

/* What was announced of a tensor is void; a submission of this rank goes to the plan. */
static void take_over(struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (is_coordinator(negotiator)) {
        tensor->tally->planning = false;
        tensor->tally->history.launched = false;
    }
    tensor->heard.void_before = negotiator->log.length;
    group_drop(negotiator, tensor->meta.group);
    tensor_void_round(negotiator, tensor);
    if (tensor->own.pending) {
        plan_count(negotiator, tensor);
    }
}

static void begin_epoch(struct negotiator *negotiator, struct plan *plan)
{
    const size_t arrivals = arrivals_of(negotiator);

    plan->epoch = negotiator->plans.lanes[plan->lane].epoch;
    plan->cursor = 0;
    plan->decided = 0;
    plan->exiting = false;
    plan->wanted = (struct arrival){ 0 };
    plan->common = (struct arrival){ 0 };
    plan->told = (struct arrival){ 0 };
    plan->seen = 0;
    plan->history.launched = 0;
    plan->history.launched_hash = 0;
    plan->history.moved = false;
    plan->history.turn = 0;
    plan->history.used_at = negotiator->log.messages;
    plan->history.entered_ns = negotiator->now_ns;
    for (size_t m = 0; m < arrivals; m++) {
        plan->arrivals[m] = (struct arrival){ 0 };
    }
    if (negotiator->config.direct) {
        direct_begin_epoch(negotiator, plan);
    }
    negotiator->plans.on++;
    negotiator->outbox.gives_back = true;
    for (uint32_t i = 0; i < plan->item_count; i++) {
        take_over(negotiator, plan->items[i]);
    }
    if (negotiator->joined.ways[LEAVE_JOIN].own != NULL) {
        plan_want_exit(plan, PLAN_EXIT_JOIN, 0);
    } else if (leave_is_own(negotiator)) {
        plan_want_exit(plan, PLAN_EXIT_FINALIZE, 0);
    }
}

tutti_status lane_left(struct negotiator *negotiator, struct plan_lane *lane)
{
    struct plan *next = lane->next;

    if (next == NULL) {
        return TUTTI_OK;
    }
    for (uint32_t i = 0; i < lane->current->item_count && is_coordinator(negotiator);
            i++) {
        lane->current->items[i]->tally->left_lane = next->lane;
    }
    plan_dissolve(lane->current);
    lane->current = next;
    lane->next = NULL;
    next->state = PLAN_ON;
    return plan_advance(negotiator, next);
}

/* The same plan in another order, or most of it: what was learnt of it stays true. */
static void remember(struct plan *plan, const struct plan *last)
{
    plan->gap_ns = last->gap_ns;
    plan->timer_shift = last->timer_shift;
    plan->history.failures = last->history.failures;
    plan->history.is_new = last->history.is_new;
}

/* The new plan of a lane, whose last one may still be on. */
static tutti_status lane_take(
        struct negotiator *negotiator, struct plan_lane *lane, struct plan *plan)
{
    struct plan *last = lane->current;

    if (last != NULL && last->state == PLAN_SLOW) {
        if (plan->items[0]->plan == last) {
            remember(plan, last);
        }
        plan_dissolve(last);
        last = NULL;
    }
    for (uint32_t b = 0; b < plan->batch_count; b++) {
        const struct plan_batch *batch = &plan->batches[b];

        for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
            plan->items[i]->plan = plan;
            plan->items[i]->place.item = i;
            plan->items[i]->place.batch = b;
        }
    }
    begin_epoch(negotiator, plan);
    if (last == NULL) {
        lane->current = plan;
        plan->state = PLAN_ON;
        return TUTTI_OK;
    }
    lane->next = plan;
    plan->state = PLAN_QUEUED;
    plan_want_exit(last, PLAN_EXIT_REPLACED, 0);
    return plan_advance(negotiator, last);
}

/* ------------------------------------------------------------------- reading */

/* The tensors of a batch, which no other plan has. */
static tutti_status read_batch(struct negotiator *negotiator, struct wire_reader *in,
        struct plan *plan, const struct plan_batch *batch)
{
    const struct plan *last = negotiator->plans.lanes[plan->lane].current;

    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        struct tensor_state *tensor = tensor_by_number(negotiator, wire_get_varint(in));

        if (!wire_ok(in) || tensor == NULL ||
                (tensor->plan != NULL &&
                        (tensor->plan != last || last->state != PLAN_SLOW))) {
            return corrupt("a plan has a tensor that cannot be planned");
        }
        plan->items[i] = tensor;
    }
    return TUTTI_OK;
}

static tutti_status read_plan(struct negotiator *negotiator, struct wire_reader *in,
        uint32_t lane, uint32_t batches)
{
    const uint64_t items = wire_get_varint(in);
    struct plan *plan;
    uint32_t first = 0;
    tutti_status status = TUTTI_OK;

    if (!wire_ok(in) || items == 0 || items > PLAN_ITEMS_MAX || batches > items) {
        return corrupt("malformed plan");
    }
    plan = plan_new(negotiator, lane, (uint32_t)items, batches);
    if (plan == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan of %u tensors",
                (uint32_t)items);
    }
    for (uint32_t b = 0; b < batches && status == TUTTI_OK; b++) {
        const uint64_t count = wire_get_varint(in);

        if (!wire_ok(in) || count == 0 || count > items - first) {
            status = corrupt("malformed plan");
            break;
        }
        plan->batches[b] =
                (struct plan_batch){ .first = first, .count = (uint32_t)count };
        status = read_batch(negotiator, in, plan, &plan->batches[b]);
        first += (uint32_t)count;
    }
    if (status == TUTTI_OK && first != items) {
        status = corrupt("malformed plan");
    }
    if (status != TUTTI_OK) {
        plan_free(plan);
        return status;
    }
    return lane_take(negotiator, &negotiator->plans.lanes[lane], plan);
}

tutti_status plan_apply(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t number = wire_get_varint(in);
    const uint64_t batches = wire_get_varint(in);
    struct plan_lane *lane;
    tutti_status status = TUTTI_OK;

    if (!wire_ok(in) || number == 0 || number >= (uint64_t)negotiator->config.lanes ||
            batches > PLAN_ITEMS_MAX) {
        return corrupt("malformed plan");
    }
    lane = &negotiator->plans.lanes[number];
    if (lane->next != NULL) {
        return corrupt("two plans wait for one lane");
    }
    lane->epoch++;
    lane->appended = false;
    if (batches > 0) {
        status = read_plan(negotiator, in, (uint32_t)number, (uint32_t)batches);
    } else if (lane->current == NULL || lane->current->state != PLAN_SLOW) {
        status = corrupt("a plan begins again that is not known, or on");
    } else {
        lane->current->state = PLAN_ON;
        begin_epoch(negotiator, lane->current);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    leaves_hold(negotiator);
    return lane->next == NULL ? plan_advance(negotiator, lane->current) : TUTTI_OK;
}
