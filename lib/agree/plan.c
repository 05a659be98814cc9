/*
 * A plan at one rank: submissions, arrivals, what commits, and when it ends.
 */
#include "agree/plan.h"

#include "agree/names.h"
#include "agree/plans.h"
#include "agree/protocol.h"
#include "base/mem.h"

/* The timer while nobody waits or polls here. */
#define TIMER_NS INT64_C(50000000)
/* It grows with the longest time between two submissions, but not beyond this. */
#define TIMER_MAX_NS INT64_C(1000000000)
#define TIMER_GAPS 4
/* Beside the exit of an arrival in a message. */
#define ARRIVAL_LEAVES 0x80

/** An arrival in a message. */
struct arrival_message {
    uint32_t lane;
    uint64_t epoch;
    struct plan *plan; /* that it is about; NULL: there is none of that epoch */
    struct arrival arrival;
};

static struct plan_batch *batch_of(const struct plan *plan, uint64_t index)
{
    return &plan->batches[index % plan->batch_count];
}

/* ------------------------------------------------------ arrivals in messages */

static void arrival_put(
        struct wire_writer *out, const struct plan *plan, const struct arrival *arrival)
{
    wire_put_varint(out, plan->lane);
    wire_put_varint(out, plan->epoch);
    wire_put_varint(out, arrival->count);
    wire_put_u8(out, (uint8_t)(arrival->why | (arrival->leaves ? ARRIVAL_LEAVES : 0)));
    wire_put_varint(out, arrival->item);
    wire_put_varint(out, (uint64_t)arrival->member);
}

/* False: malformed. */
static bool arrival_get(const struct negotiator *negotiator, struct wire_reader *in,
        struct arrival_message *message)
{
    const uint64_t number = wire_get_varint(in);
    const uint64_t epoch = wire_get_varint(in);
    const uint64_t count = wire_get_varint(in);
    const uint8_t reason = wire_get_u8(in);
    const uint8_t why = reason & (ARRIVAL_LEAVES - 1);
    const uint64_t item = wire_get_varint(in);
    const uint64_t member = wire_get_varint(in);
    const struct plan_lane *lane;
    struct plan *plan;

    if (!wire_ok(in) || number == 0 || number >= (uint64_t)negotiator->config.lanes ||
            why >= PLAN_EXIT_COUNT || item >= PLAN_ITEMS_MAX ||
            member >= (uint64_t)negotiator->config.size) {
        return false;
    }
    lane = &negotiator->plans.lanes[number];
    plan = lane->next != NULL && lane->next->epoch == epoch ? lane->next
                                                            : lane->current;
    if (plan != NULL && plan->epoch != epoch) {
        plan = NULL;
    }
    *message = (struct arrival_message){ .lane = (uint32_t)number,
        .epoch = epoch,
        .plan = plan,
        .arrival = { .count = count,
                .why = (enum plan_exit)why,
                .item = (uint32_t)item,
                .member = (int)member,
                .leaves = (reason & ARRIVAL_LEAVES) != 0 } };
    return epoch <= lane->epoch + (negotiator->config.direct ? 1 : 0) &&
            (plan == NULL || item < plan->item_count);
}

