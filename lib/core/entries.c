/*
 * The negotiator's table of names.
 *
 * An entry is on exactly one of the lists `active` (a round is running) and, when it has
 * no number, `idle`; numbered entries outside a round are on neither. At the coordinator
 * numbered entries are also on `numbered`, in order of last use. Idle names are kept so
 * that the second use of a name is recognised; only so many of them.
 */
#include "core/entries.h"

#include <string.h>

#include "base/mem.h"

/* Names without a number that are remembered between rounds. */
#define ENTRIES_IDLE_MAX 4096

struct entry_key {
    int collective;
    const char *name;
    size_t name_len;
};

uint64_t request_hash(int collective, const char *name, size_t name_len)
{
    return hash_bytes(hash_u64(0, (uint64_t)collective), name, name_len);
}

static bool entry_matches(const void *value, const void *key)
{
    const struct entry *entry = value;
    const struct entry_key *want = key;

    return entry->collective == want->collective && entry->name_len == want->name_len &&
            memcmp(entry->name, want->name, want->name_len) == 0;
}

static bool number_matches(const void *value, const void *key)
{
    const struct entry *entry = value;
    const uint64_t *number = key;

    return entry->number == *number;
}

static void list_append(struct entry_list *list, struct entry *entry)
{
    entry->next = NULL;
    entry->prev = list->last;
    if (list->last != NULL) {
        list->last->next = entry;
    } else {
        list->first = entry;
    }
    list->last = entry;
    list->count++;
}

static void list_remove(struct entry_list *list, struct entry *entry)
{
    if (entry->prev != NULL) {
        entry->prev->next = entry->next;
    } else {
        list->first = entry->next;
    }
    if (entry->next != NULL) {
        entry->next->prev = entry->prev;
    } else {
        list->last = entry->prev;
    }
    entry->next = NULL;
    entry->prev = NULL;
    list->count--;
}

/* The list by last use, over `newer` and `older`. */

static void numbered_append(struct entry_list *list, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = list->last;
    if (list->last != NULL) {
        list->last->newer = entry;
    } else {
        list->first = entry;
    }
    list->last = entry;
    list->count++;
}

static void numbered_remove(struct entry_list *list, struct entry *entry)
{
    if (entry->older != NULL) {
        entry->older->newer = entry->newer;
    } else {
        list->first = entry->newer;
    }
    if (entry->newer != NULL) {
        entry->newer->older = entry->older;
    } else {
        list->last = entry->older;
    }
    entry->newer = NULL;
    entry->older = NULL;
    list->count--;
}

struct entry *entry_find(const struct negotiator *negotiator, uint64_t hash,
        int collective, const char *name, size_t name_len)
{
    const struct entry_key key = {
        .collective = collective, .name = name, .name_len = name_len
    };

    return map_find(&negotiator->names, hash, entry_matches, &key);
}

struct entry *entry_by_number(const struct negotiator *negotiator, uint64_t number)
{
    return map_find(&negotiator->numbers, hash_u64(0, number), number_matches, &number);
}

static bool hash_matches(const void *value, const void *key)
{
    const struct entry *entry = value;
    const uint64_t *hash = key;

    return entry->hash == *hash;
}

struct entry *entry_by_hash(const struct negotiator *negotiator, uint64_t hash)
{
    return map_find(&negotiator->names, hash, hash_matches, &hash);
}

static struct entry *entry_create(
        uint64_t hash, int collective, const char *name, size_t name_len)
{
    struct entry *entry = mem_calloc(1, sizeof *entry);

    if (entry == NULL) {
        return NULL;
    }
    *entry = (struct entry){ .hash = hash,
        .collective = collective,
        .name = mem_alloc(name_len + 1),
        .name_len = name_len,
        .cancelled_by = -1 };
    if (entry->name == NULL) {
        mem_free(entry);
        return NULL;
    }
    memcpy(entry->name, name, name_len);
    entry->name[name_len] = '\0';
    return entry;
}

static void variants_free(struct entry *entry)
{
    while (entry->variants != NULL) {
        struct variant *variant = entry->variants;

        entry->variants = variant->next;
        meta_fini(&variant->meta);
        bitset_fini(&variant->ranks);
        mem_free(variant);
    }
}

static void claims_free(struct entry *entry, int size)
{
    for (int m = 0; m < size && entry->claims != NULL; m++) {
        claim_fini(&entry->claims[m]);
    }
    mem_free(entry->claims);
    claim_fini(&entry->announced);
}

static void entry_free(struct entry *entry, int size)
{
    variants_free(entry);
    claims_free(entry, size);
    meta_fini(&entry->meta);
    bitset_fini(&entry->who);
    mem_free(entry->name);
    mem_free(entry);
}

struct entry *entry_get(struct negotiator *negotiator, uint64_t hash, int collective,
        const char *name, size_t name_len)
{
    struct entry *entry = entry_find(negotiator, hash, collective, name, name_len);

    if (entry != NULL) {
        return entry;
    }
    entry = entry_create(hash, collective, name, name_len);
    if (entry == NULL) {
        return NULL;
    }
    entry->decided_at = negotiator->forgotten_at;
    if (!map_insert(&negotiator->names, hash, entry)) {
        entry_free(entry, negotiator->config.size);
        return NULL;
    }
    list_append(&negotiator->idle, entry);
    return entry;
}

