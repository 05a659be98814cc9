/*
 * The coordinator counts which members have announced a tensor, and with which
 * metadata.
 */
#include "agree/tally.h"

#include "agree/groups.h"
#include "agree/joined.h"
#include "agree/names.h"
#include "agree/protocol.h"
#include "base/mem.h"

static tutti_status twice(
        const struct negotiator *negotiator, const char *name, int rank)
{
    return error_set(TUTTI_ERR_PROTOCOL, "rank %d announced \"%s\" twice",
            world_rank(negotiator, rank), name);
}

static tutti_status collect(
        struct negotiator *negotiator, struct tensor_state *tensor, int rank)
{
    if (coordinator_heard(tensor, rank)) {
        return twice(negotiator, tensor->name, rank);
    }
    bitset_add(&tensor->round.parts->who, rank);
    tensor->tally->arrived++;
    return TUTTI_OK;
}

static bool is_any_heard(const struct tensor_state *tensor, int first, int last)
{
    if (tensor->round.parts != NULL &&
            bitset_has_any(&tensor->round.parts->who, first, last)) {
        return true;
    }
    for (const struct variant *v = tensor->tally->variants; v != NULL; v = v->next) {
        if (bitset_has_any(&v->ranks, first, last)) {
            return true;
        }
    }
    return false;
}

/* Members `first` to `last` announced it: as the variant, or (NULL) by number. */
static tutti_status collect_range(struct negotiator *negotiator,
        struct tensor_state *tensor, struct variant *variant, int first, int last)
{
    if (is_any_heard(tensor, first, last)) {
        while (!coordinator_heard(tensor, first)) {
            first++;
        }
        return twice(negotiator, tensor->name, first);
    }
    bitset_add_range(
            variant != NULL ? &variant->ranks : &tensor->round.parts->who, first, last);
    *(variant != NULL ? &tensor->tally->named : &tensor->tally->arrived) +=
            last - first + 1;
    return TUTTI_OK;
}

/* All members at and below a child. */
static tutti_status collect_child(struct negotiator *negotiator,
        struct tensor_state *tensor, struct variant *variant, int child)
{
    const struct tree *tree = &negotiator->tree;
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < tree->range_count && status == TUTTI_OK; i++) {
        const struct tree_range *range = &tree->below[i];

        if (range->child == child) {
            status = collect_range(
                    negotiator, tensor, variant, range->first, range->last);
        }
    }
    return status;
}

/* All members at and below `top`. */
static tutti_status collect_below(struct negotiator *negotiator,
        struct tensor_state *tensor, struct variant *variant, int top)
{
    const struct tree *tree = &negotiator->tree;
    const int child = tree_child_index(tree, top);
    tutti_status status = TUTTI_OK;
    int count;
    int *below;

    if (child >= 0) {
        return collect_child(negotiator, tensor, variant, child);
    }
    below = mem_alloc((size_t)tree->size * sizeof *below);
    if (below == NULL) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    count = tree_shape_below(tree->shape, top, below);
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        status = collect_range(negotiator, tensor, variant, below[i], below[i]);
    }
    mem_free(below);
    return status;
}

tutti_status coordinator_number(struct negotiator *negotiator,
        struct tensor_state *tensor, uint8_t tag, int rank)
{
    const struct tree *tree = &negotiator->tree;
    tutti_status status = TUTTI_OK;

    tensor_activate(negotiator, tensor);
    tensor->round.collected = true;
    if (!tensor_parts_begin(tensor, tree->size)) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    if (tag == ITEM_NUMBERS) {
        status = collect(negotiator, tensor, rank);
    } else {
        status = collect_below(negotiator, tensor, NULL, rank);
    }
    return status;
}

/* Only the spot may differ. */
static bool is_variant(const struct variant *variant, const struct meta *meta)
{
    return meta_equal_elsewhere(&variant->meta, meta) &&
            variant->meta.step == meta->step;
}

static struct variant *variant_get(struct negotiator *negotiator,
        struct tensor_state *tensor, const struct meta *meta, uint64_t seen)
{
    struct variant **at = &tensor->tally->variants;
    struct variant *variant;

    while (*at != NULL && !is_variant(*at, meta)) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        (*at)->seen = seen < (*at)->seen ? seen : (*at)->seen;
        if (!meta_equal(&(*at)->meta, meta)) {
            (*at)->meta.spot = META_SPOT_MIXED;
        }
        return *at;
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
    variant->seen = seen;
    *at = variant;
    return variant;
}

static tutti_status collect_variant(struct negotiator *negotiator,
        struct tensor_state *tensor, int rank, const struct meta *meta, uint64_t seen)
{
    struct variant *variant;

    if (coordinator_heard(tensor, rank)) {
        return twice(negotiator, tensor->name, rank);
    }
    variant = variant_get(negotiator, tensor, meta, seen);
    if (variant == NULL) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    bitset_add(&variant->ranks, rank);
    tensor->tally->named++;
    return TUTTI_OK;
}

