/*
 * A plan at one rank: submissions, contributions, what commits, and the way out.
 *
 * On the way out nothing waits for the others: whoever knows the outcome announces what it
 * has submitted and did not commit, and the log goes on as if there had never been a plan.
 */
#include "core/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "core/negotiator_parts.h"

/* The timer while nobody waits or polls here. */
#define TIMER_NS INT64_C(50000000)
/* It grows with the longest time between two submissions, but not beyond this. */
#define TIMER_MAX_NS INT64_C(1000000000)
#define TIMER_GAPS 4
/* How often it doubles. */
#define TIMER_SHIFT_MAX 6
/* Iterations of an epoch after which a wrong timer is forgiven. */
#define FORGIVEN_STEPS 100

static struct plan_batch *batch_of(const struct plan *plan, uint64_t index)
{
    return &plan->batches[index % plan->batch_count];
}

/* -------------------------------------------------------------- contributing */

struct mark plan_own_mark(const struct negotiator *negotiator, const struct plan *plan)
{
    struct mark mark = plan->poisoned ? plan->wanted : (struct mark){ 0 };

    mark.count = plan->cursor;
    mark.member = negotiator->config.rank;
    mark.parts = mark.poison == POISON_JOIN || mark.poison == POISON_FINALIZE;
    return mark;
}

static tutti_status show_mark(struct negotiator *negotiator, struct plan *plan)
{
    const struct mark mark = plan_own_mark(negotiator, plan);
    struct action *action;
    tutti_status status;

    if (plan_knows_members(negotiator, plan)) {
        plan->marks[negotiator->config.rank] = mark;
    }
    if (plan->rides) {
        marks_note(negotiator, plan, &mark);
        return TUTTI_OK;
    }
    if (!negotiator->config.board) {
        negotiator->marks_dirty = true;
        return TUTTI_OK;
    }
    status = action_add(negotiator, ACTION_MARK, -1, NULL, 0);
    if (status == TUTTI_OK) {
        action = &negotiator->actions[negotiator->action_count - 1];
        action->cell = mark_cell(plan->lane, plan->epoch);
        action->word = mark_word(plan->epoch, &mark);
        action->detail = mark_detail(&mark);
    }
    return status;
}

static tutti_status arrive(struct negotiator *negotiator, struct plan *plan)
{
    struct plan_batch *batch = batch_of(plan, plan->cursor);
    tutti_status status = TUTTI_OK;

    if (plan->rides) {
        status = ride_begin(negotiator, plan, batch, plan->cursor);
    }
    observe(negotiator, TRANSITION_PLAN_ARRIVE);
    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        plan->items[i]->contributed = plan->items[i]->planned;
    }
    plan->here -= batch->here;
    batch->here = 0;
    plan->cursor++;
    return status;
}

static bool is_complete(const struct negotiator *negotiator, const struct plan *plan)
{
    const struct plan_batch *batch = batch_of(plan, plan->cursor);
    const uint32_t early = has_bug(negotiator, BUG_PLAN_INCOMPLETE) ? 1 : 0;

    return batch->here > 0 && batch->here + early >= batch->count;
}

/* A poison further on does not keep this rank from contributing below it. */
static bool is_silent(const struct negotiator *negotiator, const struct plan *plan)
{
    for (int m = 0; has_bug(negotiator, BUG_PLAN_SILENT) && negotiator->config.board &&
            m < negotiator->config.size;
            m++) {
        if (plan->marks[m].poison != POISON_NONE) {
            return true;
        }
    }
    return false;
}

static bool window_has_room(
        const struct negotiator *negotiator, const struct plan *plan)
{
    return plan->cursor < plan->decided + (uint64_t)negotiator->config.window;
}

/*
 * Contributes what it can; true when that was anything, or an error. A poison needs no
 * room in the window: others may wait for something that happens only when this rank has
 * parted.
 */
