/*
 * Stalls of planned tensors: this rank has arrived at a batch, and others have not.
 *
 * The others have submitted nothing from that batch on, or their timers would have ended the
 * plan. Where members see each other, the lowest one that has arrived reports those that have
 * not. Elsewhere each node of the tree reports the children whose subtrees have not arrived,
 * and the coordinator's children report the coordinator, as in slow mode (stall.c).
 */
#include "agree/plans.h"
#include "agree/stall.h"

/* Ranks that a report names. */
#define RANKS_MAX 16

/* Adds the tensors that this rank has contributed, some of which the others have not submitted. */
static void report_tensors(const struct plan *plan, struct stall_report *report)
{
    for (uint32_t i = 0; i < plan->item_count; i++) {
        if (plan->items[i]->own.contributed) {
            stall_report_name(report, plan->items[i]);
        }
    }
    (void)stall_report_end_names(report);
}

/* The first tensor of the batch that this rank waits for, or NULL. */
static struct tensor_state *waited_for(const struct plan *plan)
{
    const struct plan_batch *batch = &plan->batches[plan->decided % plan->batch_count];
    struct tensor_state *tensor = plan->items[batch->first];

    if (plan->state != PLAN_ON || plan->cursor <= plan->decided) {
        return NULL;
    }
    return tensor->own.contributed ? tensor : NULL;
}

static bool plan_is_due(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const int64_t since = tensor->round.reported_ns != 0 ? tensor->round.reported_ns
                                                         : tensor->round.since_ns;

    return negotiator->now_ns - since >= negotiator->config.stall_ns;
}

static bool is_first_to_arrive(
        const struct negotiator *negotiator, const struct plan *plan)
{
    for (int m = 0; m < negotiator->config.rank; m++) {
        if (plan->arrivals[m].count > plan->decided) {
            return false;
        }
    }
    return true;
}

/* Adds those that have not arrived; returns how many. */
static int report_absent(const struct negotiator *negotiator, const struct plan *plan,
        struct stall_report *report)
{
    const bool each = sees_members(negotiator);
    const int arrivals = each ? negotiator->config.size : negotiator->tree.child_count;
    int count = 0;

    for (int m = 0; m < arrivals; m++) {
        if (plan->arrivals[m].count > plan->decided ||
                plan->arrivals[m].why != PLAN_EXIT_NONE ||
                (each && m == negotiator->config.rank)) {
            continue;
        }
        if (count < RANKS_MAX) {
            stall_report_add(report, "%s%d%s", count > 0 ? ", " : "rank ",
                    world_rank(negotiator, each ? m : negotiator->tree.children[m]),
                    each ? "" : " (or one below it)");
        }
        count++;
    }
    if (count > RANKS_MAX) {
        stall_report_add(report, " and %d more", count - RANKS_MAX);
    }
    return count;
}

static tutti_status report_plan(struct negotiator *negotiator, const struct plan *plan,
        struct tensor_state *tensor)
{
    struct stall_report report;
    int missing;

    stall_report_begin(negotiator, tensor->round.since_ns, &report);
    missing = report_absent(negotiator, plan, &report);
    if (missing == 0) {
        /* All children have arrived: its parent may know which rank is missing. */
        return TUTTI_OK;
    }
    tensor->round.reported_ns = negotiator->now_ns;
    stall_report_add(&report,
            missing == 1 ? " has not submitted all of "
                         : " have not submitted all of ");
    report_tensors(plan, &report);
    return action_add(negotiator, ACTION_STALL, -1, report.text, report.len);
}

tutti_status plans_report(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;
    const struct plan *plan;
    int lane = 0;

    while (status == TUTTI_OK && (plan = plans_next(negotiator, &lane)) != NULL) {
        struct tensor_state *tensor = waited_for(plan);

        if (tensor != NULL && plan_is_due(negotiator, tensor) &&
                (!sees_members(negotiator) || is_first_to_arrive(negotiator, plan))) {
            status = report_plan(negotiator, plan, tensor);
        }
    }
    return status;
}
