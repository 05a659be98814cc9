/*
 * The way down: applying a turn of the log. Every member, the coordinator included, runs
 * this on the same bytes.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"
#include "core/negotiator_parts.h"

/* Bounds what a malformed message can make us do. */
#define TURN_NUMBERS_MAX (UINT64_C(1) << 20)

static tutti_status corrupt(const char *what)
{
    return error_set(TUTTI_ERR_PROTOCOL, "corrupt log: %s", what);
}

static tutti_status apply_number(struct negotiator *negotiator, uint64_t number)
{
    struct entry *entry = entry_by_number(negotiator, number);
    tutti_status status;

    if (entry == NULL || !entry->pending || !entry->by_number) {
        return corrupt("a tensor is ready that this rank did not announce");
    }
    observe(negotiator, TRANSITION_APPLY_NUMBER);
    status = outcome_add(negotiator, entry, NULL);
    entry_end_round(negotiator, entry);
    return status;
}

/*
 * A number is retired. Announcements of it that the subtree made are void. If this rank
 * waits on one of its own, it announces it again by name; so do the ranks below, each when
 * it reads this.
 */
static tutti_status apply_forget(struct negotiator *negotiator, uint64_t number)
{
    struct entry *entry = entry_by_number(negotiator, number);

    if (entry == NULL) {
        return corrupt("a number is retired that was never given");
    }
    entry->retired = false;
    entry_clear_number(negotiator, entry);
    if (entry->since_ns == 0) {
        observe(negotiator, TRANSITION_FORGET_IDLE);
        return TUTTI_OK;
    }
    entry->split = false;
    if (is_coordinator(negotiator)) {
        /* It took no numbers since it retired this one: what is here came by name. */
        observe(negotiator, TRANSITION_FORGET_NAMED);
        if (has_bug(negotiator, BUG_FORGET_NAMES) && !entry->pending) {
            entry_end_round(negotiator, entry);
        }
        return TUTTI_OK;
    }
    if (entry->who.words != NULL) {
        bitset_clear(&entry->who);
    }
    if (!entry->pending) {
        observe(negotiator, TRANSITION_FORGET_PARTIAL);
        entry_end_round(negotiator, entry);
        return TUTTI_OK;
    }
    if (!entry->by_number || has_bug(negotiator, BUG_HOLD_FORGOTTEN)) {
        return TUTTI_OK;
    }
    observe(negotiator, TRANSITION_FORGET_REANNOUNCE);
    entry->by_number = false;
    return announce_own(negotiator, entry);
}

static tutti_status apply_numbers(
        struct negotiator *negotiator, struct wire_reader *in, uint8_t tag)
{
    const uint64_t first = wire_get_varint(in);
    const uint64_t count = wire_get_varint(in);
    tutti_status status = TUTTI_OK;

    if (!wire_ok(in) || first == 0 || first > UINT64_MAX - TURN_NUMBERS_MAX ||
            count > TURN_NUMBERS_MAX) {
        return corrupt("malformed numbers");
    }
    for (uint64_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = tag == ENTRY_NUMBERS ? apply_number(negotiator, first + i)
                                      : apply_forget(negotiator, first + i);
        negotiator->log_length++;
    }
    return status;
}

static uint64_t number_to_use(struct negotiator *negotiator, uint64_t number)
{
    if (has_bug(negotiator, BUG_ASSIGN_LOCALLY) && number != 0) {
        return negotiator->by_name_count + 1;
    }
    return number;
}

static tutti_status apply_name(struct negotiator *negotiator, struct wire_reader *in)
{
    struct name_ref ref;
    struct meta meta;
    struct entry *entry;
    uint64_t number;
    tutti_status status;

    if (!name_get(in, &ref)) {
        return corrupt("malformed name");
    }
    status = meta_get(in, &meta, &negotiator->dims, &negotiator->dims_capacity);
    if (status != TUTTI_OK) {
        return status;
    }
    number = number_to_use(negotiator, wire_get_varint(in));
    entry = entry_find(negotiator, ref.hash, ref.collective, ref.name, ref.name_len);
    if (!wire_ok(in) || entry == NULL || !entry->pending || entry->by_number) {
        return corrupt("a name is ready that this rank did not announce");
    }
    if (number != 0 &&
            (entry->number != 0 || entry_by_number(negotiator, number) != NULL)) {
        return corrupt("a number is given twice");
    }
    observe(negotiator, TRANSITION_APPLY_NAME);
    negotiator->log_length++;
    status = outcome_add(negotiator, entry, NULL);
    if (number != 0 && status == TUTTI_OK) {
        observe(negotiator, TRANSITION_APPLY_ASSIGN);
        if (!entry_set_number(negotiator, entry, number, &meta)) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", entry->name);
        }
    }
    entry_end_round(negotiator, entry);
    return status;
}

/* A reason for failing as it arrived; the text is borrowed and not terminated. */
struct failure {
    tutti_status status;
    int rank;
    const char *text;
    size_t text_len;
};

