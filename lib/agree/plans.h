/*
 * Plans at a rank: plan.c, plan_enter.c, plan_leave.c.
 */
#ifndef TUTTI_AGREE_PLANS_H
#define TUTTI_AGREE_PLANS_H

#include "agree/negotiator.h"

/** What each member has contributed to a plan is known apart. */
static inline bool sees_members(const struct negotiator *negotiator)
{
    return negotiator->config.arrival_flags || negotiator->config.direct;
}

/**
 * Walks the plans that this rank has read, in the order of their lanes: start with *lane = 0;
 * NULL at the end. Plans may go during the walk.
 */
static inline struct plan *plans_next(const struct negotiator *negotiator, int *lane)
{
    struct plan *plan = NULL;

    while (plan == NULL && ++*lane < negotiator->config.lanes) {
        plan = negotiator->plans.lanes[*lane].current;
    }
    return plan;
}

/** What this rank has contributed. */
struct arrival plan_own_arrival(
        const struct negotiator *negotiator, const struct plan *plan);
/** A tensor of a plan that is not SLOW was submitted. */
tutti_status plan_submit(struct negotiator *negotiator, struct tensor_state *tensor);
/** Counts it, and no more. */
void plan_count(struct negotiator *negotiator, struct tensor_state *tensor);
/** Commits, contributes, and leaves, as far as that goes; the plan may be gone then. */
tutti_status plan_advance(struct negotiator *negotiator, struct plan *plan);
/** The rank contributes an exit at its cursor as soon as it may. */
void plan_want_exit(struct plan *plan, enum plan_exit why, uint32_t item);
/** The same for all plans that are not SLOW, and goes on. */
tutti_status plans_exit(struct negotiator *negotiator, enum plan_exit why);
/** When the next timer fires; INT64_MAX: none runs. */
int64_t plans_due(const struct negotiator *negotiator);
/** Fires those that are due. */
tutti_status plans_tick(struct negotiator *negotiator);
/** Messages of arrivals: of a child; of the parent; of a member itself. */
tutti_status arrivals_receive_up(
        struct negotiator *negotiator, int from, struct wire_reader *in);
tutti_status arrivals_receive_down(
        struct negotiator *negotiator, int from, struct wire_reader *in);
tutti_status direct_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in);
/** Sends what is new; at the coordinator, applies it, too. */
tutti_status arrivals_flush(struct negotiator *negotiator);
/** What members have contributed to an epoch before this rank has read that it begins. */
void direct_begin_epoch(struct negotiator *negotiator, struct plan *plan);
bool plans_are_valid(const struct negotiator *negotiator);

/** Reads a PLAN entry. */
tutti_status plan_apply(struct negotiator *negotiator, struct wire_reader *in);
/** A number of a plan is retired: there is no such plan any more. */
tutti_status plan_forget(struct negotiator *negotiator, struct tensor_state *tensor);
/** The plan of a lane was left: the one that waits for this begins. */
tutti_status lane_left(struct negotiator *negotiator, struct plan_lane *lane);
void plans_fini(struct negotiator *negotiator);

/** Ends the epochs whose outcome is known: announces what did not commit. */
tutti_status plans_leave(struct negotiator *negotiator);

#endif
