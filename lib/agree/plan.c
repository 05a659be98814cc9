/*
 * A plan at one rank: submissions, arrivals, what commits, and when it ends.
 */
#include "agree/plan.h"

#include "agree/arrivals.h"
#include "agree/names.h"
#include "agree/plans.h"
#include "base/mem.h"

/* The timer while nobody waits or polls here. */
#define TIMER_NS INT64_C(50000000)
/* It grows with the longest time between two submissions, but not beyond this. */
#define TIMER_MAX_NS INT64_C(1000000000)
#define TIMER_GAPS 4

static struct plan_batch *batch_of(const struct plan *plan, uint64_t index)
{
    return &plan->batches[index % plan->batch_count];
}

/* -------------------------------------------------------------- contributing */

struct arrival plan_own_arrival(
        const struct negotiator *negotiator, const struct plan *plan)
{
    struct arrival arrival = plan->exiting ? plan->wanted : (struct arrival){ 0 };

    arrival.count = plan->cursor;
    arrival.member = negotiator->config.rank;
    arrival.leaves = arrival.why == PLAN_EXIT_JOIN || arrival.why == PLAN_EXIT_FINALIZE;
    return arrival;
}

static tutti_status show_arrival(struct negotiator *negotiator, struct plan *plan)
{
    const struct arrival arrival = plan_own_arrival(negotiator, plan);
    struct action *action;
    tutti_status status;

    if (!sees_members(negotiator)) {
        negotiator->plans.arrivals_dirty = true;
        return TUTTI_OK;
    }
    plan->arrivals[negotiator->config.rank] = arrival;
    if (negotiator->config.direct) {
        if (plan->exiting) {
            direct_put(negotiator, plan, &arrival, NULL);
        }
        return TUTTI_OK; /* arrivals are told one by one */
    }
    status = action_add(negotiator, ACTION_ARRIVAL, -1, NULL, 0);
    if (status != TUTTI_OK) {
        return status;
    }
    action = &negotiator->outbox.actions[negotiator->outbox.action_count - 1];
    action->cell = arrival_cell(plan->lane, plan->epoch);
    action->word = arrival_word(plan->epoch, &arrival);
    action->detail = arrival_detail(&arrival);
    return TUTTI_OK;
}

static void arrive(struct negotiator *negotiator, struct plan *plan)
{
    struct plan_batch *batch = batch_of(plan, plan->cursor);

    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        plan->items[i]->own.contributed = plan->items[i]->own.planned;
    }
    plan->here -= batch->here;
    batch->here = 0;
    plan->cursor++;
    if (negotiator->config.direct) {
        const struct arrival arrival = plan_own_arrival(negotiator, plan);

        direct_put(negotiator, plan, &arrival, batch);
    }
}

static bool batch_is_complete(const struct plan *plan)
{
    const struct plan_batch *batch = batch_of(plan, plan->cursor);

    return batch->here == batch->count;
}

static bool window_has_room(
        const struct negotiator *negotiator, const struct plan *plan)
{
    return plan->cursor < plan->decided + (uint64_t)negotiator->config.window;
}

/*
 * Contributes what it can; true when that was anything. An exit needs no room in the window:
 * others may wait for something that happens only when this rank has joined or finalized.
 */
static bool contribute(struct negotiator *negotiator, struct plan *plan)
{
    const uint64_t before = plan->cursor;

    while (!plan->exiting) {
        if (window_has_room(negotiator, plan) && batch_is_complete(plan)) {
            arrive(negotiator, plan);
        } else if (plan->wanted.why != PLAN_EXIT_NONE) {
            plan->exiting = true;
            return true;
        } else {
            break;
        }
    }
    return plan->cursor != before;
}

/* ------------------------------------------------------------------ deciding */

static bool all_have_arrived(const struct negotiator *negotiator, struct plan *plan)
{
    if (!sees_members(negotiator)) {
        return plan->common.count > plan->decided;
    }
    while (plan->seen < negotiator->config.size &&
            plan->arrivals[plan->seen].count > plan->decided) {
        plan->seen++;
    }
    return plan->seen == negotiator->config.size;
}

static bool ends_here(const struct plan *plan, const struct arrival *arrival)
{
    return arrival->why != PLAN_EXIT_NONE && arrival->count == plan->decided;
}

/* True when somebody is known to have left at the next batch to decide. */
static bool find_exit(const struct negotiator *negotiator, const struct plan *plan,
        struct arrival *found)
{
    const struct arrival own = plan_own_arrival(negotiator, plan);