/* A name came with what its number stands for: only the row counts, or the spot, are new. */
static tutti_status collect_row_counts(
        struct negotiator *negotiator, struct tensor_state *tensor, int rank)
{
    if (!tensor_parts_begin(tensor, negotiator->config.size)) {
        return no_memory_for(tensor->name, tensor->name_len);
    }
    return collect(negotiator, tensor, rank);
}

/*
 * Kept even if the announcement turns out to be void: the rank remembers what it gave last,
 * and refers to it when it announces by number.
 */
static tutti_status keep_row_counts(struct negotiator *negotiator,
        struct tensor_state *tensor, int rank, const struct meta *meta)
{
    const int size = negotiator->config.size;
    bool kept;

    if (!row_counts_are_valid(tensor->collective, meta, rank, size)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d gives %d row counts for %s \"%s\"",
                world_rank(negotiator, rank), meta->row_counts,
                meta_collective_name(tensor->collective), tensor->name);
    }
    if (tensor->tally->row_counts == NULL && meta->row_counts > 0) {
        tensor->tally->row_counts =
                mem_calloc((size_t)size, sizeof *tensor->tally->row_counts);
        if (tensor->tally->row_counts == NULL) {
            return no_memory_for(tensor->name, tensor->name_len);
        }
        negotiator->names.row_count_bytes +=
                (size_t)size * sizeof *tensor->tally->row_counts;
    }
    if (tensor->tally->row_counts == NULL) {
        return TUTTI_OK;
    }
    tensor->tally->row_counts_match = false;
    negotiator->names.row_count_bytes -=
            row_counts_bytes(tensor->tally->row_counts[rank]);
    kept = row_counts_keep(&tensor->tally->row_counts[rank], meta);
    negotiator->names.row_count_bytes +=
            row_counts_bytes(tensor->tally->row_counts[rank]);
    return kept ? TUTTI_OK : no_memory_for(tensor->name, tensor->name_len);
}

static tutti_status collect_name(struct negotiator *negotiator,
        struct tensor_state *tensor, int rank, const struct meta *meta, uint64_t seen)
{
    tensor_activate(negotiator, tensor);
    tensor->round.collected = true;
    if (tensor_expects_elsewhere(tensor, meta)) {
        tensor->tally->moved = tensor->tally->moved || !tensor_expects(tensor, meta);
        return collect_row_counts(negotiator, tensor, rank);
    }
    return collect_variant(negotiator, tensor, rank, meta, seen);
}

tutti_status coordinator_name(struct negotiator *negotiator, const struct name_ref *ref,
        int rank, const struct meta *meta, uint64_t seen,
        struct tensor_state **collected)
{
    struct leave *leave = leave_of(negotiator, ref->collective);
    bool counts = true;
    struct tensor_state *tensor = tensor_get(negotiator, ref);
    tutti_status status;

    *collected = NULL;
    if (tensor == NULL) {
        return no_memory_for(ref->name, ref->name_len);
    }
    status = keep_row_counts(negotiator, tensor, rank, meta);
    if (status == TUTTI_OK && leave != NULL) {
        status = leave_collect(negotiator, leave, rank, seen, &counts);
    }
    if (status != TUTTI_OK || !counts) {
        return status;
    }
    if (group_is_void(negotiator, meta->group, seen)) {
        tensor_forget_row_counts(negotiator, tensor);
        return TUTTI_OK;
    }
    *collected = tensor;
    return collect_name(negotiator, tensor, rank, meta, seen);
}

tutti_status coordinator_name_below(struct negotiator *negotiator,
        const struct name_ref *ref, int top, const struct meta *meta, uint64_t seen,
        struct tensor_state **collected)
{
    struct tensor_state *tensor = tensor_get(negotiator, ref);
    struct variant *variant = NULL;

    if (tensor != NULL) {
        tensor_activate(negotiator, tensor);
        tensor->round.collected = true;
        variant = variant_get(negotiator, tensor, meta, seen);
    }
    if (variant == NULL) {
        return no_memory_for(ref->name, ref->name_len);
    }
    *collected = tensor;
    return collect_below(negotiator, tensor, variant, top);
}

/*
 * A cancellation belongs to the round that its sender was waiting for when its log had
 * `log_length` entries; once the name was decided after that, it comes too late. It may
 * also come before any announcement of that round, which inner nodes hold back.
 */
tutti_status coordinator_cancel(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length)
{
    struct tensor_state *tensor = tensor_find(negotiator, ref);
    const uint64_t decided_at =
            tensor != NULL ? tensor->tally->decided_at : negotiator->names.forgotten_at;
    const bool stale = (tensor != NULL && tensor->tally->decided) ||
            decided_at > log_length || negotiator->groups.failed_at > log_length;

    if (stale) {
        return TUTTI_OK;
    }
    tensor = tensor_get(negotiator, ref);
    if (tensor == NULL) {
        return no_memory_for(ref->name, ref->name_len);
    }
    tensor_activate(negotiator, tensor);
    tensor->round.collected = true;
    tensor->tally->cancelled_by = rank;
    return TUTTI_OK;
}
