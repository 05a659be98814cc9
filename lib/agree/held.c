/*
 * Numbers that an inner node of the tree holds until all of its subtree has announced them.
 *
 * `who` of an inner node has a bit for each child and, last, one for the node itself.
 * When all are set the node speaks for its subtree, once.
 */
#include "agree/negotiator_parts.h"

static int who_size(const struct negotiator *negotiator)
{
    return negotiator->tree.child_count + 1;
}

static bool subtree_is_complete(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const int missing = has_bug(negotiator, BUG_SUBTREE_EARLY) ? 1 : 0;

    return bitset_count(&tensor->who) >= who_size(negotiator) - missing;
}

void announce_split(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct tree *tree = &negotiator->tree;

    if (tensor->split || is_coordinator(negotiator)) {
        return;
    }
    tensor->split = true;
    if (tensor->who.words == NULL || subtree_is_complete(negotiator, tensor)) {
        return;
    }
    for (int c = 0; c < tree->child_count; c++) {
        if (bitset_has(&tensor->who, c)) {
            run_put(negotiator, ITEM_NUMBERS_SUBTREE, tree->children[c],
                    tensor->number);
        }
    }
    if (bitset_has(&tensor->who, tree->child_count)) {
        run_put(negotiator, ITEM_NUMBERS, tree->rank, tensor->number);
    }
}

tutti_status hold_number(
        struct negotiator *negotiator, struct tensor_state *tensor, int bit)
{
    if (tensor->who.words == NULL && !bitset_init(&tensor->who, who_size(negotiator))) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    if (bitset_has(&tensor->who, bit)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "an announcement of \"%s\" reached rank %d twice", tensor->name,
                world_rank(negotiator, negotiator->config.rank));
    }
    bitset_add(&tensor->who, bit);
    if (subtree_is_complete(negotiator, tensor)) {
        observe(negotiator, TRANSITION_NUMBER_SUBTREE_COMPLETE);
        run_put(negotiator, ITEM_NUMBERS_SUBTREE, negotiator->config.rank,
                tensor->number);
    } else {
        observe(negotiator, TRANSITION_NUMBER_HELD);
    }
    return TUTTI_OK;
}

/* With its plan here, and no rank below has announced the next round: nothing is held. */
static bool is_only_planned(const struct tensor_state *tensor)
{
    return tensor->planned && bitset_is_empty(&tensor->who);
}

void leave_pass(struct negotiator *negotiator, struct leave *leave, uint64_t seen)
{
    if (seen < leave->ended_at) {
        /* It was announced again, but the round has ended. */
        return;
    }
    leave->below = true;
    if (!leaves_below(negotiator)) {
        return;
    }
    observe(negotiator, TRANSITION_SPLIT_BY_LEAVE);
    for (struct tensor_state *e = negotiator->names.active.first; e != NULL;
            e = e->links.next) {
        if (e->number != 0 && !is_only_planned(e)) {
            announce_split(negotiator, e);
        }
    }
}
