/*
 * The coordinator decides: when a round is complete, and whether its members agree.
 */
#include <stdio.h>

#include "core/negotiator_parts.h"

static void format_ranks(const struct negotiator *negotiator,
        const struct bitset *ranks, char *text, size_t capacity)
{
    char list[200];

    (void)bitset_format(ranks, negotiator->config.world_ranks, list, sizeof list);
    (void)snprintf(
            text, capacity, "%s %s", bitset_count(ranks) == 1 ? "rank" : "ranks", list);
}

static tutti_status fail_mismatch(struct negotiator *negotiator, struct entry *entry)
{
    /* Those who announced by number gave the metadata the number stands for. */
    const bool by_number = entry->arrived > 0;
    const struct variant *second = by_number ? entry->variants : entry->variants->next;
    const struct meta *meta = by_number ? &entry->meta : &entry->variants->meta;
    const struct bitset *first = by_number ? &entry->who : &entry->variants->ranks;
    char text[ERROR_TEXT_MAX];
    char value_a[160];
    char value_b[160];
    char ranks_a[220];
    char ranks_b[220];
    const char *what;

    what = meta_difference(meta, &second->meta, value_a, value_b, sizeof value_a);
    format_ranks(negotiator, first, ranks_a, sizeof ranks_a);
    format_ranks(negotiator, &second->ranks, ranks_b, sizeof ranks_b);
    (void)snprintf(text, sizeof text,
            "%s \"%s\": %s: %s gave %s, %s gave %s%s; give the same on all ranks or "
            "use different names",
            meta_collective_name(entry->collective), entry->name, what, ranks_a,
            value_a, ranks_b, value_b,
            second->next != NULL ? ", others gave yet others" : "");
    observe(negotiator, TRANSITION_DECIDE_MISMATCH);
    return append_failure(
            negotiator, entry, TUTTI_ERR_MISMATCH, world_rank(negotiator, 0), text);
}

static tutti_status fail_cancelled(struct negotiator *negotiator, struct entry *entry)
{
    const int rank = world_rank(negotiator, entry->cancelled_by);
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%s \"%s\" was cancelled by rank %d",
            meta_collective_name(entry->collective), entry->name, rank);
    observe(negotiator, TRANSITION_DECIDE_CANCELLED);
    return append_failure(negotiator, entry, TUTTI_ERR_CANCELLED, rank, text);
}

static bool round_disagrees(
        const struct negotiator *negotiator, const struct entry *entry)
{
    if (has_bug(negotiator, BUG_IGNORE_DIFFERENCE)) {
        return false;
    }
    return entry->variants != NULL &&
            (entry->arrived > 0 || entry->variants->next != NULL);
}

/* True when every member has claimed something, as the metadata demands. */
static bool claims_are_whole(
        const struct negotiator *negotiator, const struct entry *entry)
{
    struct meta meta = *round_meta(entry);

    for (int m = 0; m < negotiator->config.size; m++) {
        meta.claim_count = entry->claims[m].count;
        if (!claims_count_is_valid(
                    entry->collective, &meta, m, negotiator->config.size)) {
            return false;
        }
    }
    return true;
}

/* All have announced the same: fails the round if what they claim does not match. */
static tutti_status decide_claims(struct negotiator *negotiator, struct entry *entry)
{
    const struct exchange exchange = { .collective = entry->collective,
        .name = entry->name,
        .root = round_meta(entry)->root,
        .size = negotiator->config.size,
        .claims = entry->claims,
        .world_ranks = negotiator->config.world_ranks };
    char text[ERROR_TEXT_MAX];

    if (entry->claims == NULL || entry->claims_match ||
            !claims_are_expected(entry->collective, round_meta(entry))) {
        return TUTTI_OK;
    }
    if (!claims_are_whole(negotiator, entry)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "some rank announced %s \"%s\" by number and not what it claims",
                meta_collective_name(entry->collective), entry->name);
    }
    entry->claims_match = claims_match(&exchange, text, sizeof text);
    if (entry->claims_match) {
        return TUTTI_OK;
    }
    observe(negotiator, TRANSITION_DECIDE_CLAIMS);
    return append_failure(
            negotiator, entry, TUTTI_ERR_MISMATCH, world_rank(negotiator, 0), text);
}

/* Collects who parted in some way without announcing the tensor; returns the first. */
static int find_parted(struct negotiator *negotiator, const struct entry *entry,
        bool (*parted)(const struct negotiator *negotiator, int member))
{
    int first = -1;

    bitset_clear(&negotiator->scratch);
    for (int m = negotiator->config.size - 1; m >= 0; m--) {
        if (parted(negotiator, m) && !coordinator_heard(entry, m)) {
            bitset_add(&negotiator->scratch, m);
            first = m;
        }
    }
    return first;
}

