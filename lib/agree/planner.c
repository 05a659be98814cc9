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
static bool keys_equal(const struct planner_batch *a, const struct planner_batch *b)
{
    return a->collective == b->collective && a->meta->root == b->meta->root &&
            a->meta->group == b->meta->group && a->joined == b->joined &&
            a->meta->space == b->meta->space &&
            (a->meta->form == META_UNKNOWN) == (b->meta->form == META_UNKNOWN) &&
            (!meta_reduces(a->collective) || arithmetic_equal(a->meta, b->meta));
}

/* A device copies so fast, and is launched so slowly, that long tensors are fused, too. */
static bool has_own_limit(
        const struct planner_limits *limits, const struct planner_batch *alone)
{
    return op_memory(alone->meta->space) == OP_DEVICE && limits->device_bytes > 0;
}

static size_t batch_limit(
        const struct planner_limits *limits, const struct planner_batch *alone)
{
    return has_own_limit(limits, alone) ? limits->device_bytes : limits->batch_bytes;
}

static size_t tensor_limit(
        const struct planner_limits *limits, const struct planner_batch *alone)
{
    return has_own_limit(limits, alone) ? limits->device_bytes : limits->tensor_bytes;
}

/* `alone` is a tensor as a batch of its own. */
static bool fits(const struct planner_limits *limits, const struct planner_batch *batch,
        const struct planner_batch *alone)
{
    if (!batch->open || !keys_equal(batch, alone)) {
        return false;
    }
    return alone->meta->group != 0 ||
            batch->bytes + alone->bytes <= batch_limit(limits, alone);
}

static bool may_fuse(
        const struct planner_limits *limits, const struct planner_batch *alone)
{
    if (alone->meta->group != 0) {
        return true;
    }
    return batch_limit(limits, alone) > 1 &&
            alone->bytes <= tensor_limit(limits, alone) &&
            alone->bytes <= batch_limit(limits, alone);
}

static size_t find_batch(const struct planner *planner,
        const struct planner_limits *limits, const struct planner_batch *alone)
{
    const bool grouped = alone->meta->group != 0;

    for (size_t b = planner->count; b > 0; b--) {
        const struct planner_batch *batch = &planner->batches[b - 1];

        if (fits(limits, batch, alone)) {
            return b - 1;
        }
        if (grouped ? batch->meta->group != alone->meta->group
                    : planner->count - b + 1 == PLANNER_LOOKBACK) {
            break;
        }
    }
    return planner->count;
}

void planner_begin(struct planner *planner)
{
    planner->count = 0;
}

size_t planner_add(struct planner *planner, const struct planner_limits *limits,
        int collective, const struct meta *meta, size_t bytes, uint64_t joined)
{
    struct planner_batch alone = {
        .collective = collective, .meta = meta, .joined = joined, .bytes = bytes
    };
    size_t batch = planner->count;

    alone.open = may_fuse(limits, &alone);
    if (alone.open) {
        batch = find_batch(planner, limits, &alone);
    }
    if (batch < planner->count) {
        planner->batches[batch].bytes += bytes;
        return batch;
    }
    if (!mem_grow(&planner->batches, &planner->capacity, planner->count + 1,
                sizeof *planner->batches)) {
        return SIZE_MAX;
    }
    planner->batches[planner->count++] = alone;
    return batch;
}