    *found = own;
    if (ends_here(plan, &own)) {
        return true;
    }
    if (!sees_members(negotiator)) {
        *found = plan->common;
        return ends_here(plan, &plan->common);
    }
    for (int m = 0; m < negotiator->config.size; m++) {
        *found = plan->arrivals[m];
        if (ends_here(plan, found)) {
            return true;
        }
    }
    return false;
}

/*
 * The tensor is ready. Announcements of the next round may be here already, of ranks that
 * have left the plan: they stay.
 */
static tutti_status tensor_commits(struct negotiator *negotiator,
        const struct plan *plan, struct tensor_state *tensor)
{
    struct outcome *outcome = outcome_add(negotiator, tensor);

    steps_take(&tensor->steps, tensor->own.local->meta.step);
    if (outcome == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    outcome->log_message = negotiator->plans.lanes[plan->lane].commits;
    outcome->lane = plan->lane;
    outcome->epoch = plan->epoch;
    outcome->index = plan->decided;
    outcome->joined = NULL;
    tensor_end_submission(negotiator, tensor);
    return TUTTI_OK;
}

static tutti_status commit(struct negotiator *negotiator, struct plan *plan)
{
    const struct plan_batch *batch = batch_of(plan, plan->decided);

    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        struct tensor_state *tensor = plan->items[i];
        tutti_status status;

        if (!tensor->own.pending || !tensor->own.contributed) {
            return error_set(TUTTI_ERR_PROTOCOL,
                    "a planned batch is ready on rank %d, which has not submitted "
                    "\"%s\"",
                    world_rank(negotiator, negotiator->config.rank), tensor->name);
        }
        status = tensor_commits(negotiator, plan, tensor);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    negotiator->stats.planned += batch->count;
    negotiator->plans.lanes[plan->lane].commits++;
    plan->decided++;
    plan->seen = 0;
    plan->history.used_at = negotiator->log.messages;
    if (plan->decided % plan->batch_count == 0) {
        negotiator->stats.planned_steps++;
    }
    return TUTTI_OK;
}

/*
 * A rank that joins or finalizes announces that when it has left all plans, and it cannot
 * leave this one while others have yet to contribute below its exit. They may wait for a
 * tensor in no plan that is ready only after the join or finalize. So a rank with nothing
 * pending in the plan leaves it, too.
 */
static void follow_leave(struct plan *plan)
{
    if (plan->here == 0 && !plan->exiting && plan->common.leaves) {
        plan_want_exit(plan, PLAN_EXIT_FOLLOWED, 0);
    }
}

tutti_status plan_advance(struct negotiator *negotiator, struct plan *plan)
{
    tutti_status status = TUTTI_OK;

    if (plan->state == PLAN_ON) {
        follow_leave(plan);
    }
    while (status == TUTTI_OK && plan->state == PLAN_ON) {
        if (all_have_arrived(negotiator, plan)) {
            status = commit(negotiator, plan);
        } else if (contribute(negotiator, plan)) {
            status = show_arrival(negotiator, plan);
        } else if (find_exit(negotiator, plan, &plan->outcome)) {
            plan->state = PLAN_LEFT;
            negotiator->plans.left = true;
        } else {
            break;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- submitting */

/* Why what was submitted is not what is planned; NONE: it is. */
static enum plan_exit find_difference(const struct tensor_state *tensor)
{
    const struct meta *meta = &tensor->own.local->meta;

    if (!meta_equal(&tensor->meta, meta) || meta->row_counts > 0) {
        return PLAN_EXIT_METADATA;
    }
    return meta->step == steps_next(&tensor->steps) ? PLAN_EXIT_NONE : PLAN_EXIT_STEP;
}

static void count_here(struct negotiator *negotiator, struct plan *plan,
        const struct tensor_state *tensor)
{
    const int64_t gap = negotiator->now_ns - plan->submitted_ns;
    const bool midway = plan->here > 0 || plan->cursor % plan->batch_count != 0;

    if (midway && gap > plan->gap_ns) {
        plan->gap_ns = gap;
    }
    plan->submitted_ns = negotiator->now_ns;
    plan->history.turn++;
    if (plan->history.turn == plan->item_count) {
        plan->history.turn = 0;
    }
    plan->batches[tensor->place.batch].here++;
    plan->here++;
}

void plan_want_exit(struct plan *plan, enum plan_exit why, uint32_t item)
{
    if (plan->wanted.why == PLAN_EXIT_NONE) {
        plan->wanted.why = why;
        plan->wanted.item = item;
    }
}

void plan_count(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct plan *plan = tensor->plan;
    const enum plan_exit difference = find_difference(tensor);

    tensor->own.planned = true;
    tensor->own.contributed = false;
    if (difference == PLAN_EXIT_NONE) {
        count_here(negotiator, plan, tensor);
    } else {
        plan_want_exit(plan, difference, tensor->place.item);
    }
    if (tensor->own.cancel) {
        plan_want_exit(plan, PLAN_EXIT_CANCEL, tensor->place.item);
    }
}

tutti_status plan_submit(struct negotiator *negotiator, struct tensor_state *tensor)
{
    struct plan *plan = tensor->plan;

    plan_count(negotiator, tensor);
    if (plan->batches[tensor->place.batch].here <
                    plan->batches[tensor->place.batch].count &&
            plan->wanted.why == PLAN_EXIT_NONE) {
        return TUTTI_OK; /* as most often: the batch is not whole yet */
    }
    return plan_advance(negotiator, plan);
}

tutti_status plans_exit(struct negotiator *negotiator, enum plan_exit why)
{
    tutti_status status = TUTTI_OK;

    for (int l = 1; l < negotiator->config.lanes && status == TUTTI_OK; l++) {
        struct plan_lane *lane = &negotiator->plans.lanes[l];

        if (lane->next != NULL) {
            plan_want_exit(lane->next, why, 0);
        }
        if (lane->current != NULL && lane->current->state == PLAN_ON) {
            plan_want_exit(lane->current, why, 0);
            status = plan_advance(negotiator, lane->current);
        }
    }
    return status;
}

/* --------------------------------------------------------------------- timer */

/* Something was submitted behind a batch that is not whole. */
static bool is_stuck(const struct plan *plan)
{
    return plan->state == PLAN_ON && !plan->exiting &&
            plan->wanted.why == PLAN_EXIT_NONE && plan->here > 0 &&
            batch_of(plan, plan->cursor)->here < batch_of(plan, plan->cursor)->count;
}

static int64_t timer_ns(const struct negotiator *negotiator, const struct plan *plan)
{
    int64_t timer = PLAN_TIMER_WAITED_NS;

    if (!negotiator->waited) {
        timer = TIMER_GAPS * plan->gap_ns;
        timer = timer < TIMER_NS ? TIMER_NS : timer;
        timer = timer < TIMER_MAX_NS ? timer : TIMER_MAX_NS;
    }
    return timer << plan->timer_shift;
}

static int64_t due_at(const struct negotiator *negotiator, const struct plan *plan)
{
    if (!is_stuck(plan)) {
        return INT64_MAX;
    }
    return negotiator->plans.submitted_ns + timer_ns(negotiator, plan);
}

int64_t plans_due(const struct negotiator *negotiator)
{
    int64_t first = INT64_MAX;
    const struct plan *plan;
    int lane = 0;

    while (negotiator->plans.on > 0 && (plan = plans_next(negotiator, &lane)) != NULL) {
        const int64_t due = due_at(negotiator, plan);

        first = due < first ? due : first;
    }
    return first;
}

static bool plan_is_valid(const struct plan *plan)
{
    uint32_t here = 0;

    for (uint32_t b = 0; b < plan->batch_count; b++) {
        if (plan->batches[b].here > plan->batches[b].count) {
            return false;
        }
        here += plan->batches[b].here;
    }
    for (uint32_t i = 0; i < plan->item_count; i++) {
        const struct tensor_state *tensor = plan->items[i];

        if (tensor->plan != plan || tensor->place.item != i || tensor->number == 0 ||
                (tensor->own.planned && plan->state == PLAN_SLOW)) {
            return false;
        }
    }
    return here == plan->here && plan->decided <= plan->cursor;
}

bool plans_are_valid(const struct negotiator *negotiator)
{
    int on = 0;

    for (int l = 0; l < PLAN_LANES_MAX; l++) {
        const struct plan *plan = negotiator->plans.lanes[l].current;
        const struct plan *next = negotiator->plans.lanes[l].next;

        if ((plan != NULL && !plan_is_valid(plan)) ||
                (next != NULL && (plan == NULL || !plan_is_valid(next)))) {
            return false;
        }
        on += plan != NULL && plan->state != PLAN_SLOW;
        on += next != NULL;
    }
    return on == negotiator->plans.on;
}

static uint32_t first_missing(const struct plan *plan)
{
    const struct plan_batch *batch = batch_of(plan, plan->cursor);

    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        if (!plan->items[i]->own.planned || plan->items[i]->own.contributed) {
            return i;
        }
    }
    return batch->first;
}

tutti_status plans_tick(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;
    struct plan *plan;
    int lane = 0;

    while (status == TUTTI_OK && (plan = plans_next(negotiator, &lane)) != NULL) {
        if (due_at(negotiator, plan) <= negotiator->now_ns) {
            plan_want_exit(plan, PLAN_EXIT_TIMER, first_missing(plan));
            status = plan_advance(negotiator, plan);
        }
    }
    return status;
}
