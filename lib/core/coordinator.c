/*
 * The coordinator of a process set: collects what its members announce.
 */
#include "base/mem.h"
#include "core/negotiator_parts.h"

static tutti_status no_memory(const struct entry *entry)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", entry->name);
}

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
        return no_memory(entry);
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

static tutti_status collect_variant(struct negotiator *negotiator, struct entry *entry,
        int rank, const struct meta *meta)
{
    struct variant *variant;

    if (coordinator_heard(entry, rank) && !has_bug(negotiator, BUG_DOUBLE_COUNT)) {
        return twice(negotiator, entry->name, rank);
    }
    variant = variant_get(negotiator, entry, meta);
    if (variant == NULL) {
        return no_memory(entry);
    }
    bitset_add(&variant->ranks, rank);
    entry->named++;
    return TUTTI_OK;
}

/* A name came with what its number stands for: only the claims are new. */
static tutti_status collect_claims(
        struct negotiator *negotiator, struct entry *entry, int rank)
{
    observe(negotiator, TRANSITION_COLLECT_CLAIMS);
    if (entry->who.words == NULL &&
            !bitset_init(&entry->who, negotiator->config.size)) {
        return no_memory(entry);
    }
    return collect(negotiator, entry, rank);
}

/*
 * Whatever becomes of the announcement: the rank remembers what it has claimed last, and
 * refers to it when it announces by number.
 */
static tutti_status keep_claims(struct negotiator *negotiator, struct entry *entry,
        int rank, const struct meta *meta)
{
    const int size = negotiator->config.size;

    if (!claims_count_is_valid(entry->collective, meta, rank, size)) {
        return error_set(TUTTI_ERR_PROTOCOL, "rank %d makes %d claims with %s \"%s\"",
                world_rank(negotiator, rank), meta->claim_count,
                meta_collective_name(entry->collective), entry->name);
    }
    if (entry->claims == NULL && meta->claim_count > 0) {
        entry->claims = mem_calloc((size_t)size, sizeof *entry->claims);
        if (entry->claims == NULL) {
            return no_memory(entry);
        }
    }
    if (entry->claims == NULL) {
        return TUTTI_OK;
    }
    entry->claims_match =
            entry->claims_match && has_bug(negotiator, BUG_CLAIMS_UNCHECKED);
    return claim_keep(&entry->claims[rank], meta) ? TUTTI_OK : no_memory(entry);
}

static tutti_status collect_name(struct negotiator *negotiator, struct entry *entry,
        int rank, const struct meta *meta)
{
    observe(negotiator, TRANSITION_COLLECT_NAME);
    entry_activate(negotiator, entry);
    if (entry->number != 0 && !entry->retired && meta_equal(&entry->meta, meta)) {
        return collect_claims(negotiator, entry, rank);
    }
    return collect_variant(negotiator, entry, rank, meta);
}

tutti_status coordinator_name(struct negotiator *negotiator, const struct name_ref *ref,
        int rank, const struct meta *meta, uint64_t seen)
{
    struct parting *parting = parting_of(negotiator, ref->collective);
    bool counts = true;
    struct entry *entry =
            entry_get(negotiator, ref->hash, ref->collective, ref->name, ref->name_len);
    tutti_status status;

    if (entry == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for tensor \"%.*s\"",
                (int)ref->name_len, ref->name);
    }
    status = keep_claims(negotiator, entry, rank, meta);
    if (status == TUTTI_OK && parting != NULL) {
        status = parting_collect(negotiator, parting, rank, seen, &counts);
    }
    if (status != TUTTI_OK || !counts) {
        return status;
    }
    if (group_is_void(negotiator, meta->group, seen)) {
        observe(negotiator, TRANSITION_GROUP_VOID);
        return TUTTI_OK;
    }
    status = collect_name(negotiator, entry, rank, meta);
    if (status == TUTTI_OK && parting != NULL) {
        status = decide_what_waits(negotiator);
    }
    return status == TUTTI_OK ? decide_if_complete(negotiator, entry) : status;
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
    const bool stale = (entry != NULL &&
                               (entry->decided || entry->planning ||
                                       log_length < entry->void_before)) ||
            decided_at > log_length || negotiator->group_failed_at > log_length;

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
