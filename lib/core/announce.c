/*
 * The way up: announcements of this rank and of the subtree below it.
 */
#include "base/mem.h"
#include "core/negotiator_parts.h"

/*
 * `who` of an inner node has a bit for each child and, last, one for the node itself.
 * When all are set the node speaks for its subtree, once.
 */

static int who_size(const struct negotiator *negotiator)
{
    return negotiator->tree.child_count + 1;
}

static bool subtree_is_complete(
        const struct negotiator *negotiator, const struct entry *entry)
{
    const int missing = has_bug(negotiator, BUG_SUBTREE_EARLY) ? 1 : 0;

    return bitset_count(&entry->who) >= who_size(negotiator) - missing;
}

void announce_split(struct negotiator *negotiator, struct entry *entry)
{
    const struct tree *tree = &negotiator->tree;

    if (entry->split || is_coordinator(negotiator)) {
        return;
    }
    entry->split = true;
    if (entry->who.words == NULL || subtree_is_complete(negotiator, entry)) {
        return;
    }
    for (int c = 0; c < tree->child_count; c++) {
        if (bitset_has(&entry->who, c)) {
            run_put(negotiator, ITEM_NUMBERS_SUBTREE, tree->children[c], entry->number);
        }
    }
    if (bitset_has(&entry->who, tree->child_count)) {
        run_put(negotiator, ITEM_NUMBERS, tree->rank, entry->number);
    }
}

static tutti_status hold_number(
        struct negotiator *negotiator, struct entry *entry, int bit)
{
    if (entry->who.words == NULL && !bitset_init(&entry->who, who_size(negotiator))) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", entry->name);
    }
    if (bitset_has(&entry->who, bit)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "an announcement of \"%s\" reached rank %d twice", entry->name,
                world_rank(negotiator, negotiator->config.rank));
    }
    bitset_add(&entry->who, bit);
    if (subtree_is_complete(negotiator, entry)) {
        observe(negotiator, TRANSITION_NUMBER_SUBTREE_COMPLETE);
        run_put(negotiator, ITEM_NUMBERS_SUBTREE, negotiator->config.rank,
                entry->number);
    } else {
        observe(negotiator, TRANSITION_NUMBER_HELD);
    }
    return TUTTI_OK;
}

/* True for what was announced by who had not read that the tensor is planned now. */
static bool is_void(
        const struct negotiator *negotiator, const struct entry *entry, uint64_t seen)
{
    if (has_bug(negotiator, BUG_PLAN_LATE)) {
        return false;
    }
    return entry->planning || seen < entry->void_before;
}

/*
 * A number of `rank` (with its subtree, by tag) reached this node. `seen` is the length of
 * the log that who sent it here had read.
 */
static tutti_status number_arrived(struct negotiator *negotiator, struct entry *entry,
        uint8_t tag, int rank, uint64_t seen)
{
    const struct tree *tree = &negotiator->tree;
    int bit;

    if (is_void(negotiator, entry, seen)) {
        observe(negotiator, TRANSITION_PLAN_VOID_NUMBER);
        return TUTTI_OK;
    }
    if (is_coordinator(negotiator)) {
        return coordinator_number(negotiator, entry, tag, rank);
    }
    entry_activate(negotiator, entry);
    if (partings_below(negotiator)) {
        announce_split(negotiator, entry);
    }
    bit = rank == tree->rank ? tree->child_count : tree_child_index(tree, rank);
    if (!entry->split && (bit < 0 || (tag == ITEM_NUMBERS && rank != tree->rank))) {
        /* Somebody below has split: its parts cannot be held. */
        observe(negotiator, TRANSITION_SPLIT_BY_NUMBER);
        announce_split(negotiator, entry);
    }
    if (entry->split) {
        observe(negotiator, TRANSITION_NUMBER_PASSED);
        run_put(negotiator, tag, rank, entry->number);
        return TUTTI_OK;
    }
    return hold_number(negotiator, entry, bit);
}

/* `seen` is the length of the log that the announcing rank had read. */
static tutti_status name_arrived(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, const struct meta *meta, uint64_t seen)
{
    struct parting *parting = parting_of(negotiator, ref->collective);
    struct wire_writer *out;
    struct entry *entry;

    entry = entry_find(
            negotiator, ref->hash, ref->collective, ref->name, ref->name_len);
    if (entry != NULL && is_void(negotiator, entry, seen)) {
        observe(negotiator, TRANSITION_PLAN_VOID_NAME);
        return TUTTI_OK;
    }
    if (is_coordinator(negotiator)) {
        return coordinator_name(negotiator, ref, rank, meta, seen);
    }
    if (parting != NULL) {
        parting_pass(negotiator, parting, seen);
    }
    if (entry != NULL && entry->number != 0 && !has_bug(negotiator, BUG_NO_SPLIT)) {
        observe(negotiator, TRANSITION_SPLIT_BY_NAME);
        entry_activate(negotiator, entry);
        announce_split(negotiator, entry);
    }
    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, ITEM_NAME);
    wire_put_varint(out, (uint64_t)rank);
    name_put(out, ref->collective, ref->name, ref->name_len);
    meta_put(out, meta);
    wire_put_varint(out, seen);
    return TUTTI_OK;
}

