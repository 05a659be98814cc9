/*
 * The oracle: the book of what was submitted, and what may come of it.
 *
 * It knows nothing of announcements, numbers or turns: only what each member has in
 * flight, and that all members must see the same decisions in the same order.
 */
#include "oracle.h"

#include "grow.h"

static const struct sim_call *call_of(const struct world *world, int item)
{
    return &world->scenario->calls[world->scenario->items[item].call];
}

static const char *text_of(const struct world *world, int item)
{
    return world->scenario->names[world->scenario->items[item].name].text;
}

bool oracle_awaits(const struct world *world, const struct slot *slot)
{
    return !scenario_may_hang(call_of(world, slot->item), slot->role);
}

/* ----------------------------------------------------------------- batches */

static bool keys_are_equal(const struct planner_item *a, const struct planner_item *b)
{
    return a->collective == b->collective && a->meta.dtype == b->meta.dtype &&
            a->meta.op == b->meta.op && a->meta.root == b->meta.root &&
            !(a->meta.prescale < b->meta.prescale) &&
            !(a->meta.prescale > b->meta.prescale) &&
            !(a->meta.postscale < b->meta.postscale) &&
            !(a->meta.postscale > b->meta.postscale) && a->meta.group == b->meta.group;
}

/* The i-th item against all before it, by the letter of planner.h. */
static bool batch_is_allowed(const struct world *world, size_t i)
{
    const struct planner_limits *limits = &world->scenario->limits;
    const struct planner_item *item = &world->planned[i];
    size_t total = item->bytes;
    bool shares = false;

    for (size_t j = 0; j < i; j++) {
        const struct planner_item *other = &world->planned[j];
        const bool same = other->batch == item->batch;

        if (same && !keys_are_equal(item, other)) {
            return false;
        }
        if (!same && item->meta.group != 0 && keys_are_equal(item, other)) {
            return false;
        }
        total += same ? other->bytes : 0;
        shares = shares || same;
    }
    return !shares || item->meta.group != 0 ||
            (total <= limits->batch_bytes && item->bytes <= limits->tensor_bytes);
}

static bool is_planned(const struct outcome *outcome)
{
    const struct slot *slot = outcome->cookie;

    return outcome->error == NULL && slot->request.collective <= TUTTI_BROADCAST;
}

/* Plans the outcomes [first, end), which are one turn. */
static void plan_turn(
        struct world *world, const struct sim_member *member, size_t first, size_t end)
{
    const struct outcome *outcomes = member->negotiator.outcomes;
    size_t count = 0;
    size_t batches;

    for (size_t i = first; i < end; i++) {
        const struct slot *slot = outcomes[i].cookie;

        if (is_planned(&outcomes[i])) {
            world->planned[count++] =
                    (struct planner_item){ .collective = slot->request.collective,
                        .meta = slot->request.meta,
                        .bytes = (size_t)slot->request.meta.count *
                                tutti_dtype_size(slot->request.meta.dtype) };
        }
    }
    if (!planner_plan(&world->planner, &world->scenario->limits, world->planned, count,
                &batches)) {
        world_fail(world, CHECK_BATCHES, "the planner has no memory");
    }
    for (size_t i = 0; i < count && member->member == 0; i++) {
        if (!batch_is_allowed(world, i)) {
            world_fail(world, CHECK_BATCHES, "batch %zu breaks the rules",
                    world->planned[i].batch);
        }
    }
    count = 0;
    for (size_t i = first; i < end; i++) {
        world->batches[i] =
                is_planned(&outcomes[i]) ? world->planned[count++].batch : 0;
    }
}

/* ---------------------------------------------------------------- verdicts */

static bool verdict_is_allowed(const struct sim_call *call, tutti_status status)
{
    const bool cancelled = call->cancelled && status == TUTTI_ERR_CANCELLED;

    if (call->deviation == DEVIATION_ABSENT) {
        return false;
    }
    if (call->deviation != DEVIATION_NONE || call->stray) {
        return status == TUTTI_ERR_MISMATCH || (call->grouped && cancelled);
    }
    return status == TUTTI_OK || cancelled;
}

