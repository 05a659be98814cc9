/*
 * Plans that ride: their batches are begun when this rank arrives, and the first message of
 * the data between each two ranks says that its sender has arrived, or, when it is empty,
 * that it walks. So what the marks of plan_marks.c say takes no message of its own.
 *
 * Who knows the outcome p drops what was begun from there on, and walks from its cursor to
 * p + window - 1: so far others may have begun, and what they sent must be received before
 * the lane is used again. Who poisons walks no earlier: until all have arrived below, nobody
 * could act on that. Meanwhile the plan is DRAINING, and its tensors are lent to what is
 * dropped: they are announced when nothing is under way. Who has announced has drained, so
 * the next epoch, which the log begins, finds an empty lane; and as each epoch is p + window
 * batches everywhere, all ranks number the next one alike.
 *
 * Empty messages do not say why. That goes up the tree and down again as a mark
 * (plan_marks.c), for the coordinator's plans, for who has nothing in the plan, and for the
 * log lines. The coordinator waits for it.
 */
#include "core/negotiator_parts.h"

tutti_status ride_begin(struct negotiator *negotiator, const struct plan *plan,
        const struct plan_batch *batch, uint64_t index)
{
    const tutti_status status = action_add(negotiator, ACTION_BEGIN, -1, NULL, 0);
    struct action *action;

    if (status != TUTTI_OK) {
        return status;
    }
    observe(negotiator, TRANSITION_PLAN_BEGIN);
    action = &negotiator->actions[negotiator->action_count - 1];
    action->lane = plan->lane;
    action->word = index;
    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        wire_put_bytes(
                &negotiator->arena, &plan->items[i]->local.cookie, sizeof(void *));
    }
    action->len = batch->count * sizeof(void *);
    return negotiator->arena.failed
            ? error_set(TUTTI_ERR_NO_MEMORY, "no memory to begin a batch")
            : TUTTI_OK;
}

/* The first batch behind what others may have begun. */
static uint64_t walk_end(const struct negotiator *negotiator, const struct plan *plan)
{
    const uint64_t window = (uint64_t)negotiator->config.window;
    const uint64_t end = plan->decided + window;

    if (has_bug(negotiator, BUG_PLAN_SHORT_WALK) && end > plan->cursor) {
        return end - 1;
    }
    return has_bug(negotiator, BUG_PLAN_WALKS_ON) ? plan->cursor + window : end;
}

tutti_status ride_drain(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark)
{
    const tutti_status status = action_add(negotiator, ACTION_WALK, -1, NULL, 0);
    struct action *action;

    observe(negotiator, TRANSITION_PLAN_DRAINS);
    plan->state = PLAN_DRAINING;
    plan->ended_by = *mark;
    if (status != TUTTI_OK) {
        return status;
    }
    action = &negotiator->actions[negotiator->action_count - 1];
    action->lane = plan->lane;
    action->from = has_bug(negotiator, BUG_PLAN_KEEPS) ? plan->cursor : plan->decided;
    action->word = plan->cursor;
    action->detail = walk_end(negotiator, plan) - plan->cursor;
    return has_bug(negotiator, BUG_PLAN_UNDRAINED)
            ? negotiator_drained(negotiator, plan->lane)
            : TUTTI_OK;
}

/* The coordinator must know why, unless the plan is given up anyway. */
static bool waits_for_reason(
        const struct negotiator *negotiator, const struct plan *plan)
{
    return is_coordinator(negotiator) && plan->ended_by.poison == POISON_HEARD &&
            negotiator->lanes[plan->lane].next == NULL;
}

tutti_status ride_end(struct negotiator *negotiator, struct plan *plan)
{
    if (plan->ended_by.poison == POISON_HEARD && plan->common.poison != POISON_NONE &&
            plan->common.count == plan->decided) {
        observe(negotiator, TRANSITION_PLAN_TOLD_WHY);
        plan->ended_by = plan->common;
    }
    if (!plan->drained) {
        return TUTTI_OK;
    }
    if (waits_for_reason(negotiator, plan)) {
        observe(negotiator, TRANSITION_PLAN_WAITS_FOR_REASON);
        return TUTTI_OK;
    }
    return plan_end_epoch(negotiator, plan, &plan->ended_by);
}

tutti_status negotiator_heard(
        struct negotiator *negotiator, uint32_t lane, int member, bool arrives)
{
    struct plan *plan = negotiator->lanes[lane].current;
    struct mark *mark = &plan->marks[member];

    arrives = arrives || has_bug(negotiator, BUG_PLAN_DEAF);
    observe(negotiator,
            arrives ? TRANSITION_PLAN_HEARS_ARRIVAL : TRANSITION_PLAN_HEARS_WALK);
    mark->count = plan->decided + (arrives ? 1 : 0);
    mark->member = member;
    mark->poison = arrives ? POISON_NONE : POISON_HEARD;
    return plan_advance(negotiator, plan);
}

tutti_status negotiator_drained(struct negotiator *negotiator, uint32_t lane)
{
    struct plan *plan = negotiator->lanes[lane].current;

    plan->drained = true;
    return ride_end(negotiator, plan);
}
