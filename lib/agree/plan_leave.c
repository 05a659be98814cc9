/*
 * Ends the epoch of a plan at a rank that knows the outcome: notes the plan exit, and
 * announces what was submitted to the plan and did not commit. It waits for no other rank;
 * the log goes on as if there had never been a plan.
 */
#include <stdio.h>
#include <string.h>

#include "agree/announce.h"
#include "agree/joined.h"
#include "agree/learn.h"
#include "agree/plans.h"

/* How often the timer of a plan doubles. */
#define TIMER_SHIFT_MAX 6
/* Iterations of an epoch after which a wrong timer is forgiven. */
#define FORGIVEN_STEPS 100

/* What a rank did to end a plan: words around the tensor, if it is about one. */
static const struct {
    const char *what;
    const char *rest; /* NULL: about no tensor */
} reasons[PLAN_EXIT_COUNT] = {
    [PLAN_EXIT_NONE] = { "did nothing", NULL },
    [PLAN_EXIT_TIMER] = { "did not submit ", " in time" },
    [PLAN_EXIT_METADATA] = { "submitted ", " with other metadata" },
    [PLAN_EXIT_JOIN] = { "joins", NULL },
    [PLAN_EXIT_FINALIZE] = { "finalizes", NULL },
    [PLAN_EXIT_CANCEL] = { "cancels ", "" },
    [PLAN_EXIT_REPLACED] = { "makes room for another plan", NULL },
    [PLAN_EXIT_FOLLOWED] = { "leaves because another rank joins or finalizes", NULL },
    [PLAN_EXIT_STEP] = { "submitted ", " with another step than was expected" },
};

/*
 * Where a plan ends is equal at all ranks; who is named may differ, if several left
 * the same batch.
 */
static tutti_status note_exit(struct negotiator *negotiator, const struct plan *plan,
        const struct arrival *arrival)
{
    const struct tensor_state *tensor = plan->items[arrival->item];
    const unsigned long long steps = plan->decided / plan->batch_count;
    const unsigned long long batches = plan->decided % plan->batch_count;
    char about[TUTTI_NAME_MAX + 64] = "";
    char text[TUTTI_NAME_MAX + 256];

    if (reasons[arrival->why].rest != NULL) {
        (void)snprintf(about, sizeof about, "%s \"%s\"%s",
                meta_collective_name(tensor->collective), tensor->name,
                reasons[arrival->why].rest);
    }
    (void)snprintf(text, sizeof text,
            "plan on lane %u (%u tensors) left after %llu iteration%s and %llu of %u "
            "batches: rank %d %s%s",
            plan->lane, plan->item_count, steps, steps == 1 ? "" : "s", batches,
            plan->batch_count, world_rank(negotiator, arrival->member),
            reasons[arrival->why].what, about);
    return action_add(negotiator, ACTION_NOTE, -1, text, strnlen(text, sizeof text));
}

/* What was submitted to the plan and did not commit. */
static tutti_status announce_items(struct negotiator *negotiator, struct plan *plan)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < plan->item_count && status == TUTTI_OK; i++) {
        struct tensor_state *tensor = plan->items[i];

        if (!tensor->own.pending || !tensor->own.planned) {
            continue;
        }
        tensor->own.planned = false;
        tensor->own.contributed = false;
        status = announce_pending(negotiator, tensor);
    }
    return status;
}

static void forget_here(struct plan *plan)
{
    for (uint32_t b = 0; b < plan->batch_count; b++) {
        plan->batches[b].here = 0;
    }
    plan->here = 0;
}

static void timer_learns(struct plan *plan)
{
    if (plan->decided >= (uint64_t)FORGIVEN_STEPS * plan->batch_count) {
        plan->timer_shift = 0;
    }
    if (plan->exiting && plan->wanted.why == PLAN_EXIT_TIMER &&
            plan->timer_shift < TIMER_SHIFT_MAX) {
        plan->timer_shift++;
    }
}

/* The outcome is known: nothing from `decided` on commits. The plan may be gone then. */
static tutti_status leave(struct negotiator *negotiator, struct plan *plan)
{
    tutti_status status = note_exit(negotiator, plan, &plan->outcome);

    negotiator->stats.plan_exits++;
    negotiator->stats.exits[plan->outcome.why]++;
    negotiator->plans.on--;
    if (plan->decided % plan->batch_count != 0) {
        negotiator->stats.slow_steps++;
    }
    plan->state = PLAN_SLOW;
    timer_learns(plan);
    forget_here(plan);
    if (is_coordinator(negotiator)) {
        learn_left(negotiator, plan, &plan->outcome);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = announce_items(negotiator, plan);
    return status == TUTTI_OK
            ? lane_left(negotiator, &negotiator->plans.lanes[plan->lane])
            : status;
}

tutti_status plans_leave(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;
    struct plan *plan;
    int lane = 0;

    negotiator->plans.left = false;
    while (status == TUTTI_OK && (plan = plans_next(negotiator, &lane)) != NULL) {
        if (plan->state == PLAN_LEFT) {
            status = leave(negotiator, plan);
        }
    }
    return status == TUTTI_OK ? leaves_announce_held(negotiator) : status;
}
