/*
 * What an inner node of the tree holds until all of its subtree has announced it: numbers,
 * and names that have no number yet.
 *
 * `who` of an inner node has a bit for each child and, last, one for the node itself.
 * When all are set the node speaks for its subtree, once.
 *
 * Names are held only while this is plain: of a tensor that never had a number and of which
 * nobody said anything else. So nothing of a round can be held here when something of it has
 * passed already: a number that is retired or a group cannot be in between. A node
 * that has forgotten names does not know that, and holds none.
 */
#include "agree/announce.h"
#include "agree/joined.h"
#include "agree/names.h"
#include "agree/protocol.h"
#include "base/mem.h"

static int who_size(const struct negotiator *negotiator)
{
    return negotiator->tree.child_count + 1;
}

static bool subtree_is_complete(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return bitset_count(&tensor->round.parts->who) >= who_size(negotiator);
}

bool name_is_holdable(int collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_BROADCAST ||
            collective == TUTTI_REDUCE || collective == TUTTI_BARRIER ||
            collective == META_SET_CREATE || collective == META_SET_DESTROY;
}

void name_pass(struct negotiator *negotiator, uint8_t tag, int rank,
        const struct name_ref *ref, const struct held_name *said)
{
    struct wire_writer *out = record_open(negotiator, tag);

    wire_put_varint(out, (uint64_t)rank);
    name_put(out, ref);
    meta_put(out, &said->meta);
    wire_put_varint(out, said->seen);
}

void name_split(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct tree *tree = &negotiator->tree;
    const struct name_ref ref = tensor_ref(tensor);

    tensor->passes = !is_coordinator(negotiator);
    if (held_of(tensor) == NULL) {
        return;
    }
    for (int c = 0; c < tree->child_count; c++) {
        if (bitset_has(&tensor->round.parts->who, c)) {
            name_pass(negotiator, ITEM_NAME_SUBTREE, tree->children[c], &ref,
                    tensor->round.parts->held);
        }
    }
    if (bitset_has(&tensor->round.parts->who, tree->child_count)) {
        name_pass(negotiator, ITEM_NAME, tree->rank, &ref, tensor->round.parts->held);
    }
    bitset_clear(&tensor->round.parts->who);
    tensor_drop_held(tensor);
    if (!tensor->round.pending) {
        tensor_end_round(negotiator, tensor);
    }
}

void announce_split(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct tree *tree = &negotiator->tree;

    if (tensor->round.split || is_coordinator(negotiator)) {
        return;
    }
    tensor->round.split = true;
    tensor->round.collected = true;
    if (tensor->round.parts == NULL || subtree_is_complete(negotiator, tensor)) {
        return;
    }
    for (int c = 0; c < tree->child_count; c++) {
        if (bitset_has(&tensor->round.parts->who, c)) {
            run_put(negotiator, ITEM_NUMBERS_SUBTREE, tree->children[c],
                    tensor->number);
        }
    }
    if (bitset_has(&tensor->round.parts->who, tree->child_count)) {
        run_put(negotiator, ITEM_NUMBERS, tree->rank, tensor->number);
    }
}

static tutti_status mark(
        struct negotiator *negotiator, struct tensor_state *tensor, int bit)
{
    tensor->round.collected = true;
    if (!tensor_parts_begin(tensor, who_size(negotiator))) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    if (bitset_has(&tensor->round.parts->who, bit)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "an announcement of \"%s\" reached rank %d twice", tensor->name,
                world_rank(negotiator, negotiator->config.rank));
    }
    bitset_add(&tensor->round.parts->who, bit);
    return TUTTI_OK;
}

tutti_status hold_number(
        struct negotiator *negotiator, struct tensor_state *tensor, int bit)
{
    const tutti_status status = mark(negotiator, tensor, bit);

    if (status != TUTTI_OK) {
        return status;
    }
    if (subtree_is_complete(negotiator, tensor)) {
        run_put(negotiator, ITEM_NUMBERS_SUBTREE, negotiator->config.rank,
                tensor->number);
    }
    return TUTTI_OK;
}

bool held_differs(const struct tensor_state *tensor, const struct meta *meta)
{
    const struct held_name *held = held_of(tensor);

    return held != NULL &&
            (!meta_equal(&held->meta, meta) || held->meta.step != meta->step);
}

/* There are parts. */
static bool keep_held(struct tensor_state *tensor, const struct held_name *said)
{
    struct held_name *held = tensor->round.parts->held;

    if (held != NULL) {
        held->seen = said->seen < held->seen ? said->seen : held->seen;
        return true;
    }
    held = mem_calloc(1, sizeof *held);
    if (held == NULL || !meta_copy(&held->meta, &said->meta)) {
        mem_free(held);
        return false;
    }
    held->seen = said->seen;
    tensor->round.parts->held = held;
    return true;
}

tutti_status hold_name(struct negotiator *negotiator, struct tensor_state *tensor,
        int bit, const struct held_name *said)
{
    const struct name_ref ref = tensor_ref(tensor);
    tutti_status status;

    if (negotiator->tree.child_count == 0) {
        name_pass(negotiator, ITEM_NAME_SUBTREE, negotiator->tree.rank, &ref, said);
        return TUTTI_OK;
    }
    status = mark(negotiator, tensor, bit);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!keep_held(tensor, said)) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    if (!subtree_is_complete(negotiator, tensor)) {
        return TUTTI_OK;
    }
    name_pass(negotiator, ITEM_NAME_SUBTREE, negotiator->tree.rank, &ref,
            tensor->round.parts->held);
    tensor_drop_held(tensor);
    return TUTTI_OK;
}

void held_pass_all(struct negotiator *negotiator)
{
    struct tensor_state *next;

    for (struct tensor_state *e = negotiator->names.active.first; e != NULL; e = next) {
        next = e->links.next;
        if (e->number != 0) {
            announce_split(negotiator, e);
        } else if (held_of(e) != NULL) {
            name_split(negotiator, e);
        }
    }
}
