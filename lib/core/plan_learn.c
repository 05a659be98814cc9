/*
 * What the coordinator makes plans of: tensors that come again and again.
 *
 * Of tensors in no plan, a repeated one closes an iteration. Those that were launched once
 * in it, and in the iteration before, are a plan of their own. So a loss under a new name
 * in every step belongs to none; a scalar that is averaged in each micro step is a plan,
 * and the gradients that come every fourth time are another.
 *
 * Epochs that did not pay, because a rank could not follow, make the coordinator hesitate:
 * it passes over 0, 1, 3, 7 ... iterations before it enters that plan again, or, when it was
 * the plan's first epoch, before it makes a new one.
 *
 * A plan that was left is entered again when all of its tensors were launched and one is
 * about to be launched once more. If the same ones are missing in two iterations it is made
 * anew of the others. If it was left because a tensor waited for another one of its batch,
 * its order is made anew: the order in which its tensors were launched since, and what came
 * later than that tensor goes into batches of its own (a later wave).
 */
#include <stdlib.h>

#include "core/negotiator_parts.h"
#include "core/rows.h"

/* An epoch has paid after that many iterations, */
#define PAYING_STEPS 4
/* and, when somebody waited for the timer at its end, this time: 5 % went into that. */
#define PAYING_NS (20 * PLAN_TIMER_WAITED_NS)
/* More failures in a row make it hesitate no longer. */
#define FAILURES_MAX 8

static bool may_plan(const struct negotiator *negotiator)
{
    return negotiator->config.lanes > 1 && negotiator->config.number_capacity > 0 &&
            negotiator->partings[PARTING_JOIN].count == 0 &&
            negotiator->partings[PARTING_FINALIZE].count == 0;
}

/* Nothing of it is moved; sizes that are unknown may be anything. */
static bool is_nothing(const struct entry *entry)
{
    return rows_apply(entry->collective)
            ? rows_are_none(entry->collective, &entry->meta)
            : entry->meta.count == 0;
}

static bool is_repeatable(const struct entry *entry)
{
    return entry->collective < META_SET_CREATE && entry->collective != TUTTI_BARRIER &&
            entry->claims == NULL;
}

static bool is_candidate(const struct negotiator *negotiator, const struct entry *entry)
{
    return entry->plan == NULL && !entry->planning && entry_is_as_before(entry) &&
            entry->iteration == negotiator->iterations &&
            entry->iteration_before + 1 == negotiator->iterations &&
            is_repeatable(entry) && !is_nothing(entry);
}

/* ------------------------------------------------- tensors that are in no plan */

/* True when nothing of the plan was used since a turn, and no rank is still entering it. */
static bool is_replaceable(const struct plan *plan, uint64_t since)
{
    return plan->used_at < since && plan->here == 0 && plan_is_entered(plan);
}

/* A lane for a plan: a free one, or that of the plan used longest ago. 0: none. */
static uint32_t find_lane(const struct negotiator *negotiator, uint64_t since)
{
    uint32_t best = 0;

    for (int l = 1; l < negotiator->config.lanes; l++) {
        const struct plan_lane *lane = &negotiator->lanes[l];
        const struct plan *plan = lane->current;

        if (lane->appended) {
            continue;
        }
        if (plan == NULL) {
            return (uint32_t)l;
        }
        if (lane->next == NULL && is_replaceable(plan, since) &&
                (best == 0 ||
                        plan->used_at < negotiator->lanes[best].current->used_at)) {
            best = (uint32_t)l;
        }
    }
    return best;
}

/* True when a plan of what two iterations had in common begins with this entry. */
static bool learn_new(
        struct negotiator *negotiator, struct entry *entry, tutti_status *status)
{
    size_t count = 0;
    uint32_t lane;

    if (negotiator->passes > 0) {
        negotiator->passes--;
        return false;
    }
    lane = find_lane(negotiator, entry->launched_turn);
    if (lane == 0) {
        observe(negotiator, TRANSITION_PLAN_NO_LANE);
        return false;
    }
    if (!plan_reserve(negotiator, negotiator->numbered.count)) {
        *status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan");
        return false;
    }
    for (struct entry *e = negotiator->numbered.first; e != NULL; e = e->newer) {
        if (is_candidate(negotiator, e)) {
            e->wave = 0;
            negotiator->candidates[count++] = (struct candidate){ .entry = e };
        }
    }
    if (count == 0 || !plan_append_new(negotiator, lane, count, status)) {
        return false;
    }
    observe(negotiator, TRANSITION_PLAN_LEARNT);
    negotiator->lanes[lane].appended = true;
    return entry->planning;
}

static bool launch_unplanned(
        struct negotiator *negotiator, struct entry *entry, tutti_status *status)
{
    if (!is_repeatable(entry)) {
        return false;
    }
    if (entry->iteration == negotiator->iterations) {
        const bool begins = learn_new(negotiator, entry, status);

        negotiator->iterations++;
        if (begins || *status != TUTTI_OK) {
            return begins;
        }
    }
    learn_note(negotiator, entry);
    return false;
}

