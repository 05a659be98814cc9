/*
 * Members that will submit nothing more: until all have joined, because they have joined,
 * or ever, because they have called finalize. Both announce that by name, behind all they have
 * submitted before, and wait until all members have: they are awake.
 *
 * What a member submitted before it parted may have been announced by a number that was
 * retired meanwhile. It is announced again by name, after the coordinator has heard that
 * the member parts. So a parting whose sender had not read the last FORGET is void; its
 * sender announces it again when it reads that, behind what else it announces again.
 */
#include "core/negotiator_parts.h"

static const int parting_collectives[PARTING_COUNT] = {
    [PARTING_JOIN] = META_JOIN, [PARTING_FINALIZE] = META_FINALIZE
};

struct parting *parting_of(struct negotiator *negotiator, int collective)
{
    for (int p = 0; p < PARTING_COUNT; p++) {
        if (parting_collectives[p] == collective) {
            return &negotiator->partings[p];
        }
    }
    return NULL;
}

void partings_fini(struct negotiator *negotiator)
{
    for (int p = 0; p < PARTING_COUNT; p++) {
        bitset_fini(&negotiator->partings[p].members);
    }
}

static bool has_parted(
        const struct negotiator *negotiator, enum parting_kind kind, int member)
{
    const struct parting *parting = &negotiator->partings[kind];

    return parting->count > 0 && bitset_has(&parting->members, member);
}

bool member_has_joined(const struct negotiator *negotiator, int member)
{
    return has_parted(negotiator, PARTING_JOIN, member);
}

bool member_leaves(const struct negotiator *negotiator, int member)
{
    return has_parted(negotiator, PARTING_FINALIZE, member);
}

bool partings_below(const struct negotiator *negotiator)
{
    return (negotiator->partings[PARTING_JOIN].below &&
                   !has_bug(negotiator, BUG_HOLD_AFTER_JOIN)) ||
            negotiator->partings[PARTING_FINALIZE].below;
}

bool parting_is_own(const struct negotiator *negotiator)
{
    return negotiator->partings[PARTING_JOIN].own != NULL ||
            negotiator->partings[PARTING_FINALIZE].own != NULL;
}

/* Planned here, and nobody below has announced the next round: nothing is held. */
static bool is_only_planned(const struct entry *entry)
{
    return entry->planned &&
            (entry->who.words == NULL || bitset_count(&entry->who) == 0);
}

void parting_pass(struct negotiator *negotiator, struct parting *parting, uint64_t seen)
{
    if (seen < parting->ended_at) {
        /* Announced again, and decided meanwhile. */
        return;
    }
    parting->below = true;
    if (!partings_below(negotiator)) {
        return;
    }
    observe(negotiator, TRANSITION_SPLIT_BY_PARTING);
    for (struct entry *e = negotiator->active.first; e != NULL; e = e->next) {
        if (e->number != 0 && !is_only_planned(e)) {
            announce_split(negotiator, e);
        }
    }
}

/* True when the coordinator may not count it: too early, too late, or once more. */
static bool is_void(const struct negotiator *negotiator, const struct parting *parting,
        int member, uint64_t seen)
{
    const bool early = member != 0 && seen < negotiator->retired_at &&
            !has_bug(negotiator, BUG_PARTING_EARLY);

    return early || seen < parting->ended_at ||
            (parting->count > 0 && bitset_has(&parting->members, member));
}

tutti_status parting_collect(struct negotiator *negotiator, struct parting *parting,
        int member, uint64_t seen, bool *counts)
{
    *counts = false;
    if (is_void(negotiator, parting, member, seen)) {
        observe(negotiator, TRANSITION_PARTING_VOID);
        return TUTTI_OK;
    }
    if (parting->members.words == NULL &&
            !bitset_init(&parting->members, negotiator->config.size)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a set of %d ranks",
                negotiator->config.size);
    }
    *counts = true;
    parting->last = member;
    if (parting != &negotiator->partings[PARTING_FINALIZE] ||
            !has_bug(negotiator, BUG_LEAVING_UNNOTICED)) {
        bitset_add(&parting->members, member);
        parting->count++;
    }
    return TUTTI_OK;
}

/* This rank has plans to leave first, be it one of the turn that is being built. */
static bool is_planning(const struct negotiator *negotiator)
{
    for (int l = 1; l < negotiator->config.lanes; l++) {
        if (negotiator->lanes[l].appended) {
            return true;
        }
    }
    return negotiator->plans_on > 0;
}

tutti_status parting_submit(struct negotiator *negotiator, struct parting *parting)
{
    const bool joins = parting == &negotiator->partings[PARTING_JOIN];
    tutti_status status;

    if (!is_planning(negotiator) || has_bug(negotiator, BUG_PLAN_JOIN)) {
        return announce_pending(negotiator, parting->own);
    }
    observe(negotiator, TRANSITION_PLAN_HOLDS_PARTING);
    parting->held = true;
    status = plans_poison(negotiator, joins ? POISON_JOIN : POISON_FINALIZE);
    return status == TUTTI_OK ? partings_announce_held(negotiator) : status;
}

void partings_hold(struct negotiator *negotiator)
{
    for (int p = 0; p < PARTING_COUNT; p++) {
        negotiator->partings[p].held = negotiator->partings[p].own != NULL;
    }
}

tutti_status partings_announce_held(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    for (int p = 0; p < PARTING_COUNT && status == TUTTI_OK; p++) {
        struct parting *parting = &negotiator->partings[p];

        if (parting->held && !is_planning(negotiator)) {
            parting->held = false;
            status = announce_pending(negotiator, parting->own);
        }
    }
    return status;
}

tutti_status partings_announce_again(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    for (int p = 0; p < PARTING_COUNT && status == TUTTI_OK; p++) {
        if (negotiator->partings[p].own != NULL && !negotiator->partings[p].held) {
            observe(negotiator, TRANSITION_PARTING_AGAIN);
            status = announce_own(negotiator, negotiator->partings[p].own);
        }
    }
    return status;
}

void parting_end(struct negotiator *negotiator, struct parting *parting)
{
    parting->own = NULL;
    parting->held = false;
    parting->below = false;
    parting->ended_at = negotiator->log_length;
    if (parting->members.words != NULL && !has_bug(negotiator, BUG_JOIN_KEPT)) {
        bitset_clear(&parting->members);
        parting->count = 0;
    }
}