static bool contribute(
        struct negotiator *negotiator, struct plan *plan, tutti_status *status)
{
    const uint64_t before = plan->cursor;

    while (!plan->poisoned && *status == TUTTI_OK && !is_silent(negotiator, plan)) {
        if (window_has_room(negotiator, plan) && is_complete(negotiator, plan)) {
            *status = arrive(negotiator, plan);
        } else if (plan->wanted.poison != POISON_NONE) {
            observe(negotiator, TRANSITION_PLAN_POISON);
            plan->poisoned = true;
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
    if (!plan_knows_members(negotiator, plan)) {
        return plan->common.count > plan->decided;
    }
    while (plan->seen < negotiator->config.size &&
            plan->marks[plan->seen].count > plan->decided) {
        plan->seen++;
    }
    return plan->seen == negotiator->config.size ||
            (has_bug(negotiator, BUG_PLAN_EARLY) && plan->cursor > plan->decided &&
                    plan->seen == negotiator->config.size - 1);
}

static bool ends_here(const struct negotiator *negotiator, const struct plan *plan,
        const struct mark *mark)
{
    if (has_bug(negotiator, BUG_PLAN_FOLLOWS_EARLY) &&
            mark->poison == POISON_REPLACED) {
        return mark->member == negotiator->config.rank;
    }
    if (has_bug(negotiator, BUG_PLAN_FIRST_SEEN)) {
        return mark->poison != POISON_NONE && mark->count >= plan->decided;
    }
    return mark->poison != POISON_NONE && mark->count == plan->decided;
}

/* True when somebody is known to have poisoned the next batch to decide. */
static bool find_poison(const struct negotiator *negotiator, const struct plan *plan,
        struct mark *found)
{
    const struct mark own = plan_own_mark(negotiator, plan);

    *found = own;
    if (ends_here(negotiator, plan, &own)) {
        return true;
    }
    if (!negotiator->config.board) {
        *found = plan->common;
        if (ends_here(negotiator, plan, &plan->common)) {
            return true;
        }
    }
    for (int m = 0; m < negotiator->config.size && plan_knows_members(negotiator, plan);
            m++) {
        *found = plan->marks[m];
        if (ends_here(negotiator, plan, found)) {
            return true;
        }
    }
    return false;
}

/*
 * The tensor is ready. Announcements of the next round may be here already, of ranks that
 * have left the plan: they stay.
 */
static tutti_status entry_commits(
        struct negotiator *negotiator, const struct plan *plan, struct entry *entry)
{
    tutti_status status = outcome_add(negotiator, entry, NULL);

    if (status == TUTTI_OK) {
        struct outcome *outcome = &negotiator->outcomes[negotiator->outcome_count - 1];

        outcome->turn = negotiator->lanes[plan->lane].commits;
        outcome->lane = has_bug(negotiator, BUG_PLAN_ONE_LANE) ? 1 : plan->lane;
        outcome->begun = plan->rides;
        outcome->index = plan->decided;
        outcome->absent = NULL;
        entry_end_submission(negotiator, entry);
    }
    return status;
}

static tutti_status commit(struct negotiator *negotiator, struct plan *plan)
{
    const struct plan_batch *batch = batch_of(plan, plan->decided);
    tutti_status status = TUTTI_OK;

    observe(negotiator, TRANSITION_PLAN_COMMIT);
    for (uint32_t i = batch->first;
            i < batch->first + batch->count && status == TUTTI_OK; i++) {
        struct entry *entry = plan->items[i];

        if (!entry->pending || !entry->contributed) {
            return error_set(TUTTI_ERR_PROTOCOL,
                    "a planned batch is ready on rank %d, which has not submitted "
                    "\"%s\"",
                    world_rank(negotiator, negotiator->config.rank), entry->name);
        }
        status = entry_commits(negotiator, plan, entry);
    }
    negotiator->planned += batch->count;
    negotiator->lanes[plan->lane].commits++;
    plan->decided++;
    plan->seen = 0;
    plan->used_at = negotiator->turns;
    if (plan->decided % plan->batch_count == 0) {
        negotiator->planned_steps++;
    }
    return status;
}

/* ------------------------------------------------------------------- leaving */

/* What a rank did to end a plan: words around the tensor, if it is about one. */
static const struct {
    const char *what;
    const char *rest; /* NULL: about no tensor */
} reasons[POISON_COUNT] = {
    [POISON_NONE] = { "did nothing", NULL },
    [POISON_TIMER] = { "did not submit ", " in time" },
    [POISON_METADATA] = { "submitted ", " with other metadata" },
    [POISON_JOIN] = { "joins", NULL },
    [POISON_FINALIZE] = { "finalizes", NULL },
    [POISON_CANCEL] = { "cancels ", "" },
    [POISON_REPLACED] = { "makes room for another plan", NULL },
    [POISON_FOLLOWED] = { "leaves with a rank that parts", NULL },
    [POISON_HEARD] = { "leaves it, and has not said why yet", NULL },
};

/*
 * Where a plan ends is equal at all ranks; who is named may differ, if several poisoned
 * the same batch.
 */
static tutti_status note_poison(
        struct negotiator *negotiator, const struct plan *plan, const struct mark *mark)
{
    const struct entry *entry = plan->items[mark->item];
    const unsigned long long steps = plan->decided / plan->batch_count;
    const unsigned long long batches = plan->decided % plan->batch_count;
    char about[TUTTI_NAME_MAX + 64] = "";
    char text[TUTTI_NAME_MAX + 256];

    if (reasons[mark->poison].rest != NULL) {
        (void)snprintf(about, sizeof about, "%s \"%s\"%s",
                meta_collective_name(entry->collective), entry->name,
                reasons[mark->poison].rest);
    }
    (void)snprintf(text, sizeof text,
            "plan on lane %u (%u tensors) left after %llu iteration%s and %llu of %u "
            "batches: rank %d %s%s",
            plan->lane, plan->item_count, steps, steps == 1 ? "" : "s", batches,
            plan->batch_count, world_rank(negotiator, mark->member),
            reasons[mark->poison].what, about);
    return action_add(negotiator, ACTION_NOTE, -1, text, strnlen(text, sizeof text));
}

/* What was submitted to the plan and did not commit. */
static tutti_status announce_items(struct negotiator *negotiator, struct plan *plan)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < plan->item_count && status == TUTTI_OK; i++) {
        struct entry *entry = plan->items[i];

        if (!entry->pending || !entry->planned) {
            continue;
        }
        observe(negotiator, TRANSITION_PLAN_REANNOUNCE);
        entry->planned = false;
        if (entry->contributed && has_bug(negotiator, BUG_PLAN_REANNOUNCE)) {
            continue;
        }
        entry->contributed = false;
        status = announce_pending(negotiator, entry);
    }
    return status;
}

