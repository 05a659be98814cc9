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

#include "agree/learn.h"
#include "agree/names.h"

/* An epoch has paid after that many iterations, */
#define PAYING_STEPS 4
/* and, when somebody waited for the timer at its end, this time: 5 % went into that. */
#define PAYING_NS (20 * PLAN_TIMER_WAITED_NS)
/* More failures in a row make it hesitate no longer. */
#define FAILURES_MAX 8

static bool may_plan(const struct negotiator *negotiator)
{
    return negotiator->config.lanes > 1 && negotiator->config.number_capacity > 0 &&
            negotiator->joined.ways[LEAVE_JOIN].count == 0 &&
            negotiator->joined.ways[LEAVE_FINALIZE].count == 0;
}

static bool is_repeatable(const struct tensor_state *tensor)
{
    return tensor->collective < META_SET_CREATE &&
            tensor->collective != TUTTI_BARRIER && tensor->tally->row_counts == NULL;
}

static bool is_candidate(
        const struct negotiator *negotiator, const struct tensor_state *tensor)
{
    return tensor->plan == NULL && !tensor->tally->planning &&
            tensor_is_as_before(tensor) &&
            tensor->tally->history.iteration == negotiator->learner.iterations &&
            tensor->tally->history.iteration_before + 1 ==
            negotiator->learner.iterations &&
            is_repeatable(tensor) &&
            !meta_is_nothing(tensor->collective, &tensor->meta);
}

/* ------------------------------------------------- tensors that are in no plan */

/* True when nothing of the plan was used since a log message, and no rank is still entering it. */
static bool is_replaceable(const struct plan *plan, uint64_t since)
{
    return plan->history.used_at < since && plan->here == 0 && plan_is_entered(plan);
}

/* A lane for a plan: a free one, or that of the plan used longest ago. 0: none. */
static uint32_t find_lane(const struct negotiator *negotiator, uint64_t since)
{
    uint32_t best = 0;

    for (int l = 1; l < negotiator->config.lanes; l++) {
        const struct plan_lane *lane = &negotiator->plans.lanes[l];
        const struct plan *plan = lane->current;

        if (lane->appended) {
            continue;
        }
        if (plan == NULL) {
            return (uint32_t)l;
        }
        if (lane->next == NULL && is_replaceable(plan, since) &&
                (best == 0 ||
                        plan->history.used_at < negotiator->plans.lanes[best]
                                                        .current->history.used_at)) {
            best = (uint32_t)l;
        }
    }
    return best;
}

/* True when a plan of what two iterations had in common begins with this tensor. */
static bool learn_new(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status *status)
{
    size_t count = 0;
    uint32_t lane;

    if (negotiator->learner.passes > 0) {
        negotiator->learner.passes--;
        return false;
    }
    lane = find_lane(negotiator, tensor->tally->history.launched_in);
    if (lane == 0) {
        return false;
    }
    if (!plan_reserve(negotiator, negotiator->names.numbered.count)) {
        *status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan");
        return false;
    }
    for (struct tensor_state *e = negotiator->names.numbered.first; e != NULL;
            e = e->tally->by_use.next) {
        if (is_candidate(negotiator, e)) {
            e->tally->history.wave = 0;
            negotiator->learner.candidates[count++] = (struct candidate){ .tensor = e };
        }
    }
    if (count == 0 || !plan_append_new(negotiator, lane, count, status)) {
        return false;
    }
    negotiator->plans.lanes[lane].appended = true;
    return tensor->tally->planning;
}

static bool launch_unplanned(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status *status)
{
    if (!is_repeatable(tensor)) {
        return false;
    }
    if (tensor->tally->history.iteration == negotiator->learner.iterations) {
        const bool begins = learn_new(negotiator, tensor, status);

        negotiator->learner.iterations++;
        if (begins || *status != TUTTI_OK) {
            return begins;
        }
    }
    learn_note(negotiator, tensor);
    return false;
}

/* ---------------------------------------------------- tensors of a plan, once left */

static int by_wave(const void *a, const void *b)
{
    const struct tensor_state *left = ((const struct candidate *)a)->tensor;
    const struct tensor_state *right = ((const struct candidate *)b)->tensor;

    if (left->tally->history.wave != right->tally->history.wave) {
        return left->tally->history.wave < right->tally->history.wave ? -1 : 1;
    }
    if (left->tally->history.launched_order != right->tally->history.launched_order) {
        return left->tally->history.launched_order <
                        right->tally->history.launched_order
                ? -1
                : 1;
    }
    return 0;
}

