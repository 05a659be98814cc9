/*
 * The coordinator of a process set: collects announcements, compares them, and decides
 * what is appended to the log.
 */
#include <stdio.h>
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

void coordinator_fini(struct negotiator *negotiator)
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

/* The metadata of a complete round whose members agree. */
static const struct meta *round_meta(const struct entry *entry)
{
    return entry->variants != NULL ? &entry->variants->meta : &entry->meta;
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
}

/* Announcements by this number that arrive from now on are dropped. */
static void retire(struct negotiator *negotiator, struct entry *entry)
{
    run_put(negotiator, ENTRY_FORGET, 0, entry->number);
    entry->retired = true;
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
        if (oldest->since_ns == 0 && !oldest->retired) {
            observe(negotiator, TRANSITION_RETIRE_OLDEST);
            retire(negotiator, oldest);
            return negotiator->next_number++;
        }
    }
    return 0;
}

static tutti_status append_named(struct negotiator *negotiator, struct entry *entry)
{
    const struct meta *meta = round_meta(entry);
    struct wire_writer *out;
    uint64_t number;

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
    meta_put(out, meta);
    wire_put_varint(out, number);
    negotiator->appended++;
    return TUTTI_OK;
}

static tutti_status append_ready(struct negotiator *negotiator, struct entry *entry)
{
    tutti_status status = TUTTI_OK;

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
    for (struct entry *e = group->first; e != NULL && status == TUTTI_OK;
            e = e->group_next) {
        status = append_ready(negotiator, e);
    }
    group_put(negotiator, group);
    return status;
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
static bool group_is_void(
        const struct negotiator *negotiator, uint64_t hash, uint64_t seen)
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
static tutti_status fail_round(struct negotiator *negotiator, struct entry *entry,
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

void coordinator_drop_group(struct negotiator *negotiator, uint64_t hash)
{
    struct group *group = map_find(&negotiator->groups, hash, group_matches, &hash);

    if (group != NULL) {
        group_put(negotiator, group);
    }
}

void coordinator_drop_variants(struct entry *entry, uint64_t hash)
{
    struct variant **at = &entry->variants;

    while (*at != NULL) {
        struct variant *variant = *at;

        if (variant->meta.group != hash) {
            at = &variant->next;
            continue;
        }
        *at = variant->next;
        entry->named -= bitset_count(&variant->ranks);
        meta_fini(&variant->meta);
        bitset_fini(&variant->ranks);
        mem_free(variant);
    }
}

/* ---------------------------------------------------------------- deciding */

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
            "%s \"%s\": %s differs: %s gave %s, %s gave %s%s; give the same on all "
            "ranks "
            "or use different names",
            meta_collective_name(entry->collective), entry->name, what, ranks_a,
            value_a, ranks_b, value_b,
            second->next != NULL ? ", others gave yet others" : "");
    observe(negotiator, TRANSITION_DECIDE_MISMATCH);
    return fail_round(
            negotiator, entry, TUTTI_ERR_MISMATCH, world_rank(negotiator, 0), text);
}