static void forget_here(struct plan *plan)
{
    for (uint32_t b = 0; b < plan->batch_count; b++) {
        plan->batches[b].here = 0;
    }
    plan->here = 0;
}

static void timer_learns(struct plan *plan)
{
    if (plan->decided >= (uint64_t)FORGIVEN_STEPS * plan->batch_count) {
        plan->timer_shift = 0;
    }
    if (plan->poisoned && plan->wanted.poison == POISON_TIMER &&
            plan->timer_shift < TIMER_SHIFT_MAX) {
        plan->timer_shift++;
    }
}

tutti_status plan_end_epoch(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark)
{
    tutti_status status = note_poison(negotiator, plan, mark);

    negotiator->plans_on--;
    if (plan->decided % plan->batch_count != 0) {
        negotiator->slow_steps++;
    }
    plan->state = PLAN_SLOW;
    timer_learns(plan);
    forget_here(plan);
    if (is_coordinator(negotiator)) {
        learn_left(negotiator, plan, mark);
    }
    if (status == TUTTI_OK) {
        status = marks_tell_outcome(negotiator, plan);
    }
    if (status == TUTTI_OK) {
        status = announce_items(negotiator, plan);
    }
    if (status == TUTTI_OK) {
        status = lane_left(negotiator, &negotiator->lanes[plan->lane]);
    }
    return status == TUTTI_OK ? partings_announce_held(negotiator) : status;
}

