/*
 * PLAN entries, as the coordinator writes them: the candidates are laid out in batches, wave
 * by wave, without groups of which a batch has but a part; or a plan as it was.
 */
#include <stdlib.h>

#include "agree/learn.h"
#include "agree/protocol.h"
#include "base/mem.h"

/* -------------------------------------------------------------------- layout */

bool plan_reserve(struct negotiator *negotiator, size_t count)
{
    return mem_grow(&negotiator->learner.candidates,
                   &negotiator->learner.candidate_capacity, count,
                   sizeof *negotiator->learner.candidates) &&
            mem_grow(&negotiator->learner.items, &negotiator->learner.item_capacity,
                    count, sizeof *negotiator->learner.items);
}

/* Batches of the candidates from `first` on, which are of one wave; adds to `batches`. */
static bool lay_out_wave(struct negotiator *negotiator,
        const struct planner_limits *limits, size_t first, size_t count,
        size_t *batches)
{
    const struct cost cost = cost_estimate(&negotiator->learner.cost);
    struct layout_item *items = negotiator->learner.items + first;
    size_t more = 0;

    for (size_t i = 0; i < count; i++) {
        const struct tensor_state *tensor =
                negotiator->learner.candidates[first + i].tensor;

        items[i] = (struct layout_item){
            .planned = { .collective = tensor->collective,
                    .meta = tensor->meta,
                    .bytes = meta_agreed_bytes(tensor->collective, &tensor->meta,
                            negotiator->config.size) },
            .ready_ns = tensor->tally->history.ready_ns,
            .seen_ns = tensor->tally->history.seen_ns,
            .priority =
                    negotiator->config.priority ? tensor->tally->history.priority : 0
        };
    }
    if (!layout_plan(&negotiator->learner.layout, limits, &cost, items, count, &more)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        negotiator->learner.candidates[first + i].place = first + i;
        negotiator->learner.candidates[first + i].batch =
                *batches + items[i].planned.batch;
    }
    *batches += more;
    return true;
}

/* Gives each candidate a batch; they are in the order of their waves. */
static bool lay_out(struct negotiator *negotiator, size_t count, size_t *batches)
{
    size_t first = 0;

    *batches = 0;
    while (first < count) {
        const uint32_t wave =
                negotiator->learner.candidates[first].tensor->tally->history.wave;
        size_t end = first;

        while (end < count &&
                negotiator->learner.candidates[end].tensor->tally->history.wave ==
                        wave) {
            end++;
        }
        if (!lay_out_wave(negotiator, &negotiator->config.limits, first, end - first,
                    batches)) {
            return false;
        }
        first = end;
    }
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct candidate *left = a;
    const struct candidate *right = b;

    return left->place < right->place ? -1 : 1;
}

/* Within a batch the order is the one that they were laid out in. */
static int by_batch(const void *a, const void *b)
{
    const struct candidate *left = a;
    const struct candidate *right = b;

    if (left->batch != right->batch) {
        return left->batch < right->batch ? -1 : 1;
    }
    return by_place(a, b);
}

/* Behind the candidates that share the batch of the first; they are sorted by batch. */
static size_t end_of_batch(
        const struct candidate *candidates, size_t first, size_t count)
{
    size_t end = first;

    while (end < count && candidates[end].batch == candidates[first].batch) {
        end++;
    }
    return end;
}

/*
 * A group is launched as a whole or not at all, so all of it must be in one batch, which it
 * shares with no others (agree/planner.h); leaves out those that are not. Returns how many
 * candidates are left, in the order they had.
 */
static size_t leave_out_groups(struct negotiator *negotiator, size_t count)
{
    struct candidate *candidates = negotiator->learner.candidates;
    size_t first = 0;
    size_t end = 0;
    size_t kept = 0;

    qsort(candidates, count, sizeof *candidates, by_batch);
    for (size_t i = 0; i < count; i++) {
        struct tensor_state *tensor = candidates[i].tensor;

        if (i == end) {
            first = end;
            end = end_of_batch(candidates, first, count);
        }
        if (tensor->meta.group == 0 || end - first == tensor->meta.group_size) {
            candidates[kept++] = candidates[i];
        }
        tensor->tally->history.launched = false;
    }
    qsort(candidates, kept, sizeof *candidates, by_place);
    return kept;
}

/* ---------------------------------------------------------------- appending */

static void plan_put(struct negotiator *negotiator, uint32_t lane)
{
    struct wire_writer *out = record_open(negotiator, ENTRY_PLAN);

    wire_put_varint(out, lane);
    /* A leave that was announced by who had not read this is void. */
    negotiator->log.retired_at = negotiator->log.appended;
}

/* Each batch: how many tensors, and their numbers. */
static void batches_put(struct negotiator *negotiator, size_t count, size_t batches)
{
    struct wire_writer *out = &negotiator->outbox.down;
    struct candidate *candidates = negotiator->learner.candidates;
    size_t end = 0;

    qsort(candidates, count, sizeof *candidates, by_batch);
    wire_put_varint(out, batches);
    wire_put_varint(out, count);
    for (size_t i = 0; i < count; i++) {
        if (i == end) {
            end = end_of_batch(candidates, i, count);
            wire_put_varint(out, end - i);
        }
        wire_put_varint(out, candidates[i].tensor->number);
    }
}

bool plan_append_new(struct negotiator *negotiator, uint32_t lane, size_t count,
        tutti_status *status)
{
    size_t batches = 0;

    if (!lay_out(negotiator, count, &batches)) {
        *status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan");
        return false;
    }
    count = leave_out_groups(negotiator, count);
    if (count == 0 || count > PLAN_ITEMS_MAX) {
        return false;
    }
    if (!lay_out(negotiator, count, &batches)) {
        *status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan");
        return false;
    }
    plan_put(negotiator, lane);
    batches_put(negotiator, count, batches);
    for (size_t i = 0; i < count; i++) {
        negotiator->learner.candidates[i].tensor->tally->planning = true;
    }
    return true;
}

bool plan_append_again(struct negotiator *negotiator, const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->item_count; i++) {
        if (!tensor_is_as_before(plan->items[i])) {
            return false;
        }
    }
    plan_put(negotiator, plan->lane);
    wire_put_varint(&negotiator->outbox.down, 0);
    for (uint32_t i = 0; i < plan->item_count; i++) {
        plan->items[i]->tally->planning = true;
    }
    return true;
}