tutti_status announce_own(struct negotiator *negotiator, struct entry *entry)
{
    const struct name_ref ref = { .hash = entry->hash,
        .collective = entry->collective,
        .name = entry->name,
        .name_len = entry->name_len };

    if (entry->by_number) {
        return number_arrived(negotiator, entry, ITEM_NUMBERS, negotiator->config.rank,
                negotiator->log_length);
    }
    return name_arrived(negotiator, &ref, negotiator->config.rank, &entry->local.meta,
            negotiator->log_length);
}

static tutti_status malformed(const struct negotiator *negotiator, int from)
{
    return error_set(TUTTI_ERR_PROTOCOL, "malformed announcement from rank %d",
            world_rank(negotiator, from));
}

void announce_unread(struct negotiator *negotiator)
{
    if (!is_coordinator(negotiator) && !has_bug(negotiator, BUG_PLAN_UNREAD)) {
        /* A message that begins here says how much was read until now. */
        run_close(negotiator);
    }
}

void announce_read(struct negotiator *negotiator)
{
    struct wire_writer *out = &negotiator->up;

    if (is_coordinator(negotiator)) {
        return;
    }
    run_close(negotiator);
    if (out->len > 0) {
        wire_put_u8(out, ITEM_READ);
        wire_put_varint(out, negotiator->log_length);
    }
}

static tutti_status receive_numbers(struct negotiator *negotiator, int from,
        struct wire_reader *in, uint8_t tag, uint64_t seen)
{
    const uint64_t rank = wire_get_varint(in);
    const uint64_t first = wire_get_varint(in);
    const uint64_t count = wire_get_varint(in);
    const uint64_t limit = UINT64_C(1) << 20;
    tutti_status status = TUTTI_OK;

    if (!wire_ok(in) || rank >= (uint64_t)negotiator->config.size || first == 0 ||
            first > UINT64_MAX - limit || count > limit ||
            !tree_is_below(&negotiator->tree, (int)rank, from)) {
        return malformed(negotiator, from);
    }
    if (is_coordinator(negotiator) && first + count > negotiator->next_number) {
        return malformed(negotiator, from);
    }
    for (uint64_t i = 0; i < count && status == TUTTI_OK; i++) {
        struct entry *entry = entry_by_number(negotiator, first + i);

        if (entry == NULL || entry->retired) {
            /* Retired while under way: its sender announces it again by name. */
            observe(negotiator, TRANSITION_NUMBER_FORGOTTEN);
            continue;
        }
        status = number_arrived(negotiator, entry, tag, (int)rank, seen);
    }
    return status;
}

static tutti_status receive_name(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    const uint64_t rank = wire_get_varint(in);
    struct name_ref ref;
    struct meta meta;
    tutti_status status;
    uint64_t seen;

    if (!name_get(in, &ref) || rank >= (uint64_t)negotiator->config.size ||
            !tree_is_below(&negotiator->tree, (int)rank, from)) {
        return malformed(negotiator, from);
    }
    status = meta_get(in, &meta, &negotiator->dims, &negotiator->dims_capacity);
    if (status != TUTTI_OK) {
        return status;
    }
    seen = wire_get_varint(in);
    if (!wire_ok(in) || meta.root >= negotiator->config.size) {
        return malformed(negotiator, from);
    }
    if ((int)rank != negotiator->config.rank) {
        observe(negotiator, TRANSITION_NAME_PASSED);
    }
    return name_arrived(negotiator, &ref, (int)rank, &meta, seen);
}

static tutti_status receive_cancel(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    const uint64_t rank = wire_get_varint(in);
    struct name_ref ref;
    struct wire_writer *out;
    uint64_t log_length;

    if (!name_get(in, &ref) || rank >= (uint64_t)negotiator->config.size ||
            !tree_is_below(&negotiator->tree, (int)rank, from)) {
        return malformed(negotiator, from);
    }
    log_length = wire_get_varint(in);
    if (!wire_ok(in)) {
        return malformed(negotiator, from);
    }
    if (is_coordinator(negotiator)) {
        return coordinator_cancel(negotiator, &ref, (int)rank, log_length);
    }
    observe(negotiator, TRANSITION_CANCEL_PASSED);
    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, ITEM_CANCEL);
    wire_put_varint(out, rank);
    name_put(out, ref.collective, ref.name, ref.name_len);
    wire_put_varint(out, log_length);
    return TUTTI_OK;
}

tutti_status announce_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    uint64_t seen = wire_get_varint(in);
    tutti_status status = wire_ok(in) ? TUTTI_OK : malformed(negotiator, from);

    while (wire_left(in) > 0 && status == TUTTI_OK) {
        const uint8_t tag = wire_get_u8(in);

        if (tag == ITEM_NUMBERS || tag == ITEM_NUMBERS_SUBTREE) {
            status = receive_numbers(negotiator, from, in, tag, seen);
        } else if (tag == ITEM_READ) {
            seen = wire_get_varint(in);
        } else if (tag == ITEM_MARK) {
            status = marks_receive_up(negotiator, from, in);
        } else if (tag == ITEM_NAME) {
            status = receive_name(negotiator, from, in);
        } else if (tag == ITEM_CANCEL) {
            status = receive_cancel(negotiator, from, in);
        } else {
            status = malformed(negotiator, from);
        }
        if (status == TUTTI_OK && !wire_ok(in)) {
            status = malformed(negotiator, from);
        }
    }
    return status;
}