/* The order in which the tensors are launched now is that of no waves of before. */
static void forget_waves(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->item_count; i++) {
        plan->items[i]->tally->history.wave = 0;
    }
}

/*
 * What came no earlier than the one that was waited for goes into waves of its own, if some
 * of its wave did. If some of a later wave did the program has another order than it had.
 */
static void split_wave(const struct plan *plan)
{
    const struct tensor_state *late = plan->items[plan->history.late];
    const uint32_t wave = late->tally->history.wave;
    const uint64_t message = late->tally->history.launched_in;
    bool earlier = false;

    for (uint32_t i = 0; i < plan->item_count; i++) {
        const struct tensor_state *e = plan->items[i];

        if (e->tally->history.wave >= PLAN_WAVES_MAX ||
                (e->tally->history.wave > wave &&
                        e->tally->history.launched_in < message)) {
            forget_waves(plan);
            return;
        }
        earlier = earlier ||
                (e->tally->history.wave == wave &&
                        e->tally->history.launched_in < message);
    }
    for (uint32_t i = 0; i < plan->item_count && earlier; i++) {
        struct tensor_state *e = plan->items[i];

        if (e->tally->history.wave > wave ||
                (e->tally->history.wave == wave &&
                        e->tally->history.launched_in >= message)) {
            e->tally->history.wave++;
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
        if (plan->items[i]->tally->history.launched &&
                tensor_is_as_before(plan->items[i])) {
            negotiator->learner.candidates[count++] =
                    (struct candidate){ .tensor = plan->items[i] };
        }
    }
    qsort(negotiator->learner.candidates, count, sizeof *negotiator->learner.candidates,
            by_wave);
    return plan_append_new(negotiator, plan->lane, count, status);
}

static uint64_t hash_of_launched(const struct plan *plan)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < plan->item_count; i++) {
        hash = plan->items[i]->tally->history.launched ? hash_u64(hash, i + 1) : hash;
    }
    return hash;
}

/* An iteration after which the plan is not entered, because it has failed before. */
static bool passes_over(struct plan *plan)
{
    if (plan->history.passes == 0) {
        return false;
    }
    plan->history.passes--;
    return true;
}

/* A whole iteration of the plan is over. True: it is entered again. */
static bool close_whole(
        struct negotiator *negotiator, struct plan *plan, tutti_status *status)
{
    plan->history.launched_hash = 0;
    if (passes_over(plan)) {
        return false;
    }
    if (!plan->history.moved) {
        return plan_append_again(negotiator, plan);
    }
    if (plan->history.moved) {
        split_wave(plan);
    }
    return append_changed(negotiator, plan, status);
}

/* Some tensors of it are missing. True: for the second time, and it goes on without. */
static bool close_partly(
        struct negotiator *negotiator, struct plan *plan, tutti_status *status)
{
    const uint64_t hash = hash_of_launched(plan);

    if (hash != plan->history.launched_hash) {
        plan->history.launched_hash = hash;
        return false;
    }
    if (passes_over(plan)) {
        return false;
    }
    return append_changed(negotiator, plan, status);
}

static void begin_iteration(struct plan *plan)
{
    plan->history.launched = 0;
    plan->history.began_ns = 0;
    for (uint32_t i = 0; i < plan->item_count; i++) {
        plan->items[i]->tally->history.launched = false;
    }
}

static bool launch_planned(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status *status)
{
    struct plan *plan = tensor->plan;
    bool begins = false;

    if (tensor->tally->variants != NULL || plan->state != PLAN_SLOW ||
            negotiator->plans.lanes[plan->lane].appended) {
        /* With other metadata now: its number is retired, and so is the plan. */
        return false;
    }
    if (tensor->tally->history.launched) {
        begins = plan->history.launched == plan->item_count
                ? close_whole(negotiator, plan, status)
                : close_partly(negotiator, plan, status);
        if (begins) {
            negotiator->plans.lanes[plan->lane].appended = true;
            begins = tensor->tally->planning;
        } else {
            begin_iteration(plan);
        }
    }
    if (!begins) {
        learn_note(negotiator, tensor);
    }
    return begins;
}

/* ---------------------------------------------------------------------- all */

/*
 * Notes when it was ready. What a first iteration does only once counts for nothing.
 * Members of a group are ready at once, and whatever they were before they must stay so.
 */
