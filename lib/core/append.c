/*
 * What the coordinator appends to the log: what is ready, what failed, numbers given and
 * retired; and the groups whose members wait for each other before that.
 */
#include <string.h>

#include "base/mem.h"
#include "core/negotiator_parts.h"

/* How many of the oldest numbers are looked at when one must be retired. */
#define RETIRE_TRIES 8
/* Failed groups that are remembered: far more than can fail while a message travels. */
#define FAILED_GROUPS_MAX 256

static bool group_matches(const void *value, const void *key)
{
    const struct group *group = value;
    const uint64_t *hash = key;

    return group->hash == *hash;
}

void groups_fini(struct negotiator *negotiator)
{
    size_t position = 0;
    struct group *group;

    while ((group = map_next(&negotiator->groups, &position)) != NULL) {
        mem_free(group);
    }
    map_fini(&negotiator->groups);
    mem_free(negotiator->failed_groups);
    while (negotiator->spare_groups != NULL) {
        group = negotiator->spare_groups;
        negotiator->spare_groups = group->next_spare;
        mem_free(group);
    }
}

/* ------------------------------------------------- appending to the log */

static void failure_put(
        struct wire_writer *out, tutti_status reason, int rank, const char *text)
{
    wire_put_svarint(out, reason);
    wire_put_varint(out, (uint64_t)rank + 1);
    wire_put_str(out, text, strnlen(text, ERROR_TEXT_MAX - 1));
}

static void append_failed(struct negotiator *negotiator, struct entry *entry,
        tutti_status reason, int rank, const char *text)
{
    struct wire_writer *out;

    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, ENTRY_FAILED);
    name_put(out, entry->collective, entry->name, entry->name_len);
    failure_put(out, reason, rank, text);
    negotiator->appended++;
    entry->decided_at = negotiator->appended;
    entry->decided = true;
    learn_failed(negotiator, entry);
}

/* Announcements by this number that arrive from now on are dropped. */
static void retire(struct negotiator *negotiator, struct entry *entry)
{
    run_put(negotiator, ENTRY_FORGET, 0, entry->number);
    entry->retired = true;
    negotiator->retired_at = negotiator->appended + negotiator->run_count;
}

/* Outside of a round, and in no plan at any rank. */
static bool is_retirable(const struct negotiator *negotiator, const struct entry *entry)
{
    const struct plan *follower = negotiator->lanes[entry->left_lane].current;

    return entry->since_ns == 0 && !entry->retired && entry->plan == NULL &&
            !entry->planning &&
            (follower == NULL || plan_is_entered(follower) ||
                    has_bug(negotiator, BUG_PLAN_RETIRED));
}

/* A new number, if there is room or an idle one can be retired; else 0. */
static uint64_t number_for(struct negotiator *negotiator, const struct entry *entry)
{
    const size_t capacity = (size_t)negotiator->config.number_capacity;
    struct entry *oldest = negotiator->numbered.first;

    if (capacity == 0 || entry->uses == 0 || entry->collective >= META_SET_CREATE) {
        return 0;
    }
    if (negotiator->numbered.count + negotiator->assigned_in_turn < capacity) {
        negotiator->assigned_in_turn++;
        return negotiator->next_number++;
    }
    for (int i = 0; i < RETIRE_TRIES && oldest != NULL; i++, oldest = oldest->newer) {
        if (is_retirable(negotiator, oldest)) {
            observe(negotiator, TRANSITION_RETIRE_OLDEST);
            retire(negotiator, oldest);
            return negotiator->next_number++;
        }
    }
    return 0;
}

static tutti_status append_named(struct negotiator *negotiator, struct entry *entry)
{
    struct meta meta = *round_meta(entry);
    struct wire_writer *out;
    uint64_t number;

    meta.claim_count = 0;
    if (entry->collective == META_JOIN) {
        meta.root = negotiator->partings[PARTING_JOIN].last;
    }
    if (entry->number != 0 && !entry->retired) {
        /* The name is used with other metadata now. */
        observe(negotiator, TRANSITION_RETIRE_CHANGED);
        retire(negotiator, entry);
        entry->uses = 0;
    }
    number = number_for(negotiator, entry);
    if (number != 0) {
        observe(negotiator, TRANSITION_DECIDE_ASSIGN);
    }
    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, ENTRY_NAME);
    name_put(out, entry->collective, entry->name, entry->name_len);
    meta_put(out, &meta);
    wire_put_varint(out, number);
    negotiator->appended++;
    return TUTTI_OK;
}

static tutti_status append_now(struct negotiator *negotiator, struct entry *entry)
{
    tutti_status status = TUTTI_OK;

    if (negotiator->partings[PARTING_JOIN].count > 0) {
        absent_append(negotiator, entry);
    }
    if (entry->variants == NULL) {
        observe(negotiator, TRANSITION_DECIDE_NUMBER);
        run_put(negotiator, ENTRY_NUMBERS, 0, entry->number);
    } else {
        observe(negotiator, TRANSITION_DECIDE_NAME);
        status = append_named(negotiator, entry);
    }
    entry->uses++;
    entry->decided_at = negotiator->appended + negotiator->run_count;
    entry->decided = true;
    return status;
}

/* ------------------------------------------------------------------ groups */

static struct group *group_get(struct negotiator *negotiator, uint64_t hash)
{
    struct group *group = map_find(&negotiator->groups, hash, group_matches, &hash);