/* ---------------------------------------------------- tensors of a plan, once left */

static int by_wave(const void *a, const void *b)
{
    const struct entry *left = ((const struct candidate *)a)->entry;
    const struct entry *right = ((const struct candidate *)b)->entry;

    if (left->wave != right->wave) {
        return left->wave < right->wave ? -1 : 1;
    }
    if (left->launched_order != right->launched_order) {
        return left->launched_order < right->launched_order ? -1 : 1;
    }
    return 0;
}

/* The order in which the tensors are launched now is that of no waves of before. */
static void forget_waves(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->item_count; i++) {
        plan->items[i]->wave = 0;
    }
}

/*
 * What came no earlier than the one that was waited for goes into waves of its own, if some
 * of its wave did. If some of a later wave did the program has another order than it had.
 */
static void split_wave(const struct plan *plan)
{
    const struct entry *late = plan->items[plan->late];
    const uint32_t wave = late->wave;
    const uint64_t turn = late->launched_turn;
    bool earlier = false;

    for (uint32_t i = 0; i < plan->item_count; i++) {
        const struct entry *e = plan->items[i];

        if (e->wave >= PLAN_WAVES_MAX || (e->wave > wave && e->launched_turn < turn)) {
            forget_waves(plan);
            return;
        }
        earlier = earlier || (e->wave == wave && e->launched_turn < turn);
    }
    for (uint32_t i = 0; i < plan->item_count && earlier; i++) {
        struct entry *e = plan->items[i];

        if (e->wave > wave || (e->wave == wave && e->launched_turn >= turn)) {
            e->wave++;
        }
    }
}

/* The plan with the tensors that were launched in this iteration, in an order made anew. */
static bool append_changed(
        struct negotiator *negotiator, struct plan *plan, tutti_status *status)
{
    size_t count = 0;

    if (!plan_reserve(negotiator, plan->item_count)) {
        *status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan");
        return false;
    }
    for (uint32_t i = 0; i < plan->item_count; i++) {
        if (plan->items[i]->launched && entry_is_as_before(plan->items[i])) {
            negotiator->candidates[count++] =
                    (struct candidate){ .entry = plan->items[i] };
        }
    }
    qsort(negotiator->candidates, count, sizeof *negotiator->candidates, by_wave);
    return plan_append_new(negotiator, plan->lane, count, status);
}

static uint64_t hash_of_launched(const struct plan *plan)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < plan->item_count; i++) {
        hash = plan->items[i]->launched ? hash_u64(hash, i + 1) : hash;
    }
    return hash;
}

/* An iteration after which the plan is not entered, because it has failed before. */
static bool passes_over(const struct negotiator *negotiator, struct plan *plan)
{
    if (plan->passes == 0) {
        return false;
    }
    observe(negotiator, TRANSITION_PLAN_PASSED_OVER);
    plan->passes--;
    return true;
}

/* A whole iteration of the plan is over. True: it is entered again. */
static bool close_whole(
        struct negotiator *negotiator, struct plan *plan, tutti_status *status)
{
    plan->launched_hash = 0;
    if (passes_over(negotiator, plan)) {
        return false;
    }
    if (!plan->moved) {
        return plan_append_again(negotiator, plan);
    }
    observe(negotiator, TRANSITION_PLAN_MOVED);
    split_wave(plan);
    return append_changed(negotiator, plan, status);
}

/* Some tensors of it are missing. True: for the second time, and it goes on without. */
static bool close_partly(
        struct negotiator *negotiator, struct plan *plan, tutti_status *status)
{
    const uint64_t hash = hash_of_launched(plan);

    if (hash != plan->launched_hash) {
        plan->launched_hash = hash;
        return false;
    }
    if (passes_over(negotiator, plan)) {
        return false;
    }
    observe(negotiator, TRANSITION_PLAN_SHRINKS);
    return append_changed(negotiator, plan, status);
}

static void begin_iteration(struct plan *plan)
{
    plan->launched = 0;
    plan->began_ns = 0;
    for (uint32_t i = 0; i < plan->item_count; i++) {
        plan->items[i]->launched = false;
    }
}

static bool launch_planned(
        struct negotiator *negotiator, struct entry *entry, tutti_status *status)
{
    struct plan *plan = entry->plan;
    bool begins = false;

    if (entry->variants != NULL || plan->state != PLAN_SLOW ||
            negotiator->lanes[plan->lane].appended) {
        /* With other metadata now: its number is retired, and so is the plan. */
        return false;
    }
    if (entry->launched) {
        begins = plan->launched == plan->item_count
                ? close_whole(negotiator, plan, status)
                : close_partly(negotiator, plan, status);
        if (begins) {
            negotiator->lanes[plan->lane].appended = true;
            begins = entry->planning;
        } else {
            begin_iteration(plan);
        }
    }
    if (!begins) {
        learn_note(negotiator, entry);
    }
    return begins;
}