static void note_time(const struct negotiator *negotiator, struct tensor_state *tensor,
        int64_t began_ns)
{
    const int64_t ready_ns = negotiator->now_ns - began_ns;
    const int64_t seen_ns = tensor->round.since_ns - began_ns;
    const bool counts_alone =
            tensor->tally->history.timings < 2 || tensor->meta.group != 0;

    tensor->tally->history.ready_ns =
            counts_alone ? ready_ns : (tensor->tally->history.ready_ns + ready_ns) / 2;
    tensor->tally->history.seen_ns =
            counts_alone ? seen_ns : (tensor->tally->history.seen_ns + seen_ns) / 2;
    tensor->tally->history.timings += tensor->tally->history.timings < 2 ? 1 : 0;
}

static void time_planned(const struct negotiator *negotiator, struct plan *plan,
        struct tensor_state *tensor)
{
    if (plan->history.began_ns == 0) {
        plan->history.began_ns = negotiator->now_ns;
    }
    if (plan->history.began_ns > 0) {
        note_time(negotiator, tensor, plan->history.began_ns);
    }
}

static void time_unplanned(struct negotiator *negotiator, struct tensor_state *tensor)
{
    if (negotiator->learner.timed_iteration != negotiator->learner.iterations) {
        negotiator->learner.timed_iteration = negotiator->learner.iterations;
        negotiator->learner.began_ns = negotiator->now_ns;
    }
    note_time(negotiator, tensor, negotiator->learner.began_ns);
}

void learn_note(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct plan *plan = tensor->plan;

    if (tensor->own.pending) {
        tensor->tally->history.priority = tensor->own.local->priority;
    }

    tensor->tally->history.launched_in = negotiator->log.messages;
    tensor->tally->history.launched_order = ++negotiator->learner.launches;
    if (plan != NULL && !tensor->tally->history.launched && !tensor->tally->planning) {
        tensor->tally->history.launched = true;
        plan->history.launched++;
        plan->history.used_at = negotiator->log.messages;
        time_planned(negotiator, plan, tensor);
    } else if (plan == NULL && is_repeatable(tensor)) {
        tensor->tally->history.iteration_before = tensor->tally->history.iteration;
        tensor->tally->history.iteration = negotiator->learner.iterations;
        time_unplanned(negotiator, tensor);
    }
}

void learn_failed(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct plan *plan = tensor->plan;

    if (!may_plan(negotiator) || !is_repeatable(tensor)) {
        return;
    }
    if (plan == NULL) {
        negotiator->learner.iterations +=
                tensor->tally->history.iteration == negotiator->learner.iterations;
        learn_note(negotiator, tensor);
    } else if (plan->state == PLAN_SLOW &&
            !negotiator->plans.lanes[plan->lane].appended) {
        if (tensor->tally->history.launched) {
            begin_iteration(plan);
        }
        learn_note(negotiator, tensor);
    }
}

bool learn_launch(struct negotiator *negotiator, struct tensor_state *tensor,
        tutti_status *status)
{
    if (!may_plan(negotiator)) {
        return false;
    }
    if (tensor_is_stepped(tensor)) {
        /* As planned it would be refused: that was its turn in the iteration. */
        learn_failed(negotiator, tensor);
        return false;
    }
    return tensor->plan != NULL ? launch_planned(negotiator, tensor, status)
                                : launch_unplanned(negotiator, tensor, status);
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

/* True when an epoch cost more than it gained. One that ends in a leave is no failure. */
static bool has_failed(const struct negotiator *negotiator, const struct plan *plan,
        enum plan_exit why)
{
    if (why == PLAN_EXIT_JOIN || why == PLAN_EXIT_FINALIZE) {
        return false;
    }
    return plan->decided < (uint64_t)PAYING_STEPS * plan->batch_count ||
            (why == PLAN_EXIT_TIMER &&
                    negotiator->now_ns - plan->history.entered_ns < PAYING_NS);
}

void learn_left(
        struct negotiator *negotiator, struct plan *plan, const struct arrival *arrival)
{
    const uint64_t committed = plan->decided % plan->batch_count;
    const bool failed = has_failed(negotiator, plan, arrival->why);

    begin_iteration(plan);
    plan->history.began_ns = -1;
    for (uint64_t b = 0; b < committed; b++) {
        const struct plan_batch *batch = &plan->batches[b];

        for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
            plan->items[i]->tally->history.launched = true;
            plan->items[i]->tally->history.launched_in = 0;
            plan->items[i]->tally->history.launched_order = i;
            plan->history.launched++;
        }
    }
    if (arrival->why == PLAN_EXIT_TIMER) {
        plan->history.moved = true;
        plan->history.late = arrival->item;
    }
    hesitate(&plan->history.failures, &plan->history.passes, failed);
    if (plan->history.is_new) {
        hesitate(&negotiator->learner.failures, &negotiator->learner.passes, failed);
    }
    plan->history.is_new = false;
}
