/*
 * Marks as messages, where the members of a set do not share memory: each node of the tree
 * tells its parent how far all of its subtree has come, and the coordinator tells all.
 *
 * Of plans that ride (plan_ride.c) only poisons are told, as soon as they are known.
 *
 * Messages of former epochs are under way when the next one begins, and are ignored.
 */
#include "core/negotiator_parts.h"

/* Beside the poison of a mark in a message. */
#define MARK_PARTS 0x80

static tutti_status malformed(const struct negotiator *negotiator, int from)
{
    return error_set(TUTTI_ERR_PROTOCOL, "malformed mark from rank %d",
            world_rank(negotiator, from));
}

static void mark_put(
        struct wire_writer *out, const struct plan *plan, const struct mark *mark)
{
    wire_put_varint(out, plan->lane);
    wire_put_varint(out, plan->epoch);
    wire_put_varint(out, mark->count);
    wire_put_u8(out, (uint8_t)(mark->poison | (mark->parts ? MARK_PARTS : 0)));
    wire_put_varint(out, mark->item);
    wire_put_varint(out, (uint64_t)mark->member);
}

/* The plan that a message is about; *plan NULL: of a former epoch. */
static bool mark_get(const struct negotiator *negotiator, struct wire_reader *in,
        struct plan **plan, struct mark *mark)
{
    const uint64_t number = wire_get_varint(in);
    const uint64_t epoch = wire_get_varint(in);
    const uint64_t count = wire_get_varint(in);
    const uint8_t reason = wire_get_u8(in);
    const uint8_t poison = reason & (MARK_PARTS - 1);
    const uint64_t item = wire_get_varint(in);
    const uint64_t member = wire_get_varint(in);
    const struct plan_lane *lane;

    if (!wire_ok(in) || number == 0 || number >= (uint64_t)negotiator->config.lanes ||
            poison >= POISON_HEARD || item >= PLAN_ITEMS_MAX ||
            member >= (uint64_t)negotiator->config.size) {
        return false;
    }
    lane = &negotiator->lanes[number];
    *plan = lane->next != NULL && lane->next->epoch == epoch ? lane->next
                                                             : lane->current;
    if (*plan != NULL && (*plan)->epoch != epoch) {
        *plan = NULL;
    }
    *mark = (struct mark){ .count = count,
        .poison = (enum poison)poison,
        .item = (uint32_t)item,
        .member = (int)member,
        .parts = (reason & MARK_PARTS) != 0 };
    return epoch <= lane->epoch && (*plan == NULL || item < (*plan)->item_count);
}

/* How far this rank and all below it have come; of a plan that rides, what is known. */
static struct mark subtree_mark(
        const struct negotiator *negotiator, const struct plan *plan)
{
    struct mark least = plan_own_mark(negotiator, plan);
    bool parts = least.parts;

    if (plan->rides) {
        return plan->common;
    }

    for (int c = 0; c < negotiator->tree.child_count; c++) {
        const struct mark *mark = &plan->marks[c];

        if (mark->count < least.count ||
                (mark->count == least.count && least.poison == POISON_NONE)) {
            least = *mark;
        }
        parts = parts || mark->parts;
    }
    least.parts = parts;
    return least;
}

static bool is_news(const struct mark *mark, const struct mark *told)
{
    return mark->count != told->count || mark->poison != told->poison ||
            mark->parts != told->parts;
}

void marks_note(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark)
{
    const bool parts = plan->common.parts || mark->parts;

    if (mark->poison == POISON_NONE || has_bug(negotiator, BUG_PLAN_NO_REASON)) {
        return;
    }
    if (plan->common.poison == POISON_NONE || mark->count < plan->common.count) {
        plan->common = *mark;
    }
    plan->common.parts = parts;
    negotiator->marks_dirty = true;
}

tutti_status marks_receive_up(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    struct plan *plan = NULL;
    struct mark mark;

    if (!mark_get(negotiator, in, &plan, &mark)) {
        return malformed(negotiator, from);
    }
    if (plan == NULL && !has_bug(negotiator, BUG_PLAN_OTHER_EPOCH)) {
        observe(negotiator, TRANSITION_PLAN_MARK_LATE);
        return TUTTI_OK;
    }
    if (plan != NULL) {
        observe(negotiator, TRANSITION_PLAN_MARK_UP);
        if (plan->rides) {
            marks_note(negotiator, plan, &mark);
            return plan_advance(negotiator, plan);
        }
        plan->marks[tree_child_index(&negotiator->tree, from)] = mark;
        negotiator->marks_dirty = true;
    }
    return TUTTI_OK;
}

/* What the coordinator says of all members, or, of a plan that rides, why one left it. */
static tutti_status take_common(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark)
{
    if (plan->rides) {
        marks_note(negotiator, plan, mark);
    } else {
        plan->common = *mark;
    }
    return plan_advance(negotiator, plan);
}