    if (group != NULL) {
        return group;
    }
    group = negotiator->spare_groups;
    if (group == NULL) {
        group = mem_alloc(sizeof *group);
        if (group == NULL) {
            return NULL;
        }
    } else {
        negotiator->spare_groups = group->next_spare;
    }
    *group = (struct group){ .hash = hash };
    if (!map_insert(&negotiator->groups, hash, group)) {
        mem_free(group);
        return NULL;
    }
    return group;
}

static void group_put(struct negotiator *negotiator, struct group *group)
{
    (void)map_remove(&negotiator->groups, group->hash, group);
    group->next_spare = negotiator->spare_groups;
    negotiator->spare_groups = group;
}

/* All members, in the order of completion; the first is noted already. */
static tutti_status append_group(
        struct negotiator *negotiator, const struct group *group, tutti_status status)
{
    for (struct entry *e = group->first; e != NULL && status == TUTTI_OK;
            e = e->group_next) {
        if (e != group->first) {
            learn_note(negotiator, e);
        }
        status = append_now(negotiator, e);
    }
    return status;
}

static tutti_status group_member_ready(
        struct negotiator *negotiator, struct entry *entry, const struct meta *meta)
{
    const uint32_t early = has_bug(negotiator, BUG_GROUP_PARTIAL) ? 1 : 0;
    struct group *group = group_get(negotiator, meta->group);
    tutti_status status = TUTTI_OK;

    if (group == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group");
    }
    if (group->last != NULL) {
        group->last->group_next = entry;
    } else {
        group->first = entry;
    }
    group->last = entry;
    entry->group_next = NULL;
    entry->decided = true;
    group->ready++;
    if (group->ready + early < meta->group_size) {
        observe(negotiator, TRANSITION_GROUP_WAITS);
        return TUTTI_OK;
    }
    observe(negotiator, TRANSITION_GROUP_COMPLETE);
    if (!learn_launch(negotiator, group->first, &status)) {
        status = append_group(negotiator, group, status);
    }
    group_put(negotiator, group);
    return status;
}

tutti_status append_ready(struct negotiator *negotiator, struct entry *entry)
{
    const struct meta *meta = round_meta(entry);

    tutti_status status = TUTTI_OK;

    if (meta->group != 0) {
        return group_member_ready(negotiator, entry, meta);
    }
    if (learn_launch(negotiator, entry, &status) || status != TUTTI_OK) {
        return status;
    }
    return append_now(negotiator, entry);
}

static tutti_status remember_failed_group(struct negotiator *negotiator, uint64_t hash)
{
    struct failed_group *groups = negotiator->failed_groups;

    if (groups == NULL) {
        groups = mem_calloc(FAILED_GROUPS_MAX, sizeof *groups);
        if (groups == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a failed group");
        }
        negotiator->failed_groups = groups;
    }
    groups[negotiator->failed_group_count++ % FAILED_GROUPS_MAX] =
            (struct failed_group){ .hash = hash, .failed_at = negotiator->appended };
    negotiator->group_failed_at = negotiator->appended;
    return TUTTI_OK;
}

/* True when a group failed after its sender had read `seen` entries of the log. */
bool group_is_void(const struct negotiator *negotiator, uint64_t hash, uint64_t seen)
{
    const size_t count = size_min(negotiator->failed_group_count, FAILED_GROUPS_MAX);

    if (hash == 0 || seen >= negotiator->group_failed_at ||
            has_bug(negotiator, BUG_GROUP_LATE_NAME)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (negotiator->failed_groups[i].hash == hash &&
                negotiator->failed_groups[i].failed_at > seen) {
            return true;
        }
    }
    return false;
}

/* What is here of the group is taken out when the entry is applied, with this turn. */
static tutti_status fail_group(struct negotiator *negotiator, uint64_t hash,
        tutti_status reason, int rank, const char *text)
{
    struct wire_writer *out;

    if (has_bug(negotiator, BUG_GROUP_ALONE)) {
        return TUTTI_OK;
    }
    observe(negotiator, TRANSITION_GROUP_FAILED);
    run_close(negotiator);
    out = message_open(negotiator);
    wire_put_u8(out, ENTRY_GROUP_FAILED);
    wire_put_u64(out, hash);
    failure_put(out, reason, rank, text);
    negotiator->appended++;
    for (struct entry *e = negotiator->numbered.first; e != NULL; e = e->newer) {
        if (e->meta.group == hash && !e->retired &&
                !has_bug(negotiator, BUG_GROUP_KEEP_NUMBERS)) {
            retire(negotiator, e);
        }
    }
    return remember_failed_group(negotiator, hash);
}

/* The tensor fails, and so do all groups that some rank submitted it in. */
tutti_status append_failure(struct negotiator *negotiator, struct entry *entry,
        tutti_status reason, int rank, const char *text)
{
    tutti_status status = TUTTI_OK;
    uint64_t failed = 0;

    append_failed(negotiator, entry, reason, rank, text);
    if (entry->arrived > 0 && entry->meta.group != 0) {
        failed = entry->meta.group;
        status = fail_group(negotiator, failed, reason, rank, text);
    }
    for (const struct variant *v = entry->variants; v != NULL && status == TUTTI_OK;
            v = v->next) {
        if (v->meta.group != 0 && v->meta.group != failed) {
            failed = v->meta.group;
            status = fail_group(negotiator, failed, reason, rank, text);
        }
    }
    return status;
}

void group_drop(struct negotiator *negotiator, uint64_t hash)
{
    struct group *group = map_find(&negotiator->groups, hash, group_matches, &hash);

    if (group != NULL) {
        group_put(negotiator, group);
    }
}
