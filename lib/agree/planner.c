/*
 * Fusion: which tensors of a log message share a batch (first fit).
 */
#include "agree/planner.h"

#include "base/mem.h"

/*
 * How many batches a tensor looks back over; bounds the work per tensor. Members of a
 * group stand together in the log and look back over all of it.
 */
#define PLANNER_LOOKBACK 16

struct planner_batch {
    const struct planner_item *first; /* its key */
    size_t bytes; /* of its members */
    bool open; /* others may join */
};

void planner_fini(struct planner *planner)
{
    mem_free(planner->batches);
    *planner = (struct planner){ 0 };
}

/* What only bytes are moved of may differ in everything about elements. */
static bool arithmetic_equal(const struct meta *a, const struct meta *b)
{
    return a->dtype == b->dtype && a->op == b->op && meta_scales_equal(a, b);
}

/* Strict: whatever changes the arithmetic or the route is part of the key. */
static bool keys_equal(const struct planner_item *a, const struct planner_item *b)
{
    return a->collective == b->collective && a->meta.root == b->meta.root &&
            a->meta.group == b->meta.group && a->joined == b->joined &&
            a->meta.space == b->meta.space &&
            (a->meta.form == META_UNKNOWN) == (b->meta.form == META_UNKNOWN) &&
            (!meta_reduces(a->collective) || arithmetic_equal(&a->meta, &b->meta));
}

/* A device copies so fast, and is launched so slowly, that long tensors are fused, too. */
static bool has_own_limit(
        const struct planner_limits *limits, const struct planner_item *item)
{
    return item->meta.space == OP_DEVICE && limits->device_bytes > 0;
}

static size_t batch_limit(
        const struct planner_limits *limits, const struct planner_item *item)
{
    return has_own_limit(limits, item) ? limits->device_bytes : limits->batch_bytes;
}

static size_t tensor_limit(
        const struct planner_limits *limits, const struct planner_item *item)
{
    return has_own_limit(limits, item) ? limits->device_bytes : limits->tensor_bytes;
}

static bool fits(const struct planner_limits *limits, const struct planner_batch *batch,
        const struct planner_item *item)
{
    if (!batch->open || !keys_equal(batch->first, item)) {
        return false;
    }
    return item->meta.group != 0 ||
            batch->bytes + item->bytes <= batch_limit(limits, item);
}

static bool may_fuse(
        const struct planner_limits *limits, const struct planner_item *item)
{
    if (item->meta.group != 0) {
        return true;
    }
    return batch_limit(limits, item) > 1 && item->bytes <= tensor_limit(limits, item) &&
            item->bytes <= batch_limit(limits, item);
}

static size_t find_batch(const struct planner *planner,
        const struct planner_limits *limits, const struct planner_item *item)
{
    const bool grouped = item->meta.group != 0;

    for (size_t b = planner->count; b > 0; b--) {
        const struct planner_batch *batch = &planner->batches[b - 1];

        if (fits(limits, batch, item)) {
            return b - 1;
        }
        if (grouped ? batch->first->meta.group != item->meta.group
                    : planner->count - b + 1 == PLANNER_LOOKBACK) {
            break;
        }
    }
    return planner->count;
}

static bool open_batch(
        struct planner *planner, const struct planner_item *first, bool fusible)
{
    if (!mem_grow(&planner->batches, &planner->capacity, planner->count + 1,
                sizeof *planner->batches)) {
        return false;
    }
    planner->batches[planner->count++] =
            (struct planner_batch){ .first = first, .open = fusible };
    return true;
}

void planner_begin(struct planner *planner)
{
    planner->count = 0;
}

bool planner_add(struct planner *planner, const struct planner_limits *limits,
        struct planner_item *item)
{
    const bool fusible = may_fuse(limits, item);

    item->batch = fusible ? find_batch(planner, limits, item) : planner->count;
    if (item->batch == planner->count && !open_batch(planner, item, fusible)) {
        return false;
    }
    planner->batches[item->batch].bytes += item->bytes;
    return true;
}

bool planner_plan(struct planner *planner, const struct planner_limits *limits,
        struct planner_item *items, size_t count, size_t *batch_count)
{
    planner_begin(planner);
    for (size_t i = 0; i < count; i++) {
        if (!planner_add(planner, limits, &items[i])) {
            return false;
        }
    }
    *batch_count = planner->count;
    return true;
}