/* ---------------------------------------------------------------------- all */

/*
 * Notes when it was ready. What a first iteration does only once counts for nothing.
 * Members of a group are ready at once, and whatever they were before they must stay so.
 */
static void note_time(
        const struct negotiator *negotiator, struct entry *entry, int64_t began_ns)
{
    const int64_t ready_ns = negotiator->now_ns - began_ns;
    const int64_t seen_ns = entry->since_ns - began_ns;
    const bool counts_alone = entry->timings < 2 || entry->meta.group != 0;

    entry->ready_ns = counts_alone ? ready_ns : (entry->ready_ns + ready_ns) / 2;
    entry->seen_ns = counts_alone ? seen_ns : (entry->seen_ns + seen_ns) / 2;
    entry->timings += entry->timings < 2 ? 1 : 0;
}

static void time_planned(
        const struct negotiator *negotiator, struct plan *plan, struct entry *entry)
{
    if (plan->began_ns == 0) {
        plan->began_ns = negotiator->now_ns;
    }
    if (plan->began_ns > 0) {
        note_time(negotiator, entry, plan->began_ns);
    }
}

static void time_unplanned(struct negotiator *negotiator, struct entry *entry)
{
    if (negotiator->timed_iteration != negotiator->iterations) {
        negotiator->timed_iteration = negotiator->iterations;
        negotiator->began_ns = negotiator->now_ns;
    }
    note_time(negotiator, entry, negotiator->began_ns);
}

void learn_note(struct negotiator *negotiator, struct entry *entry)
{
    struct plan *plan = entry->plan;

    if (entry->pending) {
        entry->priority = entry->local.priority;
    }

    entry->launched_turn = negotiator->turns;
    entry->launched_order = ++negotiator->launches;
    if (plan != NULL && !entry->launched && !entry->planning) {
        entry->launched = true;
        plan->launched++;
        plan->used_at = negotiator->turns;
        time_planned(negotiator, plan, entry);
    } else if (plan == NULL && is_repeatable(entry)) {
        entry->iteration_before = entry->iteration;
        entry->iteration = negotiator->iterations;
        time_unplanned(negotiator, entry);
    }
}

void learn_failed(struct negotiator *negotiator, struct entry *entry)
{
    struct plan *plan = entry->plan;

    if (!may_plan(negotiator) || !is_repeatable(entry)) {
        return;
    }
    if (plan == NULL) {
        negotiator->iterations += entry->iteration == negotiator->iterations;
        learn_note(negotiator, entry);
    } else if (plan->state == PLAN_SLOW && !negotiator->lanes[plan->lane].appended) {
        if (entry->launched) {
            begin_iteration(plan);
        }
        learn_note(negotiator, entry);
    }
}

bool learn_launch(
        struct negotiator *negotiator, struct entry *entry, tutti_status *status)
{
    if (!may_plan(negotiator)) {
        return false;
    }
    return entry->plan != NULL ? launch_planned(negotiator, entry, status)
                               : launch_unplanned(negotiator, entry, status);
}

/* How often it failed in a row, and the iterations to pass over now: 0, 1, 3 ... */
static void hesitate(int *failures, uint64_t *passes, bool failed)
{
    if (!failed) {
        *failures = 0;
        *passes = 0;
        return;
    }
    *failures += *failures < FAILURES_MAX ? 1 : 0;
    *passes = ((uint64_t)1 << (*failures - 1)) - 1;
}

/* True when an epoch cost more than it gained. One that ends in a parting is no failure. */
static bool has_failed(const struct negotiator *negotiator, const struct plan *plan,
        enum poison poison)
{
    if (poison == POISON_JOIN || poison == POISON_FINALIZE) {
        return false;
    }
    return plan->decided < (uint64_t)PAYING_STEPS * plan->batch_count ||
            (poison == POISON_TIMER &&
                    negotiator->now_ns - plan->entered_ns < PAYING_NS);
}

void learn_left(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark)
{
    const bool whole = plan->decided > 0 && plan->decided % plan->batch_count == 0 &&
            has_bug(negotiator, BUG_PLAN_BOUNDARY);
    const uint64_t committed =
            whole ? plan->batch_count : plan->decided % plan->batch_count;
    const bool failed = has_failed(negotiator, plan, mark->poison);

    begin_iteration(plan);
    plan->began_ns = -1;
    for (uint64_t b = 0; b < committed && !has_bug(negotiator, BUG_PLAN_UNALIGNED);
            b++) {
        const struct plan_batch *batch = &plan->batches[b];

        for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
            plan->items[i]->launched = true;
            plan->items[i]->launched_turn = 0;
            plan->items[i]->launched_order = i;
            plan->launched++;
        }
    }
    if (mark->poison == POISON_TIMER) {
        plan->moved = true;
        plan->late = mark->item;
    }
    hesitate(&plan->failures, &plan->passes, failed);
    if (plan->is_new) {
        hesitate(&negotiator->failures, &negotiator->passes, failed);
    }
    plan->is_new = false;
}
