/*
 * The coordinator decides whether all members have announced a tensor, and whether
 * they agree.
 */
#include <stdio.h>

#include "agree/joined.h"
#include "agree/log.h"
#include "agree/names.h"
#include "agree/tally.h"

static void format_ranks(const struct negotiator *negotiator,
        const struct bitset *ranks, char *text, size_t capacity)
{
    char list[200];

    (void)bitset_format(ranks, negotiator->config.world_ranks, list, sizeof list);
    (void)snprintf(
            text, capacity, "%s %s", bitset_count(ranks) == 1 ? "rank" : "ranks", list);
}

/** Members that gave the same. */
struct side {
    struct meta meta; /* borrowed */
    const struct bitset *ranks; /* set ranks */
};

static const char *way_out(const struct side *a, const struct side *b)
{
    if (a->meta.step == b->meta.step) {
        return "give the same on all ranks or use different names";
    }
    if (a->meta.step == 0 || b->meta.step == 0) {
        return "give a step on all ranks, or on none";
    }
    return "submit it once in each step on all ranks: one left it out, or submitted it "
           "once more";
}

/* Two sides of a round that disagrees; that of the coordinator first, if it is one. */
static void find_sides(
        const struct tensor_state *tensor, struct side *a, struct side *b)
{
    const struct variant *v = tensor->tally->variants;

    *a = (struct side){ v->meta, &v->ranks };
    if (tensor->tally->arrived > 0) {
        /* They announced by number, and so gave what that stands for. */
        *b = (struct side){ tensor->meta, &tensor->round.parts->who };
        b->meta.step = steps_next(&tensor->steps);
    } else {
        *b = (struct side){ v->next->meta, &v->next->ranks };
    }
    if (bitset_has(b->ranks, 0)) {
        const struct side other = *a;

        *a = *b;
        *b = other;
    }
}

static tutti_status fail_mismatch(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    const bool more =
            (tensor->tally->arrived > 0 ? tensor->tally->variants->next
                                        : tensor->tally->variants->next->next) != NULL;
    char text[ERROR_TEXT_MAX];
    char value_a[160];
    char value_b[160];
    char ranks_a[220];
    char ranks_b[220];
    const char *what;
    struct side a;
    struct side b;

    find_sides(tensor, &a, &b);
    what = meta_difference(&a.meta, &b.meta, value_a, value_b, sizeof value_a);
    format_ranks(negotiator, a.ranks, ranks_a, sizeof ranks_a);
    format_ranks(negotiator, b.ranks, ranks_b, sizeof ranks_b);
    (void)snprintf(text, sizeof text, "%s \"%s\": %s: %s gave %s, %s gave %s%s; %s",
            meta_collective_name(tensor->collective), tensor->name, what, ranks_a,
            value_a, ranks_b, value_b, more ? ", others gave yet others" : "",
            way_out(&a, &b));
    return append_failure(
            negotiator, tensor, TUTTI_ERR_MISMATCH, world_rank(negotiator, 0), text);
}

static tutti_status fail_cancelled(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    const int rank = world_rank(negotiator, tensor->tally->cancelled_by);
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%s \"%s\" was cancelled by rank %d",
            meta_collective_name(tensor->collective), tensor->name, rank);
    return append_failure(negotiator, tensor, TUTTI_ERR_CANCELLED, rank, text);
}

static bool round_disagrees(const struct tensor_state *tensor)
{
    return tensor->tally->variants != NULL &&
            (tensor->tally->arrived > 0 || tensor->tally->variants->next != NULL);
}

/* True when every member has given as many row counts as the metadata demand. */
static bool row_counts_are_whole(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    struct meta meta = *round_meta(tensor);

    for (int m = 0; m < negotiator->config.size; m++) {
        meta.row_counts = row_counts_given(tensor->tally->row_counts[m]);
        if (!row_counts_are_valid(
                    tensor->collective, &meta, m, negotiator->config.size)) {
            return false;
        }
    }
    return true;
}

/* All have announced the same: fails the round if their row counts do not match. */
static tutti_status decide_row_counts(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct exchange exchange = { .collective = tensor->collective,
        .name = tensor->name,
        .root = round_meta(tensor)->root,
        .size = negotiator->config.size,
        .row_counts = tensor->tally->row_counts,
        .world_ranks = negotiator->config.world_ranks };
    char text[ERROR_TEXT_MAX];

    if (tensor->tally->row_counts == NULL || tensor->tally->row_counts_match ||
            !row_counts_are_expected(tensor->collective, round_meta(tensor))) {
        return TUTTI_OK;
    }
    if (!row_counts_are_whole(negotiator, tensor)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "some rank announced %s \"%s\" by number without its row counts",
                meta_collective_name(tensor->collective), tensor->name);
    }
    tensor->tally->row_counts_match = row_counts_match(&exchange, text, sizeof text);
    if (tensor->tally->row_counts_match) {
        return TUTTI_OK;
    }
    return append_failure(
            negotiator, tensor, TUTTI_ERR_MISMATCH, world_rank(negotiator, 0), text);
}

