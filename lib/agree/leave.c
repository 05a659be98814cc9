/*
 * This rank joins or finalizes: what it announces about that, and when.
 */
#include "agree/announce.h"
#include "agree/joined.h"
#include "agree/plans.h"

/* This rank has plans to leave first, or one is in the log message that is being built. */
static bool is_planning(const struct negotiator *negotiator)
{
    for (int l = 1; l < negotiator->config.lanes; l++) {
        if (negotiator->plans.lanes[l].appended) {
            return true;
        }
    }
    return negotiator->plans.on > 0;
}

tutti_status leave_submit(struct negotiator *negotiator, struct leave *leave)
{
    const bool joins = leave == &negotiator->joined.ways[LEAVE_JOIN];

    if (!is_planning(negotiator)) {
        return announce_pending(negotiator, leave->own);
    }
    leave->held = true;
    return plans_exit(negotiator, joins ? PLAN_EXIT_JOIN : PLAN_EXIT_FINALIZE);
}

tutti_status leaves_announce_held(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    for (int p = 0; p < LEAVE_COUNT && status == TUTTI_OK; p++) {
        struct leave *leave = &negotiator->joined.ways[p];

        if (leave->held && !is_planning(negotiator)) {
            leave->held = false;
            status = announce_pending(negotiator, leave->own);
        }
    }
    return status;
}

tutti_status leaves_announce_again(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    for (int p = 0; p < LEAVE_COUNT && status == TUTTI_OK; p++) {
        if (negotiator->joined.ways[p].own != NULL &&
                !negotiator->joined.ways[p].held) {
            status = announce_own(negotiator, negotiator->joined.ways[p].own);
        }
    }
    return status;
}