static tutti_status fail_cancelled(struct negotiator *negotiator, struct entry *entry)
{
    const int rank = world_rank(negotiator, entry->cancelled_by);
    char text[ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%s \"%s\" was cancelled by rank %d",
            meta_collective_name(entry->collective), entry->name, rank);
    observe(negotiator, TRANSITION_DECIDE_CANCELLED);
    return fail_round(negotiator, entry, TUTTI_ERR_CANCELLED, rank, text);
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

static tutti_status decide_if_complete(
        struct negotiator *negotiator, struct entry *entry)
{
    const int early = has_bug(negotiator, BUG_DECIDE_EARLY) ? 1 : 0;
    const struct meta *meta;

    if (entry->arrived + entry->named + early < negotiator->config.size ||
            entry->decided) {
        return TUTTI_OK;
    }
    if (round_disagrees(negotiator, entry)) {
        return fail_mismatch(negotiator, entry);
    }
    if (entry->cancelled_by >= 0) {
        return fail_cancelled(negotiator, entry);
    }
    meta = round_meta(entry);
    if (meta->group != 0) {
        return group_member_ready(negotiator, entry, meta);
    }
    return append_ready(negotiator, entry);
}

/* -------------------------------------------------------------- collecting */

static tutti_status twice(
        const struct negotiator *negotiator, const char *name, int rank)
{
    return error_set(TUTTI_ERR_PROTOCOL, "rank %d announced \"%s\" twice",
            world_rank(negotiator, rank), name);
}

bool coordinator_heard(const struct entry *entry, int rank)
{
    if (entry->who.words != NULL && bitset_has(&entry->who, rank)) {
        return true;
    }
    for (const struct variant *v = entry->variants; v != NULL; v = v->next) {
        if (bitset_has(&v->ranks, rank)) {
            return true;
        }
    }
    return false;
}

static tutti_status collect(
        struct negotiator *negotiator, struct entry *entry, int rank)
{
    if (coordinator_heard(entry, rank)) {
        return twice(negotiator, entry->name, rank);
    }
    bitset_add(&entry->who, rank);
    entry->arrived++;
    return TUTTI_OK;
}

/* All members below `top`: in one step when it is a child and nobody used a name. */
static tutti_status collect_below(
        struct negotiator *negotiator, struct entry *entry, int top)
{
    const struct tree *tree = &negotiator->tree;
    const int child = tree_child_index(tree, top);
    tutti_status status = TUTTI_OK;

    if (child >= 0 && entry->variants == NULL &&
            bitset_merge(&entry->who, &tree->subtrees[child])) {
        entry->arrived += bitset_count(&tree->subtrees[child]);
        return TUTTI_OK;
    }
    for (int r = top; r < tree->size && status == TUTTI_OK; r++) {
        if (tree_is_below(tree, r, top)) {
            status = collect(negotiator, entry, r);
        }
    }
    return status;
}

tutti_status coordinator_number(
        struct negotiator *negotiator, struct entry *entry, uint8_t tag, int rank)
{
    const struct tree *tree = &negotiator->tree;
    tutti_status status = TUTTI_OK;

    entry_activate(negotiator, entry);
    if (entry->who.words == NULL && !bitset_init(&entry->who, tree->size)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", entry->name);
    }
    if (tag == ITEM_NUMBERS) {
        observe(negotiator, TRANSITION_COLLECT_NUMBER);
        status = collect(negotiator, entry, rank);
    } else {
        observe(negotiator, TRANSITION_COLLECT_SUBTREE);
        status = collect_below(negotiator, entry, rank);
    }
    return status == TUTTI_OK ? decide_if_complete(negotiator, entry) : status;
}

static struct variant *variant_get(
        struct negotiator *negotiator, struct entry *entry, const struct meta *meta)
{
    struct variant **at = &entry->variants;
    struct variant *variant;

    while (*at != NULL) {
        if (meta_equal(&(*at)->meta, meta)) {
            return *at;
        }
        at = &(*at)->next;
    }
    variant = mem_calloc(1, sizeof *variant);
    if (variant == NULL) {
        return NULL;
    }
    if (!meta_copy(&variant->meta, meta) ||
            !bitset_init(&variant->ranks, negotiator->config.size)) {
        meta_fini(&variant->meta);
        mem_free(variant);
        return NULL;
    }
    observe(negotiator, TRANSITION_COLLECT_VARIANT);
    *at = variant;
    return variant;
}

tutti_status coordinator_name(struct negotiator *negotiator, const struct name_ref *ref,
        int rank, const struct meta *meta, uint64_t seen)
{
    struct variant *variant;
    struct entry *entry;

    if (group_is_void(negotiator, meta->group, seen)) {
        observe(negotiator, TRANSITION_GROUP_VOID);
        return TUTTI_OK;
    }
    entry = entry_get(negotiator, ref->hash, ref->collective, ref->name, ref->name_len);
    if (entry == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for tensor \"%.*s\"",
                (int)ref->name_len, ref->name);
    }
    observe(negotiator, TRANSITION_COLLECT_NAME);
    entry_activate(negotiator, entry);
    if (coordinator_heard(entry, rank) && !has_bug(negotiator, BUG_DOUBLE_COUNT)) {
        return twice(negotiator, entry->name, rank);
    }
    variant = variant_get(negotiator, entry, meta);
    if (variant == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", entry->name);
    }
    bitset_add(&variant->ranks, rank);
    entry->named++;
    return decide_if_complete(negotiator, entry);
}

/*
 * A cancellation belongs to the round that its sender was waiting for when its log had
 * `log_length` entries; once the name was decided after that, it comes too late. It may
 * also come before any announcement of that round, which inner nodes hold back.
 */
tutti_status coordinator_cancel(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length)
{
    struct entry *entry = entry_find(
            negotiator, ref->hash, ref->collective, ref->name, ref->name_len);
    const uint64_t decided_at =
            entry != NULL ? entry->decided_at : negotiator->forgotten_at;
    const bool stale = (entry != NULL && entry->decided) || decided_at > log_length ||
            negotiator->group_failed_at > log_length;

    if (stale && !has_bug(negotiator, BUG_CANCEL_STALE)) {
        observe(negotiator, TRANSITION_CANCEL_STALE);
        return TUTTI_OK;
    }
    entry = entry_get(negotiator, ref->hash, ref->collective, ref->name, ref->name_len);
    if (entry == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for tensor \"%.*s\"",
                (int)ref->name_len, ref->name);
    }
    observe(negotiator, TRANSITION_CANCEL_TAKEN);
    entry_activate(negotiator, entry);
    entry->cancelled_by = rank;
    return TUTTI_OK;
}
