/*
 * Arrivals at planned batches in messages: how they are written and read.
 */
#include "agree/arrivals.h"
#include "agree/protocol.h"

/* Beside the exit of an arrival in a message. */
#define ARRIVAL_LEAVES 0x80

void arrival_put(
        struct wire_writer *out, const struct plan *plan, const struct arrival *arrival)
{
    wire_put_varint(out, plan->lane);
    wire_put_varint(out, plan->epoch);
    wire_put_varint(out, arrival->count);
    wire_put_u8(out, (uint8_t)(arrival->why | (arrival->leaves ? ARRIVAL_LEAVES : 0)));
    wire_put_varint(out, arrival->item);
    wire_put_varint(out, (uint64_t)arrival->member);
}

bool arrival_get(const struct negotiator *negotiator, struct wire_reader *in,
        struct arrival_message *message)
{
    const uint64_t number = wire_get_varint(in);
    const uint64_t epoch = wire_get_varint(in);
    const uint64_t count = wire_get_varint(in);
    const uint8_t reason = wire_get_u8(in);
    const uint8_t why = reason & (ARRIVAL_LEAVES - 1);
    const uint64_t item = wire_get_varint(in);
    const uint64_t member = wire_get_varint(in);
    const struct plan_lane *lane;
    struct plan *plan;

    if (!wire_ok(in) || number == 0 || number >= (uint64_t)negotiator->config.lanes ||
            why >= PLAN_EXIT_COUNT || item >= PLAN_ITEMS_MAX ||
            member >= (uint64_t)negotiator->config.size) {
        return false;
    }
    lane = &negotiator->plans.lanes[number];
    plan = lane->next != NULL && lane->next->epoch == epoch ? lane->next
                                                            : lane->current;
    if (plan != NULL && plan->epoch != epoch) {
        plan = NULL;
    }
    *message = (struct arrival_message){ .lane = (uint32_t)number,
        .epoch = epoch,
        .plan = plan,
        .arrival = { .count = count,
                .why = (enum plan_exit)why,
                .item = (uint32_t)item,
                .member = (int)member,
                .leaves = (reason & ARRIVAL_LEAVES) != 0 } };
    return epoch <= lane->epoch + (negotiator->config.direct ? 1 : 0) &&
            (plan == NULL || item < plan->item_count);
}

void direct_put(struct negotiator *negotiator, const struct plan *plan,
        const struct arrival *arrival, const struct plan_batch *batch)
{
    struct wire_writer *out = &negotiator->outbox.direct;

    if (out->len == 0) {
        wire_put_u8(out, KIND_ARRIVALS);
    }
    arrival_put(out, plan, arrival);
    if (batch != NULL && negotiator->config.carry != NULL) {
        negotiator->config.carry(negotiator->config.user, plan, batch, out);
    } else {
        wire_put_varint(out, 0);
    }
}