/* Tells all members what this rank has contributed: it arrived at `batch`, or an exit (NULL). */
static void direct_put(struct negotiator *negotiator, const struct plan *plan,
        const struct arrival *arrival, const struct plan_batch *batch)
{
    struct wire_writer *out = &negotiator->outbox.direct;

    if (out->len == 0) {
        wire_put_u8(out, KIND_ARRIVALS);
    }
    arrival_put(out, plan, arrival);
    if (batch != NULL && negotiator->config.carry != NULL) {
        negotiator->config.carry(negotiator->config.user, plan, batch, out);
    } else {
        wire_put_varint(out, 0);
    }
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

/* --------------------------------------------------- arrivals to every member */

/*
 * Straight to every member, in sets of a few members that do not share memory: one
 * message in place of the way up the tree and down again.
 *
 * Each contribution is told once, in order, so an arrival only grows. The operands of a small
 * batch come with the arrival, as bytes that mean nothing here (negotiator_config.carry).
 * A member may have read a PLAN entry before this rank has: what it tells of that epoch is
 * kept until this rank reads it, too. It cannot be two epochs ahead, because a lane gets its
 * next PLAN entry when all have entered the last epoch.
 */

static struct early_arrival *early_of(
        const struct negotiator *negotiator, uint32_t lane, int member)
{
    return &negotiator->plans.early[(int)lane * negotiator->config.size + member];
}

static tutti_status direct_flush(struct negotiator *negotiator)
{
    struct wire_writer *out = &negotiator->outbox.direct;
    tutti_status status = TUTTI_OK;

    if (out->failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
    }
    for (int m = 0; m < negotiator->config.size && out->len > 0 && status == TUTTI_OK;
            m++) {
        if (m != negotiator->config.rank) {
            status = action_add(negotiator, ACTION_SEND, m, out->data, out->len);
        }
    }
    wire_writer_reset(out);
    return status;
}

/* A contribution is the next one of its member: counts grow, and an exit is the last. */
static bool follows(const struct arrival *arrival, const struct arrival *known)
{
    return known->why == PLAN_EXIT_NONE && arrival->count >= known->count;
}

static tutti_status take(
        struct negotiator *negotiator, int from, const struct arrival_message *message)
{
    const struct arrival *arrival = &message->arrival;
    struct plan *plan = message->plan;

    if (plan == NULL && message->epoch > negotiator->plans.lanes[message->lane].epoch) {
        struct early_arrival *early = early_of(negotiator, message->lane, from);

        *early = (struct early_arrival){ .epoch = message->epoch, .arrival = *arrival };
        return TUTTI_OK;
    }
    if (plan == NULL) {
        return TUTTI_OK;
    }
    if (!follows(arrival, &plan->arrivals[from]) || arrival->member != from) {
        return malformed(negotiator, "arrival", from);
    }
    plan->arrivals[from] = *arrival;
    plan->common.leaves = plan->common.leaves || arrival->leaves;
    return plan_advance(negotiator, plan);
}

/* Operands of an epoch that is over are dropped. */
static tutti_status keep_operands(struct negotiator *negotiator, int from,
        const struct arrival_message *message, struct wire_reader *in)
{
    const uint64_t len = wire_get_varint(in);
    const uint8_t *bytes = len <= wire_left(in) ? wire_get_bytes(in, len) : NULL;

    if (!wire_ok(in) || (len > 0 && (bytes == NULL || message->arrival.count == 0))) {
        return malformed(negotiator, "arrival", from);
    }
    if (len == 0 || negotiator->config.keep == NULL ||
            (message->plan == NULL &&
                    message->epoch <= negotiator->plans.lanes[message->lane].epoch)) {
        return TUTTI_OK;
    }
    return negotiator->config.keep(negotiator->config.user,
            &(struct carried_key){ .lane = message->lane,
                    .epoch = message->epoch,
                    .index = message->arrival.count - 1,
                    .member = from },
            bytes, len);
}

tutti_status direct_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    while (wire_left(in) > 0) {
        struct arrival_message message;
        tutti_status status;

        if (!arrival_get(negotiator, in, &message)) {
            return malformed(negotiator, "arrival", from);
        }
        status = keep_operands(negotiator, from, &message, in);
        if (status == TUTTI_OK) {
            status = take(negotiator, from, &message);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

void direct_begin_epoch(struct negotiator *negotiator, struct plan *plan)
{
    for (int m = 0; m < negotiator->config.size; m++) {
        const struct early_arrival *early = early_of(negotiator, plan->lane, m);

        if (early->epoch == plan->epoch && early->arrival.item < plan->item_count) {
            plan->arrivals[m] = early->arrival;
            plan->common.leaves = plan->common.leaves || early->arrival.leaves;
        }
    }
}

/* ------------------------------------------------- arrivals along the tree */

/*
 * Messages along the tree, in sets whose members do not share memory: each node
 * tells its parent how far all of its subtree has come, and the coordinator tells all.
 *
 * Messages of former epochs are under way when the next one begins, and are ignored.
 */

/* How far this rank and all below it have come. */
static struct arrival subtree_arrival(
        const struct negotiator *negotiator, const struct plan *plan)
{
    struct arrival least = plan_own_arrival(negotiator, plan);
    bool leaves = least.leaves;

    for (int c = 0; c < negotiator->tree.child_count; c++) {
        const struct arrival *arrival = &plan->arrivals[c];

        if (arrival->count < least.count ||
                (arrival->count == least.count && least.why == PLAN_EXIT_NONE)) {
            least = *arrival;
        }
        leaves = leaves || arrival->leaves;
    }
    least.leaves = leaves;
    return least;
}

static bool is_news(const struct arrival *arrival, const struct arrival *told)
{
    return arrival->count != told->count || arrival->why != told->why ||
            arrival->leaves != told->leaves;
}

tutti_status arrivals_receive_up(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    struct arrival_message message;

    if (!arrival_get(negotiator, in, &message)) {
        return malformed(negotiator, "arrival", from);
    }
    if (message.plan != NULL) {
        message.plan->arrivals[tree_child_index(&negotiator->tree, from)] =
                message.arrival;
        negotiator->plans.arrivals_dirty = true;
    }
    return TUTTI_OK;
}

tutti_status arrivals_receive_down(
        struct negotiator *negotiator, int from, struct wire_reader *in)
{
    tutti_status status = forward_down(negotiator, in->data, in->len);

    if (status != TUTTI_OK) {
        return status;
    }
    while (wire_left(in) > 0) {
        struct arrival_message message;

        if (!arrival_get(negotiator, in, &message)) {
            return malformed(negotiator, "arrival", from);
        }
        if (message.plan == NULL) {
            continue;
        }
        message.plan->common = message.arrival;
        status = plan_advance(negotiator, message.plan);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static void tell_parent(struct negotiator *negotiator, struct plan *plan)
{
    const struct arrival arrival = subtree_arrival(negotiator, plan);
    struct wire_writer *out;

    if (is_news(&arrival, &plan->told)) {
        out = record_open(negotiator, ITEM_ARRIVAL);
        arrival_put(out, plan, &arrival);
        plan->told = arrival;
    }
}

/* Adds to a message for all what is new of a plan. */
static void tell_all(
        const struct negotiator *negotiator, struct plan *plan, struct wire_writer *out)
{
    const struct arrival arrival = subtree_arrival(negotiator, plan);

    if (!is_news(&arrival, &plan->common)) {
        return;
    }
    if (out->len == 0) {
        wire_put_u8(out, KIND_ALL_ARRIVED);
    }
    arrival_put(out, plan, &arrival);
    plan->common = arrival;
}

/* The coordinator tells what all have reached, until that allows nothing new. */
static tutti_status flush_down(struct negotiator *negotiator)
{
    struct wire_writer out = { .data = NULL };
    struct plan *plan;
    tutti_status status;
    int lane = 0;

    while ((plan = plans_next(negotiator, &lane)) != NULL) {
        tell_all(negotiator, plan, &out);
    }
    status = message_send(negotiator, -1, &out);
    lane = 0;
    while (status == TUTTI_OK && (plan = plans_next(negotiator, &lane)) != NULL) {
        status = plan_advance(negotiator, plan);
    }
    return status;
}

static void flush_up(struct negotiator *negotiator)
{
    struct plan *plan;
    int lane = 0;

    while ((plan = plans_next(negotiator, &lane)) != NULL) {
        tell_parent(negotiator, plan);
    }
}

tutti_status arrivals_flush(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    while (negotiator->plans.arrivals_dirty && status == TUTTI_OK) {
        negotiator->plans.arrivals_dirty = false;
        if (is_coordinator(negotiator)) {
            status = flush_down(negotiator);
        } else {
            flush_up(negotiator);
        }
    }
    return status == TUTTI_OK ? direct_flush(negotiator) : status;
}

tutti_status negotiator_arrival(struct negotiator *negotiator, uint32_t lane,
        int member, uint64_t word, uint64_t detail)
{
    struct plan *plan = negotiator->plans.lanes[lane].current;
    struct arrival *arrival = &plan->arrivals[member];
    arrival->word = word;
    if (word >> ARRIVAL_EPOCH_SHIFT != (plan->epoch & ARRIVAL_EPOCH_MASK)) {
        return TUTTI_OK;
    }
    arrival->count = word >> 1 & ARRIVAL_COUNT_MASK;
    if ((word & 1) != 0) {
        if (detail >> 32 == PLAN_EXIT_NONE || detail >> 32 >= PLAN_EXIT_COUNT ||
                (uint32_t)detail >= plan->item_count) {
            return malformed(negotiator, "arrival", member);
        }
        arrival->why = (enum plan_exit)(detail >> 32);
        arrival->item = (uint32_t)detail;
        arrival->member = member;
        plan->common.leaves = plan->common.leaves || arrival->why == PLAN_EXIT_JOIN ||
                arrival->why == PLAN_EXIT_FINALIZE;
    }
    return plan_advance(negotiator, plan);
}
