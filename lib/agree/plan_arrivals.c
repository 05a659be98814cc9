/*
 * Arrivals as messages along the tree, in sets whose members do not share memory: each node
 * tells its parent how far all of its subtree has come, and the coordinator tells all.
 *
 * Messages of former epochs are under way when the next one begins, and are ignored.
 */
#include "agree/arrivals.h"
#include "agree/plans.h"
#include "agree/protocol.h"

/* How far this rank and all below it have come. */
static struct arrival subtree_arrival(
        const struct negotiator *negotiator, const struct plan *plan)
{
    struct arrival least = plan_own_arrival(negotiator, plan);
    bool leaves = least.leaves;

    for (int c = 0; c < negotiator->tree.child_count; c++) {
        const struct arrival *arrival = &plan->arrivals[c];

        if (arrival->count < least.count ||
                (arrival->count == least.count && least.why == PLAN_EXIT_NONE)) {
            least = *arrival;
        }
        leaves = leaves || arrival->leaves;
    }
    least.leaves = leaves;
    return least;
}

static bool is_news(const struct arrival *arrival, const struct arrival *told)
{
    return arrival->count != told->count || arrival->why != told->why ||
            arrival->leaves != told->leaves;
}

tutti_status arrivals_receive_up(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    struct arrival_message message;

    if (!arrival_get(negotiator, in, &message)) {
        return malformed(negotiator, "arrival", from);
    }
    if (message.plan != NULL) {
        message.plan->arrivals[tree_child_index(&negotiator->tree, from)] =
                message.arrival;
        negotiator->plans.arrivals_dirty = true;
    }
    return TUTTI_OK;
}

tutti_status arrivals_receive_down(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    tutti_status status = forward_down(negotiator, in->data, in->len);

    if (status != TUTTI_OK) {
        return status;
    }
    while (wire_left(in) > 0) {
        struct arrival_message message;

        if (!arrival_get(negotiator, in, &message)) {
            return malformed(negotiator, "arrival", from);
        }
        if (message.plan == NULL) {
            continue;
        }
        message.plan->common = message.arrival;
        status = plan_advance(negotiator, message.plan);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static void tell_parent(struct negotiator *negotiator, struct plan *plan)
{
    const struct arrival arrival = subtree_arrival(negotiator, plan);
    struct wire_writer *out;

    if (is_news(&arrival, &plan->told)) {
        out = record_open(negotiator, ITEM_ARRIVAL);
        arrival_put(out, plan, &arrival);
        plan->told = arrival;
    }
}

/* Adds to a message for all what is new of a plan. */
static void tell_all(
        const struct negotiator *negotiator, struct plan *plan, struct wire_writer *out)
{
    const struct arrival arrival = subtree_arrival(negotiator, plan);

    if (!is_news(&arrival, &plan->common)) {
        return;
    }
    if (out->len == 0) {
        wire_put_u8(out, KIND_ALL_ARRIVED);
    }
    arrival_put(out, plan, &arrival);
    plan->common = arrival;
}

/* The coordinator tells what all have reached, until that allows nothing new. */
static tutti_status flush_down(struct negotiator *negotiator)
{
    struct wire_writer out = { .data = NULL };
    struct plan *plan;
    tutti_status status;
    int lane = 0;

    while ((plan = plans_next(negotiator, &lane)) != NULL) {
        tell_all(negotiator, plan, &out);
    }
    status = message_send(negotiator, -1, &out);
    lane = 0;
    while (status == TUTTI_OK && (plan = plans_next(negotiator, &lane)) != NULL) {
        status = plan_advance(negotiator, plan);
    }
    return status;
}

static void flush_up(struct negotiator *negotiator)
{
    struct plan *plan;
    int lane = 0;

    while ((plan = plans_next(negotiator, &lane)) != NULL) {
        tell_parent(negotiator, plan);
    }
}

tutti_status arrivals_flush(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    while (negotiator->plans.arrivals_dirty && status == TUTTI_OK) {
        negotiator->plans.arrivals_dirty = false;
        if (is_coordinator(negotiator)) {
            status = flush_down(negotiator);
        } else {
            flush_up(negotiator);
        }
    }
    return status == TUTTI_OK ? direct_flush(negotiator) : status;
}

tutti_status negotiator_arrival(struct negotiator *negotiator, uint32_t lane,
        int member, uint64_t word, uint64_t detail)
{
    struct plan *plan = negotiator->plans.lanes[lane].current;
    struct arrival *arrival = &plan->arrivals[member];
    arrival->word = word;
    if (word >> ARRIVAL_EPOCH_SHIFT != (plan->epoch & ARRIVAL_EPOCH_MASK)) {
        return TUTTI_OK;
    }
    arrival->count = word >> 1 & ARRIVAL_COUNT_MASK;
    if ((word & 1) != 0) {
        if (detail >> 32 == PLAN_EXIT_NONE || detail >> 32 >= PLAN_EXIT_COUNT ||
                (uint32_t)detail >= plan->item_count) {
            return malformed(negotiator, "arrival", member);
        }
        arrival->why = (enum plan_exit)(detail >> 32);
        arrival->item = (uint32_t)detail;
        arrival->member = member;
        plan->common.leaves = plan->common.leaves || arrival->why == PLAN_EXIT_JOIN ||
                arrival->why == PLAN_EXIT_FINALIZE;
    }
    return plan_advance(negotiator, plan);
}