/* The outcome is known: nothing from `decided` on commits. */
static tutti_status leave(
        struct negotiator *negotiator, struct plan *plan, const struct mark *mark)
{
    observe(negotiator,
            plan->poisoned ? TRANSITION_PLAN_LEAVE_OWN : TRANSITION_PLAN_LEAVE);
    negotiator->poisons++;
    return plan->rides ? ride_drain(negotiator, plan, mark)
                       : plan_end_epoch(negotiator, plan, mark);
}

/*
 * A rank that parts announces that when it has left all plans, and it cannot leave this one
 * while others have yet to contribute before its poison. They may wait for something off
 * the plan that is ready only when it has parted. So who has nothing in the plan follows.
 */
static void follow_parting(const struct negotiator *negotiator, struct plan *plan)
{
    if (plan->here == 0 && !plan->poisoned && plan->common.parts &&
            !has_bug(negotiator, BUG_PLAN_STAYS)) {
        observe(negotiator, TRANSITION_PLAN_FOLLOWS_PARTING);
        plan_want_poison(plan, POISON_FOLLOWED, 0);
    }
}

tutti_status plan_advance(struct negotiator *negotiator, struct plan *plan)
{
    tutti_status status = TUTTI_OK;
    struct mark mark;

    if (plan->state == PLAN_DRAINING) {
        return ride_end(negotiator, plan);
    }
    if (plan->state == PLAN_ON) {
        follow_parting(negotiator, plan);
    }
    while (status == TUTTI_OK && plan->state == PLAN_ON) {
        if (all_have_arrived(negotiator, plan)) {
            status = commit(negotiator, plan);
        } else if (contribute(negotiator, plan, &status)) {
            status = status == TUTTI_OK ? show_mark(negotiator, plan) : status;
        } else if (find_poison(negotiator, plan, &mark)) {
            return leave(negotiator, plan, &mark);
        } else {
            break;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- submitting */

static bool has_planned_metadata(
        const struct negotiator *negotiator, const struct entry *entry)
{
    return (meta_equal(&entry->meta, &entry->local.meta) &&
                   entry->local.meta.claim_count == 0) ||
            has_bug(negotiator, BUG_PLAN_METADATA);
}

static void count_here(
        struct negotiator *negotiator, struct plan *plan, const struct entry *entry)
{
    const int64_t gap = negotiator->now_ns - plan->submitted_ns;
    const bool midway = plan->here > 0 || plan->cursor % plan->batch_count != 0;

    if (midway && gap > plan->gap_ns) {
        plan->gap_ns = gap;
    }
    plan->submitted_ns = negotiator->now_ns;
    plan->batches[entry->batch].here++;
    plan->here++;
}

void plan_want_poison(struct plan *plan, enum poison poison, uint32_t item)
{
    if (plan->wanted.poison == POISON_NONE) {
        plan->wanted.poison = poison;
        plan->wanted.item = item;
    }
}

void plan_count(struct negotiator *negotiator, struct entry *entry)
{
    struct plan *plan = entry->plan;

    entry->planned = true;
    entry->contributed = false;
    if (has_planned_metadata(negotiator, entry)) {
        observe(negotiator, TRANSITION_PLAN_SUBMIT);
        count_here(negotiator, plan, entry);
    } else {
        observe(negotiator, TRANSITION_PLAN_METADATA);
        plan_want_poison(plan, POISON_METADATA, entry->item);
    }
    if (entry->cancel) {
        plan_want_poison(plan, POISON_CANCEL, entry->item);
    }
}

tutti_status plan_submit(struct negotiator *negotiator, struct entry *entry)
{
    struct plan *plan = entry->plan;

    if (has_bug(negotiator, BUG_PLAN_RETRACT) && plan->wanted.poison == POISON_TIMER) {
        plan->wanted = (struct mark){ 0 };
        plan->poisoned = false;
    }
    plan_count(negotiator, entry);
    if (plan->batches[entry->batch].here < plan->batches[entry->batch].count &&
            plan->wanted.poison == POISON_NONE &&
            !has_bug(negotiator, BUG_PLAN_INCOMPLETE)) {
        return TUTTI_OK; /* as most often: the batch is not whole yet */
    }
    return plan_advance(negotiator, plan);
}

tutti_status plans_poison(struct negotiator *negotiator, enum poison poison)
{
    tutti_status status = TUTTI_OK;

    for (int l = 1; l < negotiator->config.lanes && status == TUTTI_OK; l++) {
        struct plan_lane *lane = &negotiator->lanes[l];

        if (lane->next != NULL) {
            plan_want_poison(lane->next, poison, 0);
        }
        if (lane->current != NULL && lane->current->state == PLAN_ON) {
            plan_want_poison(lane->current, poison, 0);
            status = plan_advance(negotiator, lane->current);
        }
    }
    return status;
}

/* --------------------------------------------------------------------- timer */

/* Something was submitted behind a batch that is not whole. */
static bool is_stuck(const struct plan *plan)
{
    return plan->state == PLAN_ON && !plan->poisoned &&
            plan->wanted.poison == POISON_NONE && plan->here > 0 &&
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
    if (!is_stuck(plan) || has_bug(negotiator, BUG_PLAN_NO_TIMER)) {
        return INT64_MAX;
    }
    return negotiator->submitted_ns + timer_ns(negotiator, plan);
}

int64_t plans_due(const struct negotiator *negotiator)
{
    int64_t first = INT64_MAX;

    for (int l = 1; l < negotiator->config.lanes && negotiator->plans_on > 0; l++) {
        const struct plan *plan = negotiator->lanes[l].current;
        const int64_t due = plan != NULL ? due_at(negotiator, plan) : INT64_MAX;

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
        const struct entry *entry = plan->items[i];

        if (entry->plan != plan || entry->item != i || entry->number == 0 ||
                (entry->planned && plan->state == PLAN_SLOW)) {
            return false;
        }
    }
    return here == plan->here && plan->decided <= plan->cursor;
}

bool plans_are_valid(const struct negotiator *negotiator)
{
    int on = 0;

    for (int l = 0; l < PLAN_LANES_MAX; l++) {
        const struct plan *plan = negotiator->lanes[l].current;
        const struct plan *next = negotiator->lanes[l].next;

        if ((plan != NULL && !plan_is_valid(plan)) ||
                (next != NULL && (plan == NULL || !plan_is_valid(next)))) {
            return false;
        }
        on += plan != NULL && plan->state != PLAN_SLOW;
        on += next != NULL;
    }
    return on == negotiator->plans_on;
}

static uint32_t first_missing(const struct plan *plan)
{
    const struct plan_batch *batch = batch_of(plan, plan->cursor);

    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        if (!plan->items[i]->planned || plan->items[i]->contributed) {
            return i;
        }
    }
    return batch->first;
}

tutti_status plans_tick(struct negotiator *negotiator)
{
    tutti_status status = TUTTI_OK;

    for (int l = 1; l < negotiator->config.lanes && status == TUTTI_OK; l++) {
        struct plan *plan = negotiator->lanes[l].current;

        if (plan != NULL && due_at(negotiator, plan) <= negotiator->now_ns) {
            observe(negotiator, TRANSITION_PLAN_TIMER);
            plan_want_poison(plan, POISON_TIMER, first_missing(plan));
            status = plan_advance(negotiator, plan);
        }
    }
    return status;
}
