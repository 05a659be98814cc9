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

/* True when this rank has announced what the number stands for, be it with new claims. */
static bool is_announced(const struct negotiator *negotiator, const struct entry *entry)
{
    if (!entry->pending || entry->planned) {
        return false;
    }
    if (entry->by_number) {
        return true;
    }
    observe(negotiator, TRANSITION_APPLY_CLAIMS);
    return meta_equal(&entry->meta, &entry->local.meta);
}

static tutti_status apply_number(struct negotiator *negotiator, uint64_t number)
{
    struct entry *entry = entry_by_number(negotiator, number);
    tutti_status status;

    if (entry == NULL ||
            !(is_absent(negotiator) ? !entry->pending
                                    : is_announced(negotiator, entry))) {
        return corrupt("a tensor is ready that this rank did not announce");
    }
    if (entry->plan != NULL && entry->item == 0) {
        negotiator->slow_steps++;
    }
    if (entry->pending) {
        observe(negotiator, TRANSITION_APPLY_NUMBER);
        status = outcome_add(negotiator, entry, NULL);
    } else {
        observe(negotiator, TRANSITION_APPLY_ABSENT_NUMBER);
        status = outcome_add_absent(negotiator, entry->collective, &entry->meta);
    }
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
    if (entry->plan != NULL) {
        const tutti_status status = plan_forget(negotiator, entry);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    entry->retired = false;
    negotiator->forgot = true;
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

/* The entry of a name that is ready; a rank that is absent may never have seen it. */
static tutti_status named_entry(
        struct negotiator *negotiator, const struct name_ref *ref, struct entry **entry)
{
    const bool absent = is_absent(negotiator);
    struct entry *found = entry_find(
            negotiator, ref->hash, ref->collective, ref->name, ref->name_len);

    if (absent && found == NULL) {
        found = entry_get(
                negotiator, ref->hash, ref->collective, ref->name, ref->name_len);
        if (found == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for tensor \"%.*s\"",
                    (int)ref->name_len, ref->name);
        }
    }
    if (found == NULL || found->pending == absent || found->by_number ||
            found->planned) {
        return corrupt("a name is ready that this rank did not announce");
    }
    *entry = found;
    return TUTTI_OK;
}

/* Hands out what is ready; a join tells who was last. */
static tutti_status name_is_ready(
        struct negotiator *negotiator, struct entry *entry, const struct meta *meta)
{
    tutti_status status;

    if (!entry->pending) {
        observe(negotiator, TRANSITION_APPLY_ABSENT_NAME);
        return outcome_add_absent(negotiator, entry->collective, meta);
    }
    observe(negotiator, TRANSITION_APPLY_NAME);
    status = outcome_add(negotiator, entry, NULL);
    if (status == TUTTI_OK && entry->collective == META_JOIN) {
        negotiator->outcomes[negotiator->outcome_count - 1].last = meta->root;
    }
    return status;
}

static tutti_status remember_number(struct negotiator *negotiator, struct entry *entry,
        uint64_t number, const struct meta *meta)
{
    if (number == 0 || (!entry->pending && has_bug(negotiator, BUG_ABSENT_FORGETS))) {
        return TUTTI_OK;
    }
    observe(negotiator, TRANSITION_APPLY_ASSIGN);
    if (!entry_set_number(negotiator, entry, number, meta)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", entry->name);
    }
    return TUTTI_OK;
}

/* The round of an entry is over; if all members have parted, so is that. */
static void end_round(struct negotiator *negotiator, struct entry *entry)
{
    struct parting *parting = parting_of(negotiator, entry->collective);

    if (parting != NULL) {
        parting_end(negotiator, parting);
    }
    entry_end_round(negotiator, entry);
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
    if (!wire_ok(in) || meta.root >= negotiator->config.size) {
        return corrupt("malformed name");
    }
    status = named_entry(negotiator, &ref, &entry);
    if (status != TUTTI_OK) {
        return status;
    }
    if (number != 0 &&
            (entry->number != 0 || entry_by_number(negotiator, number) != NULL)) {
        return corrupt("a number is given twice");
    }
    negotiator->log_length++;
    status = name_is_ready(negotiator, entry, &meta);
    if (status == TUTTI_OK) {
        status = remember_number(negotiator, entry, number, &meta);
    }
    end_round(negotiator, entry);
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
        /* Its group failed in this turn, just before; or this rank has parted. */
        observe(negotiator, TRANSITION_APPLY_FAILED_ABSENT);
    } else {
        observe(negotiator, TRANSITION_APPLY_FAILED);
        status = fail_entry(negotiator, entry, &failure, "");
    }
    if (entry != NULL) {
        end_round(negotiator, entry);
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
    group_drop(negotiator, group);
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
    if (tag == ENTRY_PLAN) {
        announce_unread(negotiator);
        negotiator->log_length++;
        announce_read(negotiator);
        return plan_apply(negotiator, in);
    }
    if (tag == ENTRY_ABSENT) {
        negotiator->log_length++;
        return absent_apply(negotiator, in);
    }
    return corrupt("unknown entry");
}

/* Others have more to do than those that have joined: that is no stall. */
static void joins_restart(struct negotiator *negotiator)
{
    for (struct entry *e = negotiator->active.first; e != NULL; e = e->next) {
        if (e->collective == META_JOIN) {
            entry_restart(negotiator, e);
            return;
        }
    }
}

tutti_status turnlog_apply(struct negotiator *negotiator, struct wire_reader *in)
{
    const uint64_t index = wire_get_u64(in);
    tutti_status status = TUTTI_OK;

    if (!wire_ok(in) || index != negotiator->log_length) {
        return corrupt("entries are missing");
    }
    negotiator->turn = index;
    negotiator->forgot = false;
    negotiator->went_on = false;
    while (wire_left(in) > 0 && status == TUTTI_OK) {
        status = apply_entry(negotiator, in);
    }
    negotiator->absent = NULL;
    negotiator->assigned_in_turn = 0;
    negotiator->turns++;
    if (negotiator->went_on) {
        joins_restart(negotiator);
    }
    if (status == TUTTI_OK && negotiator->forgot && !is_coordinator(negotiator)) {
        status = partings_announce_again(negotiator);
    }
    return status;
}