/* True when the tensor can do without the members that have not announced it. */
static bool is_reducible(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    if (tensor->collective == TUTTI_REDUCE &&
            !coordinator_heard(tensor, round_meta(tensor)->root)) {
        return false;
    }
    if (tensor->collective != TUTTI_ALLREDUCE && tensor->collective != TUTTI_REDUCE &&
            tensor->collective != TUTTI_REDUCESCATTER) {
        return false;
    }
    for (int m = 0; m < negotiator->config.size; m++) {
        if (!member_has_joined(negotiator, m) && !coordinator_heard(tensor, m)) {
            return false;
        }
    }
    return true;
}

/* Names the members that joined_find() found, of which `first` is one. */
static tutti_status fail_without(struct negotiator *negotiator,
        struct tensor_state *tensor, tutti_status reason, int first, const char *why)
{
    const struct bitset *members = &negotiator->joined.scratch;
    char text[ERROR_TEXT_MAX];
    char ranks[220];

    format_ranks(negotiator, members, ranks, sizeof ranks);
    (void)snprintf(text, sizeof text, "%s \"%s\": %s %s %s",
            meta_collective_name(tensor->collective), tensor->name, ranks,
            bitset_count(members) == 1 ? "has" : "have", why);
    return append_failure(
            negotiator, tensor, reason, world_rank(negotiator, first), text);
}

/* Some members have joined or finalized, and the tensor cannot do without them. */
static tutti_status fail_left(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    int first = joined_find(negotiator, tensor, member_leaves);

    if (first >= 0) {
        return fail_without(negotiator, tensor, TUTTI_ERR_FINALIZED, first,
                "called tutti_finalize() and will not submit it; let all ranks submit "
                "the same before they finalize");
    }
    first = joined_find(negotiator, tensor, member_has_joined);
    return fail_without(negotiator, tensor, TUTTI_ERR_UNSUPPORTED, first,
            "joined and will not submit it; only allreduce, reducescatter, and reduce "
            "with its root go on without ranks that have joined: let all ranks submit "
            "this before they join");
}

static bool all_have_announced(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return tensor->tally->arrived + tensor->tally->named == negotiator->config.size;
}

/* True when all members have announced the tensor, or have joined or finalized. */
static bool is_complete(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const int heard = tensor->tally->arrived + tensor->tally->named;
    const int left = negotiator->joined.ways[LEAVE_JOIN].count +
            negotiator->joined.ways[LEAVE_FINALIZE].count;

    if (heard >= negotiator->config.size) {
        return true;
    }
    if (heard == 0 || heard + left < negotiator->config.size ||
            tensor->collective == META_FINALIZE) {
        return false;
    }
    for (int m = 0; m < negotiator->config.size; m++) {
        if (!member_has_joined(negotiator, m) && !member_leaves(negotiator, m) &&
                !coordinator_heard(tensor, m)) {
            return false;
        }
    }
    return true;
}

tutti_status decide_if_complete(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    const bool all = all_have_announced(negotiator, tensor);
    tutti_status status = TUTTI_OK;

    if (tensor->tally->decided || !is_complete(negotiator, tensor)) {
        return TUTTI_OK;
    }
    if (round_disagrees(tensor)) {
        return fail_mismatch(negotiator, tensor);
    }
    if (all) {
        status = decide_row_counts(negotiator, tensor);
    }
    if (status != TUTTI_OK || tensor->tally->decided) {
        return status;
    }
    if (tensor->tally->cancelled_by >= 0) {
        return fail_cancelled(negotiator, tensor);
    }
    if (!all && !is_reducible(negotiator, tensor)) {
        return fail_left(negotiator, tensor);
    }
    return append_ready(negotiator, tensor);
}

/*
 * A member has joined or finalized. What waits for it alone is decided before the round of
 * joins or finalizes ends, and a join that waits for members that leave comes last.
 */
tutti_status decide_what_waits(struct negotiator *negotiator)
{
    struct tensor_state *join = NULL;

    for (struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        tutti_status status = TUTTI_OK;

        if (e->collective == META_JOIN) {
            join = e;
        } else if (e->collective != META_FINALIZE) {
            status = decide_if_complete(negotiator, e);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return join != NULL ? decide_if_complete(negotiator, join) : TUTTI_OK;
}