struct entry *entry_of(struct negotiator *negotiator, const struct request *request)
{
    struct entry_memo *memo = request->memo;
    struct entry *entry;

    if (memo != NULL && memo->freed == negotiator->freed + 1) {
        return memo->entry;
    }
    entry = entry_get(negotiator, request->hash, request->collective, request->name,
            request->name_len);
    if (memo != NULL && entry != NULL) {
        *memo = (struct entry_memo){ .entry = entry, .freed = negotiator->freed + 1 };
    }
    return entry;
}

static void start_clock(struct negotiator *negotiator, struct entry *entry)
{
    /* 0 means "no round", so a clock that stands at 0 counts as 1. */
    entry->since_ns = negotiator->now_ns != 0 ? negotiator->now_ns : 1;
    entry->reported_ns = 0;
    list_append(&negotiator->active, entry);
}

void entry_activate(struct negotiator *negotiator, struct entry *entry)
{
    if (entry->since_ns != 0) {
        return;
    }
    if (entry->number == 0) {
        list_remove(&negotiator->idle, entry);
    }
    start_clock(negotiator, entry);
}

void entry_restart(struct negotiator *negotiator, struct entry *entry)
{
    list_remove(&negotiator->active, entry);
    start_clock(negotiator, entry);
}

static void drop_oldest_idle(struct negotiator *negotiator)
{
    struct entry *oldest = negotiator->idle.first;

    if (oldest->decided_at > negotiator->forgotten_at) {
        negotiator->forgotten_at = oldest->decided_at;
    }
    negotiator->freed++;
    list_remove(&negotiator->idle, oldest);
    (void)map_remove(&negotiator->names, oldest->hash, oldest);
    entry_free(oldest, negotiator->config.size);
}

static void clear_submission(struct entry *entry)
{
    entry->pending = false;
    entry->by_number = false;
    entry->planned = false;
    entry->contributed = false;
    entry->cancel = false;
    entry->local = (struct request){ 0 };
}

static bool is_unheard(const struct entry *entry)
{
    return entry->variants == NULL && !entry->split && entry->cancelled_by < 0 &&
            (entry->who.words == NULL || bitset_count(&entry->who) == 0);
}

void entry_end_submission(struct negotiator *negotiator, struct entry *entry)
{
    clear_submission(entry);
    if (is_unheard(entry)) {
        entry_end_round(negotiator, entry);
    }
}

/* What was announced in the round, and what was made of it. */
static void clear_round(struct entry *entry)
{
    variants_free(entry);
    if (entry->who.words != NULL) {
        bitset_clear(&entry->who);
    }
    entry->split = false;
    entry->arrived = 0;
    entry->named = 0;
    entry->cancelled_by = -1;
    entry->decided = false;
    entry->group_next = NULL;
}

void entry_void_round(struct negotiator *negotiator, struct entry *entry)
{
    if (!entry->pending) {
        entry_end_round(negotiator, entry);
        return;
    }
    clear_round(entry);
    entry->by_number = false;
}

void entry_end_round(struct negotiator *negotiator, struct entry *entry)
{
    if (entry->since_ns == 0) {
        return;
    }
    clear_round(entry);
    clear_submission(entry);
    entry->since_ns = 0;
    entry->reported_ns = 0;
    list_remove(&negotiator->active, entry);
    if (entry->number == 0) {
        list_append(&negotiator->idle, entry);
        if (negotiator->idle.count > ENTRIES_IDLE_MAX) {
            drop_oldest_idle(negotiator);
        }
    } else if (negotiator->tree.parents[negotiator->tree.rank] < 0) {
        numbered_remove(&negotiator->numbered, entry);
        numbered_append(&negotiator->numbered, entry);
    }
}

bool entry_set_number(struct negotiator *negotiator, struct entry *entry,
        uint64_t number, const struct meta *meta)
{
    struct meta copy;

    if (!meta_copy(&copy, meta)) {
        return false;
    }
    if (!map_insert(&negotiator->numbers, hash_u64(0, number), entry)) {
        meta_fini(&copy);
        return false;
    }
    if (entry->since_ns == 0) {
        list_remove(&negotiator->idle, entry);
    }
    meta_fini(&entry->meta);
    entry->meta = copy;
    entry->number = number;
    if (negotiator->tree.parents[negotiator->tree.rank] < 0) {
        numbered_append(&negotiator->numbered, entry);
    }
    return true;
}

void entry_clear_number(struct negotiator *negotiator, struct entry *entry)
{
    (void)map_remove(&negotiator->numbers, hash_u64(0, entry->number), entry);
    if (negotiator->tree.parents[negotiator->tree.rank] < 0) {
        numbered_remove(&negotiator->numbered, entry);
    }
    entry->number = 0;
    meta_fini(&entry->meta);
    if (entry->since_ns == 0) {
        list_append(&negotiator->idle, entry);
        if (negotiator->idle.count > ENTRIES_IDLE_MAX) {
            drop_oldest_idle(negotiator);
        }
    }
}

void entries_fini(struct negotiator *negotiator)
{
    size_t position = 0;
    struct entry *entry;

    while ((entry = map_next(&negotiator->names, &position)) != NULL) {
        entry_free(entry, negotiator->config.size);
    }
    map_fini(&negotiator->names);
    map_fini(&negotiator->numbers);
}