static void check_agreement(struct world *world, const struct slot *slot)
{
    const int set = world->scenario->names[slot->name].set;

    for (int m = 0; m < world->scenario->sets[set].size; m++) {
        const struct slot *other = &world->slots[slot->name][m];

        if (!other->pending || other->item != slot->item ||
                other->role != ROLE_NORMAL) {
            world_fail(world, CHECK_AGREEMENT,
                    "\"%s\" is ready at member %d of set %d, but member %d gave %s",
                    text_of(world, slot->item), slot->member, set, m,
                    other->pending ? "something else" : "nothing");
        }
    }
}

/* Members of a group must follow each other within one turn. */
static void check_group(
        struct world *world, struct set_log *log, const struct log_entry *entry)
{
    const struct sim_call *call = call_of(world, entry->item);
    const int index = world->scenario->items[entry->item].call;

    if (log->open_left > 0) {
        if (log->open_call != index ||
                log->entries[log->count - 1].turn != entry->turn) {
            world_fail(world, CHECK_GROUP, "\"%s\" stands within the group of call %d",
                    text_of(world, entry->item), log->open_call);
        }
        log->open_left--;
    } else if (call->grouped && entry->status == TUTTI_OK) {
        log->open_call = index;
        log->open_left = call->count - 1;
    }
}

/* Compares with what the first member saw, or is the first. */
static void check_log(struct world *world, struct sim_member *member,
        const struct slot *slot, const struct log_entry *entry)
{
    struct set_log *log = &world->logs[member->set];
    const struct log_entry *first;

    if (member->applied == log->count) {
        check_group(world, log, entry);
        log->entries = sim_grow(log->entries, log->count, sizeof *log->entries);
        log->entries[log->count++] = *entry;
        member->applied++;
        if (entry->status == TUTTI_OK) {
            check_agreement(world, slot);
        }
        return;
    }
    first = &log->entries[member->applied++];
    if (first->item != entry->item || first->status != entry->status) {
        world_fail(world, CHECK_LOG,
                "entry %d of set %d: \"%s\" %s elsewhere, \"%s\" %s at member %d",
                member->applied - 1, member->set, text_of(world, first->item),
                tutti_status_name(first->status), text_of(world, entry->item),
                tutti_status_name(entry->status), member->member);
    } else if (first->turn != entry->turn || first->batch != entry->batch) {
        world_fail(world, CHECK_BATCHES, "entry %d of set %d: other turn or batch",
                member->applied - 1, member->set);
    }
}

static void check_fate(
        struct world *world, const struct slot *slot, tutti_status status)
{
    struct item_fate *fate = &world->fates[slot->item];

    if (!verdict_is_allowed(call_of(world, slot->item), status)) {
        world_fail(world, CHECK_VERDICT, "\"%s\" (item %d) at member %d ended with %s",
                text_of(world, slot->item), slot->item, slot->member,
                tutti_status_name(status));
    } else if (fate->ended && fate->status != status) {
        world_fail(world, CHECK_VERDICT, "\"%s\" (item %d) ended with %s and with %s",
                text_of(world, slot->item), slot->item, tutti_status_name(fate->status),
                tutti_status_name(status));
    }
    fate->ended = true;
    fate->status = status;
}

static void book(struct world *world, struct sim_member *member,
        const struct outcome *outcome, size_t batch)
{
    struct slot *slot = outcome->cookie;
    struct sim_rank *rank = &world->ranks[member->rank];
    const tutti_status status =
            outcome->error != NULL ? outcome->error->status : TUTTI_OK;
    const struct log_entry entry = {
        .item = slot->item, .status = status, .turn = outcome->turn, .batch = batch
    };
    const struct sim_call *call = call_of(world, slot->item);

    world_log(world, "rank %d: item %d \"%s\" in set %d ends with %s%s%s", member->rank,
            slot->item, text_of(world, slot->item), member->set,
            tutti_status_name(status), outcome->error != NULL ? ": " : "",
            outcome->error != NULL ? outcome->error->text : "");
    if (!slot->pending) {
        world_fail(world, CHECK_VERDICT, "\"%s\" ended twice at member %d",
                text_of(world, slot->item), slot->member);
        return;
    }
    if (!world->tainted) {
        check_fate(world, slot, status);
        /* What fails with a group differs between ranks, as the groups did. */
        if (status == TUTTI_OK || (!call->grouped && !call->stray)) {
            check_log(world, member, slot, &entry);
        }
        if (status == TUTTI_ERR_MISMATCH) {
            oracle_check_text(
                    world, &world->scenario->items[slot->item], outcome->error->text);
        }
    }
    slot->pending = false;
    rank->pending--;
    rank->awaited -= oracle_awaits(world, slot) ? 1 : 0;
}