tutti_status marks_receive_down(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    tutti_status status = forward_down(negotiator, in->data, in->len);

    while (wire_left(in) > 0 && status == TUTTI_OK) {
        struct plan *plan = NULL;
        struct mark mark;

        if (!mark_get(negotiator, in, &plan, &mark)) {
            return malformed(negotiator, from);
        }
        if (plan != NULL) {
            observe(negotiator, TRANSITION_PLAN_MARK_DOWN);
            status = take_common(negotiator, plan, &mark);
        }
    }
    return status;
}

static void tell_parent(struct negotiator *negotiator, struct plan *plan)
{
    const struct mark mark = subtree_mark(negotiator, plan);
    struct wire_writer *out;

    if (is_news(&mark, &plan->told)) {
        run_close(negotiator);
        out = message_open(negotiator);
        wire_put_u8(out, ITEM_MARK);
        mark_put(out, plan, &mark);
        plan->told = mark;
    }
}

/* Adds to a message for all what is new of a plan. */
static void tell_all(
        const struct negotiator *negotiator, struct plan *plan, struct wire_writer *out)
{
    const struct mark mark = subtree_mark(negotiator, plan);
    struct mark *told = plan->rides ? &plan->told : &plan->common;

    if (!is_news(&mark, told)) {
        return;
    }
    if (out->len == 0) {
        wire_put_u8(out, KIND_MARKS);
    }
    mark_put(out, plan, &mark);
    *told = mark;
}

static tutti_status send_down(struct negotiator *negotiator, struct wire_writer *out)
{
    tutti_status status = TUTTI_OK;

    if (out->failed) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
    } else if (out->len > 0) {
        status = forward_down(negotiator, out->data, out->len);
    }
    wire_writer_fini(out);
    return status;
}

tutti_status marks_tell_outcome(struct negotiator *negotiator, struct plan *plan)
{
    struct wire_writer out = { .data = NULL };

    if (plan_knows_members(negotiator, plan) || has_bug(negotiator, BUG_PLAN_UNTOLD)) {
        return TUTTI_OK;
    }
    if (!is_coordinator(negotiator)) {
        tell_parent(negotiator, plan);
        return TUTTI_OK;
    }
    tell_all(negotiator, plan, &out);
    return send_down(negotiator, &out);
}

/* The coordinator tells what all have reached, until that allows nothing new. */
static tutti_status flush_down(struct negotiator *negotiator)
{
    struct wire_writer out = { .data = NULL };
    tutti_status status;

    for (int l = 1; l < negotiator->config.lanes; l++) {
        if (negotiator->lanes[l].current != NULL) {
            tell_all(negotiator, negotiator->lanes[l].current, &out);
        }
    }
    status = send_down(negotiator, &out);
    for (int l = 1; l < negotiator->config.lanes && status == TUTTI_OK; l++) {
        if (negotiator->lanes[l].current != NULL) {
            status = plan_advance(negotiator, negotiator->lanes[l].current);
        }
    }
    return status;
}

static void flush_up(struct negotiator *negotiator)
{
    for (int l = 1; l < negotiator->config.lanes; l++) {
        if (negotiator->lanes[l].current != NULL) {
            tell_parent(negotiator, negotiator->lanes[l].current);
        }
    }
}

tutti_status marks_flush(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    while (negotiator->marks_dirty && status == TUTTI_OK) {
        negotiator->marks_dirty = false;
        if (is_coordinator(negotiator)) {
            status = flush_down(negotiator);
        } else {
            flush_up(negotiator);
        }
    }
    return status;
}

tutti_status negotiator_mark(struct negotiator *negotiator, uint32_t lane, int member,
        uint64_t word, uint64_t detail)
{
    struct plan *plan = negotiator->lanes[lane].current;
    struct mark *mark = &plan->marks[member];
    mark->word = word;
    if (word >> MARK_EPOCH_SHIFT != (plan->epoch & MARK_EPOCH_MASK) &&
            !has_bug(negotiator, BUG_PLAN_OTHER_EPOCH)) {
        return TUTTI_OK;
    }
    mark->count = word >> 1 & MARK_COUNT_MASK;
    if ((word & 1) != 0) {
        if (detail >> 32 == POISON_NONE || detail >> 32 >= POISON_COUNT ||
                (uint32_t)detail >= plan->item_count) {
            return malformed(negotiator, member);
        }
        mark->poison = (enum poison)(detail >> 32);
        mark->item = (uint32_t)detail;
        mark->member = member;
        plan->common.parts = plan->common.parts || mark->poison == POISON_JOIN ||
                mark->poison == POISON_FINALIZE;
    }
    return plan_advance(negotiator, plan);
}