static bool failure_get(struct wire_reader *in, struct failure *failure)
{
    const int64_t reason = wire_get_svarint(in);
    const uint64_t rank_plus_one = wire_get_varint(in);

    failure->text = wire_get_str(in, ERROR_TEXT_MAX - 1, &failure->text_len);
    if (!wire_ok(in) || !status_is_valid(reason) || reason >= 0 ||
            rank_plus_one > INT32_MAX) {
        return false;
    }
    failure->status = (tutti_status)reason;
    failure->rank = (int)rank_plus_one - 1;
    return true;
}

/* An error for one entry, of its own or because its group failed. */
static tutti_status fail_entry(struct negotiator *negotiator, struct entry *entry,
        const struct failure *failure, const char *intro)
{
    struct error *error = mem_calloc(1, sizeof *error);

    if (error == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an error");
    }
    error_fill(error, failure->status, failure->rank, "%s%.*s", intro,
            (int)failure->text_len, failure->text);
    return outcome_add(negotiator, entry, error);
}

static tutti_status apply_failed(struct negotiator *negotiator, struct wire_reader *in)
{
    struct name_ref ref;
    struct failure failure;
    struct entry *entry;
    tutti_status status = TUTTI_OK;

    if (!name_get(in, &ref) || !failure_get(in, &failure)) {
        return corrupt("malformed failure");
    }
    negotiator->log_length++;
    entry = entry_find(negotiator, ref.hash, ref.collective, ref.name, ref.name_len);
    if (entry == NULL || !entry->pending) {
        /* Its group failed in this turn, just before. */
        observe(negotiator, TRANSITION_APPLY_FAILED_ABSENT);
    } else {
        observe(negotiator, TRANSITION_APPLY_FAILED);
        status = fail_entry(negotiator, entry, &failure, "");
    }
    if (entry != NULL) {
        entry_end_round(negotiator, entry);
    }
    return status;
}

/* Nobody's announcement is left here, so that the round is over. */
static bool is_forsaken(const struct negotiator *negotiator, const struct entry *entry)
{
    if (entry->pending) {
        return false;
    }
    if (is_coordinator(negotiator)) {
        return entry->arrived + entry->named == 0;
    }
    return !entry->split &&
            (entry->who.words == NULL || bitset_count(&entry->who) == 0);
}

/* Takes out what others announced of an entry as part of a group; true if anything. */
static bool drop_announcements(struct entry *entry, uint64_t group)
{
    const int named = entry->named;

    coordinator_drop_variants(entry, group);
    if (entry->number == 0 || entry->meta.group != group || entry->who.words == NULL) {
        return entry->named != named;
    }
    bitset_clear(&entry->who);
    entry->arrived = 0;
    return true;
}

static tutti_status fail_in_group(struct negotiator *negotiator, struct entry *entry,
        uint64_t group, const struct failure *failure)
{
    const bool own = entry->pending && entry->local.meta.group == group;
    char intro[TUTTI_NAME_MAX + 64];
    tutti_status status = TUTTI_OK;

    if (!drop_announcements(entry, group) && !own) {
        return TUTTI_OK;
    }
    if (own) {
        observe(negotiator, TRANSITION_APPLY_GROUP_FAILED);
        (void)snprintf(intro, sizeof intro, "%s \"%s\" failed with its group: ",
                meta_collective_name(entry->collective), entry->name);
        status = fail_entry(negotiator, entry, failure, intro);
        entry->pending = false;
        entry->by_number = false;
        entry->local = (struct request){ 0 };
    }
    if (is_forsaken(negotiator, entry)) {
        entry_end_round(negotiator, entry);
    } else {
        /* Some rank submitted this tensor outside that group. */
        observe(negotiator, TRANSITION_GROUP_SURVIVED);
    }
    return status;
}

static tutti_status apply_group_failed(
        struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t group = wire_get_u64(in);
    struct entry *next;
    struct failure failure;
    tutti_status status = TUTTI_OK;

    if (!failure_get(in, &failure) || group == 0) {
        return corrupt("malformed failure of a group");
    }
    negotiator->log_length++;
    coordinator_drop_group(negotiator, group);
    for (struct entry *e = negotiator->active.first; e != NULL && status == TUTTI_OK;
            e = next) {
        next = e->next;
        status = fail_in_group(negotiator, e, group, &failure);
    }
    return status;
}

static tutti_status apply_entry(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint8_t tag = wire_get_u8(in);

    if (tag == ENTRY_NUMBERS || tag == ENTRY_FORGET) {
        return apply_numbers(negotiator, in, tag);
    }
    if (tag == ENTRY_NAME) {
        return apply_name(negotiator, in);
    }
    if (tag == ENTRY_FAILED) {
        return apply_failed(negotiator, in);
    }
    if (tag == ENTRY_GROUP_FAILED) {
        return apply_group_failed(negotiator, in);
    }
    return corrupt("unknown entry");
}

tutti_status turnlog_apply(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t index = wire_get_u64(in);
    tutti_status status = TUTTI_OK;

    if (!wire_ok(in) || index != negotiator->log_length) {
        return corrupt("entries are missing");
    }
    negotiator->turn = index;
    while (wire_left(in) > 0 && status == TUTTI_OK) {
        status = apply_entry(negotiator, in);
    }
    negotiator->assigned_in_turn = 0;
    negotiator->turns++;
    return status;
}