void oracle_take(struct world *world, struct sim_member *member)
{
    const struct negotiator *n = &member->negotiator;
    size_t first = 0;

    if (n->outcome_count > world->planned_capacity) {
        free(world->planned);
        free(world->batches);
        world->planned_capacity = 2 * n->outcome_count;
        world->planned = sim_alloc(world->planned_capacity, sizeof *world->planned);
        world->batches = sim_alloc(world->planned_capacity, sizeof *world->batches);
    }
    for (size_t i = 0; i < n->outcome_count; i++) {
        if (i + 1 == n->outcome_count ||
                n->outcomes[i + 1].turn != n->outcomes[i].turn) {
            plan_turn(world, member, first, i + 1);
            first = i + 1;
        }
    }
    for (size_t i = 0; i < n->outcome_count && !world->stop; i++) {
        book(world, member, &n->outcomes[i], world->batches[i]);
    }
}

/* --------------------------------------------------------------------- end */

static void check_ended(struct world *world, const struct slot *slot)
{
    const struct sim_name *name = &world->scenario->names[slot->name];

    if (slot->pending && oracle_awaits(world, slot)) {
        world_fail(world, CHECK_DEADLOCK, "\"%s\" of set %d never ended at member %d",
                name->text, name->set, slot->member);
    }
}

/* Checks the submissions of a set; true when some may wait for ever and do. */
static bool set_has_leftovers(struct world *world, int set)
{
    const struct scenario *s = world->scenario;
    bool leftovers = false;

    for (int n = 0; n < s->name_count; n++) {
        for (int m = 0; s->names[n].set == set && m < s->sets[set].size; m++) {
            check_ended(world, &world->slots[n][m]);
            leftovers = leftovers || world->slots[n][m].pending;
        }
    }
    return leftovers;
}

static void check_tables(struct world *world, const struct sim_member *member)
{
    const struct negotiator *n = &member->negotiator;
    const struct negotiator *first = &world->members[member->set][0].negotiator;

    if (n->active.count != 0 || n->groups.count != 0) {
        world_fail(world, CHECK_BOUNDS,
                "%zu rounds and %zu groups are left at rank %d in set %d: \"%s\"",
                n->active.count, n->groups.count, member->rank, member->set,
                n->active.first != NULL ? n->active.first->name : "");
    }
    if (n->numbers.count > (size_t)world->scenario->number_capacity ||
            n->numbers.count != first->numbers.count ||
            n->log_length != first->log_length) {
        world_fail(world, CHECK_BOUNDS,
                "%zu numbers and a log of %llu at rank %d in set %d, %zu and %llu at "
                "its "
                "coordinator",
                n->numbers.count, (unsigned long long)n->log_length, member->rank,
                member->set, first->numbers.count,
                (unsigned long long)first->log_length);
    }
}

static void finish_member(struct world *world, const struct sim_member *member)
{
    const struct set_log *log = &world->logs[member->set];

    if (member->applied != log->count) {
        world_fail(world, CHECK_LOG, "member %d of set %d saw %d of %d entries",
                member->member, member->set, member->applied, log->count);
    }
}

static void finish_set(struct world *world, int set)
{
    const struct sim_member *members = world->members[set];
    const bool leftovers = set_has_leftovers(world, set);

    if (world->logs[set].open_left > 0) {
        world_fail(world, CHECK_GROUP, "a group of set %d is incomplete", set);
    }
    for (int m = 0; m < world->scenario->sets[set].size; m++) {
        finish_member(world, &members[m]);
        if (!leftovers) {
            check_tables(world, &members[m]);
        }
    }
}

void oracle_finish(struct world *world)
{
    if (world->tainted || world->killed) {
        return;
    }
    for (int set = 0; set < world->scenario->set_count; set++) {
        finish_set(world, set);
    }
}
