#include "launcher/job/root_cause.h"

#include "launcher/job/ranks.h"

enum verdict {
    VERDICT_SOUND, /* ended well, or has not ended                 */
    VERDICT_TAKEN, /* ended by the MPI launcher before anything failed   */
    VERDICT_TOLD, /* another rank's failure ended it              */
    VERDICT_FAILED
};

bool root_cause_has_left(const struct rank *rank)
{
    return rank->end == RANK_END_EXIT && rank->value == 0 &&
            (rank->stage == LIBRARY_STAGE_RUNNING || rank->is_awaited);
}

/* True when all ranks have exited with 0: then it does not matter who finalized. */
static bool all_are_well(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        const struct rank *rank = &ranks->items[i];

        if (!rank->leaves && (rank->end != RANK_END_EXIT || rank->value != 0)) {
            return false;
        }
    }
    return true;
}

static enum verdict verdict_of(const struct rank *rank)
{
    bool is_well = rank->end == RANK_END_NONE || rank->leaves ||
            (rank->end == RANK_END_EXIT && rank->value == 0 &&
                    !root_cause_has_left(rank));

    if (is_well) {
        return VERDICT_SOUND;
    }
    if (rank->was_stopped) {
        return VERDICT_TAKEN;
    }
    return rank->failure == CONTEXT_FAILURE_TOLD ? VERDICT_TOLD : VERDICT_FAILED;
}

/* When a rank failed, for comparing; see root_cause.h. */
static int64_t time_of(const struct rank *rank)
{
    if (rank->end == RANK_END_LOST || rank->end == RANK_END_SILENT ||
            rank->end == RANK_END_STUCK) {
        return rank->when + ROOT_CAUSE_LOST_NS;
    }
    /* The benefit of the doubt goes to a cause that was seen, before a lost connection. */
    return rank->when - rank->doubt;
}

static bool is_before(const struct rank *rank, const struct rank *other)
{
    enum verdict verdict = verdict_of(rank);
    enum verdict others = verdict_of(other);

    return verdict != others ? verdict > others : time_of(rank) < time_of(other);
}

int root_cause_first(const struct ranks *ranks)
{
    int first = -1;

    if (all_are_well(ranks)) {
        return -1;
    }
    for (int i = 0; i < ranks->count; i++) {
        const struct rank *rank = &ranks->items[i];

        if (verdict_of(rank) != VERDICT_SOUND &&
                (first == -1 || is_before(rank, &ranks->items[first]))) {
            first = i;
        }
    }
    return first;
}

bool root_cause_is_outside(const struct rank *rank)
{
    return rank->was_stopped && rank->stage == LIBRARY_STAGE_RUNNING &&
            rank->failure == CONTEXT_FAILURE_NONE;
}

int root_cause_absentee(const struct ranks *ranks, int first)
{
    const struct rank *waiter = &ranks->items[first];

    if (waiter->failure != CONTEXT_FAILURE_FOUND || waiter->awaited == NULL) {
        return -1;
    }
    for (int i = 0; i < ranks->count; i++) {
        if (root_cause_is_outside(&ranks->items[i]) &&
                rank_list_has(waiter->awaited, i)) {
            return i;
        }
    }
    return -1;
}