/* True when the tensor can do without the members that have not announced it. */
static bool is_reducible(const struct negotiator *negotiator, const struct entry *entry)
{
    if (entry->collective == TUTTI_REDUCE &&
            !coordinator_heard(entry, round_meta(entry)->root)) {
        return false;
    }
    if (entry->collective != TUTTI_ALLREDUCE && entry->collective != TUTTI_REDUCE &&
            entry->collective != TUTTI_REDUCESCATTER) {
        return false;
    }
    for (int m = 0; m < negotiator->config.size; m++) {
        if (!member_has_joined(negotiator, m) && !coordinator_heard(entry, m)) {
            return false;
        }
    }
    return true;
}

/* Names the members that find_parted() found, of which `first` is one. */
static tutti_status fail_without(struct negotiator *negotiator, struct entry *entry,
        tutti_status reason, int first, const char *why)
{
    const struct bitset *members = &negotiator->scratch;
    char text[ERROR_TEXT_MAX];
    char ranks[220];

    format_ranks(negotiator, members, ranks, sizeof ranks);
    (void)snprintf(text, sizeof text, "%s \"%s\": %s %s %s",
            meta_collective_name(entry->collective), entry->name, ranks,
            bitset_count(members) == 1 ? "has" : "have", why);
    return append_failure(
            negotiator, entry, reason, world_rank(negotiator, first), text);
}

/* Some members have parted, and the tensor cannot do without them. */
static tutti_status fail_parted(struct negotiator *negotiator, struct entry *entry)
{
    int first = find_parted(negotiator, entry, member_leaves);

    if (first >= 0) {
        observe(negotiator, TRANSITION_DECIDE_LEAVING);
        return fail_without(negotiator, entry, TUTTI_ERR_FINALIZED, first,
                "called tutti_finalize() and will not submit it; let all ranks submit "
                "the same before they finalize");
    }
    first = find_parted(negotiator, entry, member_has_joined);
    observe(negotiator, TRANSITION_DECIDE_UNSUPPORTED);
    return fail_without(negotiator, entry, TUTTI_ERR_UNSUPPORTED, first,
            "joined and will not submit it; only allreduce, reducescatter, and reduce "
            "with its root go on without ranks that have joined: let all ranks submit "
            "this before they join");
}

static bool all_have_announced(
        const struct negotiator *negotiator, const struct entry *entry)
{
    return entry->arrived + entry->named == negotiator->config.size;
}

/* True when all members have announced the tensor, or have parted. */
static bool is_complete(const struct negotiator *negotiator, const struct entry *entry)
{
    const int early = has_bug(negotiator, BUG_DECIDE_EARLY) ? 1 : 0;
    const int heard = entry->arrived + entry->named;
    const int parted = negotiator->partings[PARTING_JOIN].count +
            negotiator->partings[PARTING_FINALIZE].count;

    if (heard + early >= negotiator->config.size) {
        return true;
    }
    if (heard == 0 || heard + parted < negotiator->config.size ||
            entry->collective == META_FINALIZE) {
        return false;
    }
    for (int m = 0; m < negotiator->config.size; m++) {
        if (!member_has_joined(negotiator, m) && !member_leaves(negotiator, m) &&
                !coordinator_heard(entry, m)) {
            return false;
        }
    }
    return true;
}

tutti_status decide_if_complete(struct negotiator *negotiator, struct entry *entry)
{
    const bool all = all_have_announced(negotiator, entry);
    tutti_status status = TUTTI_OK;

    if (entry->decided || entry->planning || !is_complete(negotiator, entry)) {
        return TUTTI_OK;
    }
    if (round_disagrees(negotiator, entry)) {
        return fail_mismatch(negotiator, entry);
    }
    if (all) {
        status = decide_claims(negotiator, entry);
    }
    if (status != TUTTI_OK || entry->decided) {
        return status;
    }
    if (entry->cancelled_by >= 0) {
        return fail_cancelled(negotiator, entry);
    }
    if (!all && !is_reducible(negotiator, entry) &&
            !has_bug(negotiator, BUG_DECIDE_EARLY)) {
        return fail_parted(negotiator, entry);
    }
    return append_ready(negotiator, entry);
}

/*
 * A member has parted: what waits for it alone is decided, before the round that would
 * end this. A join that waits for members that leave comes last.
 */
tutti_status decide_what_waits(struct negotiator *negotiator)
{
    struct entry *join = NULL;
    tutti_status status = TUTTI_OK;

    for (struct entry *e = negotiator->active.first; e != NULL && status == TUTTI_OK;
            e = e->next) {
        if (e->collective == META_JOIN) {
            join = e;
        } else if (e->collective != META_FINALIZE) {
            status = decide_if_complete(negotiator, e);
        }
    }
    return join != NULL && status == TUTTI_OK ? decide_if_complete(negotiator, join)
                                              : status;
}
