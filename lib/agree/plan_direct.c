/*
 * Arrivals straight to every member, in sets of a few members that do not share memory: one
 * message in place of the way up the tree and down again (plan_arrivals.c).
 *
 * Each contribution is told once, in order, so an arrival only grows. The operands of a small
 * batch come with the arrival, as bytes that mean nothing here (negotiator_config.carry).
 * A member may have read a PLAN entry before this rank has: what it tells of that epoch is
 * kept until this rank reads it, too. It cannot be two epochs ahead, because a lane gets its
 * next PLAN entry when all have entered the last epoch.
 */
#include "agree/arrivals.h"
#include "agree/plans.h"
#include "agree/protocol.h"

static struct early_arrival *early_of(
        const struct negotiator *negotiator, uint32_t lane, int member)
{
    return &negotiator->plans.early[(int)lane * negotiator->config.size + member];
}

tutti_status direct_flush(struct negotiator *negotiator)
{
    struct wire_writer *out = &negotiator->outbox.direct;
    tutti_status status = TUTTI_OK;

    if (out->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
    }
    for (int m = 0; m < negotiator->config.size && out->len > 0 && status == TUTTI_OK;
            m++) {
        if (m != negotiator->config.rank) {
            status = action_add(negotiator, ACTION_SEND, m, out->data, out->len);
        }
    }
    wire_writer_reset(out);
    return status;
}

/* A contribution is the next one of its member: counts grow, and an exit is the last. */
static bool follows(const struct arrival *arrival, const struct arrival *known)
{
    return known->why == PLAN_EXIT_NONE && arrival->count >= known->count;
}

static tutti_status take(
        struct negotiator *negotiator, int from, const struct arrival_message *message)
{
    const struct arrival *arrival = &message->arrival;
    struct plan *plan = message->plan;

    if (plan == NULL && message->epoch > negotiator->plans.lanes[message->lane].epoch) {
        struct early_arrival *early = early_of(negotiator, message->lane, from);

        *early = (struct early_arrival){ .epoch = message->epoch, .arrival = *arrival };
        return TUTTI_OK;
    }
    if (plan == NULL) {
        return TUTTI_OK;
    }
    if (!follows(arrival, &plan->arrivals[from]) || arrival->member != from) {
        return malformed(negotiator, "arrival", from);
    }
    plan->arrivals[from] = *arrival;
    plan->common.leaves = plan->common.leaves || arrival->leaves;
    return plan_advance(negotiator, plan);
}

/* Operands of an epoch that is over are dropped. */
static tutti_status keep_operands(struct negotiator *negotiator, int from,
        const struct arrival_message *message, struct wire_reader *in)
{
    const uint64_t len = wire_get_varint(in);
    const uint8_t *bytes = len <= wire_left(in) ? wire_get_bytes(in, len) : NULL;

    if (!wire_ok(in) || (len > 0 && (bytes == NULL || message->arrival.count == 0))) {
        return malformed(negotiator, "arrival", from);
    }
    if (len == 0 || negotiator->config.keep == NULL ||
            (message->plan == NULL &&
                    message->epoch <= negotiator->plans.lanes[message->lane].epoch)) {
        return TUTTI_OK;
    }
    return negotiator->config.keep(negotiator->config.user,
            &(struct carried_key){ .lane = message->lane,
                    .epoch = message->epoch,
                    .index = message->arrival.count - 1,
                    .member = from },
            bytes, len);
}

tutti_status direct_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    while (wire_left(in) > 0) {
        struct arrival_message message;
        tutti_status status;

        if (!arrival_get(negotiator, in, &message)) {
            return malformed(negotiator, "arrival", from);
        }
        status = keep_operands(negotiator, from, &message, in);
        if (status == TUTTI_OK) {
            status = take(negotiator, from, &message);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

void direct_begin_epoch(struct negotiator *negotiator, struct plan *plan)
{
    for (int m = 0; m < negotiator->config.size; m++) {
        const struct early_arrival *early = early_of(negotiator, plan->lane, m);

        if (early->epoch == plan->epoch && early->arrival.item < plan->item_count) {
            plan->arrivals[m] = early->arrival;
            plan->common.leaves = plan->common.leaves || early->arrival.leaves;
        }
    }
}
