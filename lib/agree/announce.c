/*
 * Announcing tensors, up the tree: those of this rank and those of the ranks below it.
 */
#include "agree/announce.h"

#include "agree/joined.h"
#include "agree/names.h"
#include "agree/numbers.h"
#include "agree/protocol.h"
#include "agree/tally.h"
#include "base/mem.h"

static tutti_status name_at_coordinator(struct negotiator *negotiator, uint8_t tag,
        const struct name_ref *ref, int rank, const struct held_name *said)
{
    struct tensor_state *tensor = NULL;
    tutti_status status = tag == ITEM_NAME_SUBTREE
            ? coordinator_name_below(
                      negotiator, ref, rank, &said->meta, said->seen, &tensor)
            : coordinator_name(negotiator, ref, rank, &said->meta, said->seen, &tensor);

    if (status != TUTTI_OK || tensor == NULL) {
        return status;
    }
    if (leave_of(negotiator, ref->collective) != NULL) {
        status = numbers_single_all(negotiator);
        if (status == TUTTI_OK) {
            status = decide_what_waits(negotiator);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return decide_if_complete(negotiator, tensor);
}

/* True when this announcement may be held with others until all below have announced it. */
static bool is_plain(const struct name_ref *ref, const struct meta *meta)
{
    return name_is_holdable(ref->collective) && meta->group == 0 &&
            meta->row_counts == 0;
}

/* An inner node holds a name of `rank`, if all goes well; true in `held` if it does. */
static tutti_status try_hold(struct negotiator *negotiator, uint8_t tag,
        const struct name_ref *ref, int rank, const struct held_name *said, bool *held)
{
    const struct tree *tree = &negotiator->tree;
    const int bit =
            rank == tree->rank ? tree->child_count : tree_child_index(tree, rank);
    struct tensor_state *tensor = tensor_get(negotiator, ref);

    *held = false;
    if (tensor == NULL) {
        return no_memory_for(ref->name, ref->name_len);
    }
    if (tensor->passes) {
        return TUTTI_OK;
    }
    if (!is_plain(ref, &said->meta) || negotiator->names.freed > 0 ||
            leaves_below(negotiator) || bit < 0 ||
            (tag == ITEM_NAME && rank != tree->rank) ||
            held_differs(tensor, &said->meta)) {
        name_split(negotiator, tensor);
        return TUTTI_OK;
    }
    *held = true;
    tensor_activate(negotiator, tensor);
    return hold_name(negotiator, tensor, bit, said);
}

/* An announcement of a leave passes an inner node: what it holds goes ahead. */
static tutti_status leave_pass(
        struct negotiator *negotiator, struct leave *leave, uint64_t seen)
{
    tutti_status status;

    if (seen < leave->ended_at) {
        /* It was announced again, but the round has ended. */
        return TUTTI_OK;
    }
    leave->below = true;
    if (!leaves_below(negotiator)) {
        return TUTTI_OK;
    }
    status = numbers_single_all(negotiator);
    held_pass_all(negotiator);
    return status;
}

/* Something else than the number was announced of a tensor (NULL: it is new). */
static tutti_status collect_singly(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    return tensor != NULL && tensor->number != 0 && !is_retired(tensor)
            ? numbers_single(negotiator, tensor)
            : TUTTI_OK;
}

static tutti_status name_arrived(struct negotiator *negotiator, uint8_t tag,
        const struct name_ref *ref, int rank, const struct held_name *said)
{
    struct leave *leave = leave_of(negotiator, ref->collective);
    struct tensor_state *tensor = tensor_find(negotiator, ref);
    bool held = false;
    tutti_status status = collect_singly(negotiator, tensor);

    if (status != TUTTI_OK) {
        return status;
    }
    if (is_coordinator(negotiator)) {
        return name_at_coordinator(negotiator, tag, ref, rank, said);
    }
    if (leave != NULL) {
        status = leave_pass(negotiator, leave, said->seen);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    if (tensor != NULL && tensor->number != 0) {
        tensor_activate(negotiator, tensor);
        announce_split(negotiator, tensor);
    }
    if (name_is_holdable(ref->collective)) {
        status = try_hold(negotiator, tag, ref, rank, said, &held);
        if (status != TUTTI_OK || held) {
            return status;
        }
    }
    name_pass(negotiator, tag, rank, ref, said);
    return TUTTI_OK;
}

tutti_status announce_own(struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct name_ref ref = tensor_ref(tensor);

    if (tensor->round.by_number) {
        return numbers_announce(negotiator, tensor);
    }
    return name_arrived(negotiator, ITEM_NAME, &ref, negotiator->config.rank,
            &(struct held_name){ tensor->round.local->meta, negotiator->log.length });
}

static tutti_status cancel_at_coordinator(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length)
{
    const tutti_status status =
            collect_singly(negotiator, tensor_find(negotiator, ref));

    return status == TUTTI_OK ? coordinator_cancel(negotiator, ref, rank, log_length)
                              : status;
}

static tutti_status cancel_arrived(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length)
{
    struct wire_writer *out;

    if (is_coordinator(negotiator)) {
        return cancel_at_coordinator(negotiator, ref, rank, log_length);
    }
    out = record_open(negotiator, ITEM_CANCEL);
    wire_put_varint(out, (uint64_t)rank);
    name_put(out, ref);
    wire_put_varint(out, log_length);
    return TUTTI_OK;
}

tutti_status announce_cancel(
        struct negotiator *negotiator, const struct tensor_state *tensor)
{
    const struct name_ref ref = tensor_ref(tensor);

    return cancel_arrived(
            negotiator, &ref, negotiator->config.rank, negotiator->log.length);
}

tutti_status announce_pending(
        struct negotiator *negotiator, struct tensor_state *tensor)
{
    const struct meta *meta = &tensor->round.local->meta;
    tutti_status status;

    tensor->round.by_number = tensor->number != 0 && !is_retired(tensor) &&
            tensor_expects(tensor, meta) && row_counts_equal(tensor->announced, meta);
    if (tensor->round.by_number) {
        negotiator->stats.by_number++;
    } else {
        negotiator->stats.by_name++;
        if (!row_counts_keep(&tensor->announced, meta)) {
            return no_memory_for(tensor->name, tensor->name_len);
        }
    }
    status = announce_own(negotiator, tensor);
    return status == TUTTI_OK && tensor->round.cancel
            ? announce_cancel(negotiator, tensor)
            : status;
}

static tutti_status receive_operand(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    const uint64_t number = wire_get_varint(in);
    size_t len;
    const char *bytes = wire_get_str(in, NEGOTIATOR_OPERAND_BYTES, &len);
    struct tensor_state *tensor;

    if (!wire_ok(in) || !is_coordinator(negotiator) || len == 0 ||
            len * (size_t)negotiator->config.size > NEGOTIATOR_OPERAND_BYTES) {
        return malformed(negotiator, "operand", from);
    }
    tensor = tensor_by_number(negotiator, number);
    if (tensor == NULL || is_retired(tensor)) {
        return TUTTI_OK; /* as in receive_numbers() */
    }
    return numbers_receive_operand(negotiator, tensor, from, bytes, len);
}

/* The set rank that an item is of, which is the child `from` or below it; -1: malformed. */
static int get_rank(struct negotiator *negotiator, int from, struct wire_reader *in)
{
    const uint64_t rank = wire_get_varint(in);

    return wire_ok(in) && rank < (uint64_t)negotiator->config.size &&
                    tree_child_above(&negotiator->tree, (int)rank) ==
                            tree_child_index(&negotiator->tree, from)
            ? (int)rank
            : -1;
}

static tutti_status receive_numbers(
        struct negotiator *negotiator, int from, struct wire_reader *in, uint8_t tag)
{
    const int rank = get_rank(negotiator, from, in);
    const uint64_t first = wire_get_varint(in);
    const uint64_t count = wire_get_varint(in);
    const uint64_t limit = UINT64_C(1) << 20;

    if (!wire_ok(in) || rank < 0 || first == 0 || first > UINT64_MAX - limit ||
            count > limit ||
            (is_coordinator(negotiator) &&
                    first + count > negotiator->names.next_number)) {
        return malformed(negotiator, "announcement", from);
    }
    if (tag == ITEM_NUMBERS_SUBTREE && rank == from && negotiator->bits.places > 0) {
        return numbers_receive_run(
                negotiator, tree_child_index(&negotiator->tree, from), first, count);
    }
    for (uint64_t i = 0; i < count; i++) {
        struct tensor_state *tensor = tensor_by_number(negotiator, first + i);
        tutti_status status;

        if (tensor == NULL || is_retired(tensor)) {
            /* Retired while under way: its sender announces it again by name. */
            continue;
        }
        status = numbers_receive(negotiator, tensor, tag, rank, from);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status receive_name(
        struct negotiator *negotiator, int from, struct wire_reader *in, uint8_t tag)
{
    const int rank = get_rank(negotiator, from, in);
    struct name_ref ref;
    struct held_name said;
    tutti_status status;

    if (rank < 0 || !name_get(in, &ref)) {
        return malformed(negotiator, "announcement", from);
    }
    status = meta_get(in, &said.meta, &negotiator->dims, &negotiator->dims_capacity);
    if (status != TUTTI_OK) {
        return status;
    }
    said.seen = wire_get_varint(in);
    if (!wire_ok(in) || said.meta.root >= negotiator->config.size ||
            (tag == ITEM_NAME_SUBTREE && !is_plain(&ref, &said.meta))) {
        return malformed(negotiator, "announcement", from);
    }
    return name_arrived(negotiator, tag, &ref, rank, &said);
}

static tutti_status receive_cancel(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    const int rank = get_rank(negotiator, from, in);
    struct name_ref ref;
    uint64_t log_length;

    if (rank < 0 || !name_get(in, &ref)) {
        return malformed(negotiator, "announcement", from);
    }
    log_length = wire_get_varint(in);
    if (!wire_ok(in)) {
        return malformed(negotiator, "announcement", from);
    }
    return cancel_arrived(negotiator, &ref, rank, log_length);
}

tutti_status announce_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    while (wire_left(in) > 0) {
        const uint8_t tag = wire_get_u8(in);
        tutti_status status = TUTTI_OK;

        if (tag == ITEM_NUMBERS || tag == ITEM_NUMBERS_SUBTREE) {
            status = receive_numbers(negotiator, from, in, tag);
        } else if (tag == ITEM_OPERAND) {
            status = receive_operand(negotiator, from, in);
        } else if (tag == ITEM_NAME || tag == ITEM_NAME_SUBTREE) {
            status = receive_name(negotiator, from, in, tag);
        } else if (tag == ITEM_CANCEL) {
            status = receive_cancel(negotiator, from, in);
        } else {
            status = malformed(negotiator, "announcement", from);
        }
        if (status != TUTTI_OK) {
            return status;
        }
        if (!wire_ok(in)) {
            break;
        }
    }
    return wire_ok(in) ? TUTTI_OK : malformed(negotiator, "announcement", from);
}
