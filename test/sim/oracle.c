/*
 * The oracle: the book of what was submitted, and what may come of it.
 *
 * It knows nothing of announcements, numbers or log messages: only what each member has in
 * flight, and that all members must see the same decisions in the same order.
 */
#include "grow.h"
#include "world.h"

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
    /* When all leave, nothing is waited for any more. */
    return world->scenario->finalizes ||
            !scenario_may_hang(call_of(world, slot->item), slot->role);
}

bool oracle_allows_waiting(const struct world *world, const struct slot *slot)
{
    const struct sim_call *call = call_of(world, slot->item);

    return call->waves == NULL && !scenario_may_hang(call, slot->role);
}

/* ----------------------------------------------------------------- batches */

static bool arithmetic_is_equal(const struct meta *a, const struct meta *b)
{
    return a->dtype == b->dtype && a->op == b->op && !(a->prescale < b->prescale) &&
            !(a->prescale > b->prescale) && !(a->postscale < b->postscale) &&
            !(a->postscale > b->postscale);
}

static bool keys_are_equal(const struct planned *a, const struct planned *b)
{
    return a->collective == b->collective && a->joined == b->joined &&
            a->meta->root == b->meta->root && a->meta->group == b->meta->group &&
            a->meta->space == b->meta->space &&
            (!meta_reduces(a->collective) || arithmetic_is_equal(a->meta, b->meta));
}

/* The i-th item against all before it, by the letter of planner.h. */
static bool batch_is_allowed(const struct world *world, size_t i)
{
    const struct planner_limits *limits = &world->scenario->limits;
    const struct planned *item = &world->planned[i];
    size_t total = item->bytes;
    bool shares = false;

    for (size_t j = 0; j < i; j++) {
        const struct planned *other = &world->planned[j];
        const bool same = other->batch == item->batch;

        if (same && !keys_are_equal(item, other)) {
            return false;
        }
        if (!same && item->meta->group != 0 && keys_are_equal(item, other)) {
            return false;
        }
        total += same ? other->bytes : 0;
        shares = shares || same;
    }
    return !shares || item->meta->group != 0 ||
            (total <= limits->batch_bytes && item->bytes <= limits->tensor_bytes);
}

static bool is_planned(const struct outcome *outcome)
{
    return outcome->error == NULL && outcome->collective < META_SET_CREATE &&
            outcome->collective != TUTTI_BARRIER;
}

/* A number for the set of absent members; 0: none. */
static uint64_t absent_number(const struct bitset *absent)
{
    uint64_t number = 0;

    for (int m = 0; absent != NULL && m < absent->bits; m++) {
        number = bitset_has(absent, m) ? hash_u64(number, (uint64_t)m + 1) : number;
    }
    return number;
}

/* What the rank gave, or what the others gave without it. */
static const struct meta *meta_of(
        const struct sim_member *member, const struct outcome *outcome)
{
    const struct slot *slot = outcome->cookie;

    return slot != NULL ? &slot->request.meta
                        : outcome_meta(&member->negotiator.outbox, outcome);
}

static void plan(struct world *world, const struct sim_member *member,
        const struct outcome *outcome, struct planned *item)
{
    const struct meta *meta = meta_of(member, outcome);
    /* The rows that are reduced here are of no elements. */
    const bool has_rows = outcome->collective == TUTTI_REDUCESCATTER;

    *item = (struct planned){ .collective = outcome->collective,
        .meta = meta,
        .bytes = has_rows ? 0 : (size_t)meta->count * tutti_dtype_size(meta->dtype),
        .joined = absent_number(outcome->joined) };
    item->batch = planner_add(&world->planner, &world->scenario->limits,
            item->collective, meta, item->bytes, item->joined);
    if (item->batch == SIZE_MAX) {
        world_fail(world, CHECK_BATCHES, "the planner has no memory");
    }
}

/* Plans the outcomes [first, end), which are one log message. */
static void plan_log_message(
        struct world *world, const struct sim_member *member, size_t first, size_t end)
{
    const struct outcome *outcomes = member->negotiator.outbox.outcomes;
    size_t count = 0;

    planner_begin(&world->planner);
    for (size_t i = first; i < end; i++) {
        world->batches[i] = 0;
        if (!is_planned(&outcomes[i])) {
            continue;
        }
        plan(world, member, &outcomes[i], &world->planned[count++]);
        world->batches[i] = world->planned[count - 1].batch;
        if (member->member == 0 && !batch_is_allowed(world, count - 1)) {
            world_fail(world, CHECK_BATCHES, "batch %zu breaks the rules",
                    world->batches[i]);
        }
    }
}

/* ---------------------------------------------------------------- verdicts */

/*
 * What is left of such groups waits until those that do not submit it leave, or somebody
 * cancels another tensor of the name.
 */
static bool groups_differ(const struct sim_call *call)
{
    return call->stray || call->deviation == DEVIATION_GROUP_LESS ||
            call->deviation == DEVIATION_GROUP_APART ||
            call->deviation == DEVIATION_GROUP_MORE;
}

/* How a call ends that some members do not make because they have joined or finalized. */
static bool left_verdict_is_allowed(
        const struct world *world, const struct sim_call *call, tutti_status status)
{
    const struct scenario *s = world->scenario;

    if (scenario_has_role(s, call, ROLE_LEFT)) {
        return status == TUTTI_ERR_FINALIZED;
    }
    if (scenario_is_reducible(s, call)) {
        return status == TUTTI_OK;
    }
    return status == TUTTI_ERR_UNSUPPORTED ||
            (s->leaves_joined && status == TUTTI_ERR_FINALIZED);
}

static bool verdict_is_allowed(
        const struct world *world, const struct sim_call *call, tutti_status status)
{
    const struct scenario *s = world->scenario;
    const bool late = s->finalizes && status == TUTTI_ERR_FINALIZED;

    if (groups_differ(call)) {
        return status == TUTTI_ERR_MISMATCH || late ||
                (s->cancel_chance > 0 && status == TUTTI_ERR_CANCELLED);
    }
    if (call->cancelled && status == TUTTI_ERR_CANCELLED) {
        return call->deviation == DEVIATION_NONE ||
                call->deviation == DEVIATION_ABSENT || call->grouped;
    }
    if (call->deviation == DEVIATION_ABSENT) {
        return late;
    }
    if (call->deviation != DEVIATION_NONE) {
        return status == TUTTI_ERR_MISMATCH;
    }
    if (scenario_has_role(s, call, ROLE_LEFT) ||
            scenario_has_role(s, call, ROLE_JOINED)) {
        return left_verdict_is_allowed(world, call, status);
    }
    return status == TUTTI_OK;
}

/* Those who take no part are exactly those who had joined. */
static void check_absent(
        struct world *world, const struct slot *slot, const struct bitset *absent)
{
    const struct sim_call *call = call_of(world, slot->item);

    for (int m = 0; m < world->scenario->sets[call->set].size; m++) {
        const bool joined = scenario_role(call, m) == ROLE_JOINED;

        if (joined != (absent != NULL && bitset_has(absent, m))) {
            world_fail(world, CHECK_ABSENT,
                    "\"%s\" at member %d: member %d %s, but is %s",
                    text_of(world, slot->item), slot->member, m,
                    joined ? "has joined" : "has not joined",
                    joined ? "not absent" : "absent");
        }
    }
}

static void check_agreement(struct world *world, const struct slot *slot)
{
    const int set = world->scenario->names[slot->name].set;
    const struct sim_call *call = call_of(world, slot->item);

    for (int m = 0; m < world->scenario->sets[set].size; m++) {
        const struct slot *other = &world->slots[slot->name][m];

        if (scenario_role(call, m) == ROLE_JOINED &&
                (!other->pending || other->item != slot->item)) {
            /* It may not know yet how an earlier one ended. */
            continue;
        }
        if (!other->pending || other->item != slot->item ||
                other->role != ROLE_NORMAL) {
            world_fail(world, CHECK_AGREEMENT,
                    "\"%s\" is ready at member %d of set %d, but member %d gave %s",
                    text_of(world, slot->item), slot->member, set, m,
                    other->pending ? "something else" : "nothing");
        }
    }
}

/* Compares with what others saw, or is the first. The item is known only to some. */
static void check_log(
        struct world *world, struct sim_member *member, const struct log_entry *entry)
{
    struct set_log *log = &world->logs[member->set];
    struct log_entry *first;

    if (member->applied == log->count) {
        log->entries = sim_grow(log->entries, log->count, sizeof *log->entries);
        log->entries[log->count++] = *entry;
        member->applied++;
        return;
    }
    first = &log->entries[member->applied++];
    if (first->item < 0) {
        first->item = entry->item;
    }
    if ((entry->item >= 0 && first->item != entry->item) ||
            first->status != entry->status || first->collective != entry->collective ||
            first->count != entry->count || first->dtype != entry->dtype ||
            first->last != entry->last || first->mixed != entry->mixed) {
        world_fail(world, CHECK_LOG,
                "entry %d of set %d: item %d (%s) %s, last %d elsewhere; item %d (%s) "
                "%s, last %d at member %d",
                member->applied - 1, member->set, first->item,
                meta_collective_name(first->collective),
                tutti_status_name(first->status), first->last, entry->item,
                meta_collective_name(entry->collective),
                tutti_status_name(entry->status), entry->last, member->member);
    } else if (first->log_message != entry->log_message ||
            first->batch != entry->batch) {
        world_fail(world, CHECK_BATCHES,
                "entry %d of set %d: other log message or batch", member->applied - 1,
                member->set);
    }
}

/* True when all members see the call end in the same place of the log. */
static bool is_seen_by_all(
        const struct world *world, const struct sim_call *call, tutti_status status)
{
    const struct scenario *s = world->scenario;

    /* What fails with a group differs between ranks, as the groups did. */
    return status == TUTTI_OK ||
            (!call->grouped && !call->stray &&
                    !scenario_has_role(s, call, ROLE_ABSENT) &&
                    !scenario_has_role(s, call, ROLE_JOINED) &&
                    !scenario_has_role(s, call, ROLE_LEFT));
}

static void check_fate(
        struct world *world, const struct slot *slot, tutti_status status)
{
    const struct sim_call *call = call_of(world, slot->item);
    struct item_fate *fate = &world->fates[slot->item];

    if (!verdict_is_allowed(world, call, status)) {
        world_fail(world, CHECK_VERDICT, "\"%s\" (item %d) at member %d ended with %s",
                text_of(world, slot->item), slot->item, slot->member,
                tutti_status_name(status));
    } else if (fate->ended && fate->status != status && !groups_differ(call)) {
        world_fail(world, CHECK_VERDICT, "\"%s\" (item %d) ended with %s and with %s",
                text_of(world, slot->item), slot->item, tutti_status_name(fate->status),
                tutti_status_name(status));
    }
    fate->ended = true;
    fate->status = status;
}

static void check_text(
        struct world *world, const struct slot *slot, const struct error *error)
{
    const struct sim_item *item = &world->scenario->items[slot->item];

    if (error->status == TUTTI_ERR_MISMATCH) {
        oracle_check_text(world, item, error->text);
    } else if (error->status == TUTTI_ERR_FINALIZED ||
            error->status == TUTTI_ERR_UNSUPPORTED) {
        oracle_check_left(world, item, error);
    }
}

/* Those of all members are there, or none. */
static void check_operands(struct world *world, const struct sim_member *member,
        const struct outcome *outcome)
{
    const struct slot *slot = outcome->cookie;
    const uint8_t *at = member->negotiator.outbox.operands.data + outcome->operands;

    if (outcome->operand_len == 0) {
        return;
    }
    for (int m = 0; m < world->scenario->sets[member->set].size; m++) {
        const uint64_t operand = scenario_operand(world->scenario, slot->item, m);

        if (outcome->operand_len != sizeof operand ||
                memcmp(at + (size_t)m * sizeof operand, &operand, sizeof operand) !=
                        0) {
            world_fail(world, CHECK_OPERANDS,
                    "\"%s\" (item %d) at member %d: that of member %d is not",
                    text_of(world, slot->item), slot->item, slot->member, m);
        }
    }
    world->operands++;
}

/* Who is told nothing of spots may rely on that all members have the same. */
static void check_spots(
        struct world *world, const struct slot *slot, const struct outcome *outcome)
{
    const struct sim_call *call = call_of(world, slot->item);

    if (!outcome->mixed && outcome->joined == NULL &&
            call->deviation == DEVIATION_NONE && !call->stray &&
            !scenario_has_one_spot(world->scenario, slot->item)) {
        world_fail(world, CHECK_SPOTS, "\"%s\" (item %d) lies at different spots",
                text_of(world, slot->item), slot->item);
    }
}

/* The member that joined last, if all have joined now; else -1. */
static int last_of(const struct outcome *outcome)
{
    const bool joined = outcome->collective == META_JOIN && outcome->cookie != NULL &&
            outcome->error == NULL;

    return joined ? outcome->last : -1;
}

static void check_outcome(struct world *world, struct sim_member *member,
        const struct outcome *outcome, size_t batch)
{
    const struct slot *slot = outcome->cookie;
    const tutti_status status =
            outcome->error != NULL ? outcome->error->status : TUTTI_OK;
    const struct log_entry entry = { .item = slot->item,
        .collective = slot->request.collective,
        .count = status == TUTTI_OK ? slot->request.meta.count : 0,
        .dtype = status == TUTTI_OK ? slot->request.meta.dtype : TUTTI_FLOAT32,
        .last = last_of(outcome),
        .mixed = outcome->mixed,
        .status = status,
        .log_message = outcome->log_message,
        .batch = batch };
    const bool join = slot->request.collective == META_JOIN && status == TUTTI_OK;

    check_operands(world, member, outcome);
    check_fate(world, slot, status);
    if (join != (last_of(outcome) >= 0) ||
            last_of(outcome) >= world->scenario->sets[member->set].size) {
        world_fail(world, CHECK_ABSENT, "member %d is said to have joined last",
                last_of(outcome));
    }
    if (status != TUTTI_OK) {
        check_text(world, slot, outcome->error);
    } else {
        check_absent(world, slot, outcome->joined);
        check_spots(world, slot, outcome);
        if (!world->fates[slot->item].agreed) {
            world->fates[slot->item].agreed = true;
            check_agreement(world, slot);
        }
    }
    if (is_seen_by_all(world, call_of(world, slot->item), status)) {
        check_log(world, member, &entry);
    }
}

/* Something is ready without this member. */
static void book_absent(struct world *world, struct sim_member *member,
        const struct outcome *outcome, size_t batch)
{
    const struct log_entry entry = { .item = -1,
        .collective = outcome->collective,
        .count = meta_of(member, outcome)->count,
        .dtype = meta_of(member, outcome)->dtype,
        .last = last_of(outcome),
        .mixed = meta_of(member, outcome)->spot == META_SPOT_MIXED,
        .log_message = outcome->log_message,
        .batch = batch };

    world_log(world, "rank %d: %s of %lld in set %d is ready without it", member->rank,
            meta_collective_name(outcome->collective),
            (long long)meta_of(member, outcome)->count, member->set);
    if (world->tainted) {
        return;
    }
    if (outcome->joined == NULL || !bitset_has(outcome->joined, member->member)) {
        world_fail(world, CHECK_ABSENT, "member %d of set %d is not absent",
                member->member, member->set);
    }
    check_log(world, member, &entry);
}

/* The decision as this member is told it. */
static uint64_t digest_of(
        uint64_t hash, const struct sim_member *member, const struct outcome *outcome)
{
    const struct slot *slot = outcome->cookie;
    const struct error *error = outcome->error;

    hash = hash_u64(hash, (uint64_t)member->set << 32 | (uint32_t)member->member);
    hash = hash_u64(hash, slot != NULL ? (uint64_t)slot->item : UINT64_MAX);
    hash = hash_u64(hash, outcome->log_message);
    hash = hash_u64(hash, (uint32_t)last_of(outcome));
    hash = hash_u64(hash, (uint64_t)outcome->collective);
    hash = hash_u64(hash, slot != NULL ? 0 : (uint64_t)meta_of(member, outcome)->count);
    for (int m = 0; outcome->joined != NULL && m < outcome->joined->bits; m++) {
        hash = bitset_has(outcome->joined, m) ? hash_u64(hash, (uint64_t)m) : hash;
    }
    return error != NULL ? hash_bytes(hash, error->text, strlen(error->text)) : hash;
}

static void book(struct world *world, struct sim_member *member,
        const struct outcome *outcome, size_t batch)
{
    struct slot *slot = outcome->cookie;
    struct sim_rank *rank = &world->ranks[member->rank];

    world->digest.decisions = digest_of(world->digest.decisions, member, outcome);
    if (slot == NULL) {
        book_absent(world, member, outcome, batch);
        return;
    }
    world_log(world, "rank %d: item %d \"%s\" in set %d ends with %s%s%s", member->rank,
            slot->item, text_of(world, slot->item), member->set,
            tutti_status_name(
                    outcome->error != NULL ? outcome->error->status : TUTTI_OK),
            outcome->error != NULL ? ": " : "",
            outcome->error != NULL ? outcome->error->text : "");
    if (!slot->pending) {
        world_fail(world, CHECK_VERDICT, "\"%s\" ended twice at member %d",
                text_of(world, slot->item), slot->member);
        return;
    }
    if (!world->tainted) {
        check_outcome(world, member, outcome, batch);
    }
    slot->pending = false;
    rank->pending--;
    rank->awaited -= oracle_allows_waiting(world, slot) ? 1 : 0;
}

void oracle_take(struct world *world, struct sim_member *member)
{
    const struct negotiator *n = &member->negotiator;
    size_t first = 0;

    if (n->outbox.outcome_count > world->planned_capacity) {
        free(world->planned);
        free(world->batches);
        world->planned_capacity = 2 * n->outbox.outcome_count;
        world->planned = sim_alloc(world->planned_capacity, sizeof *world->planned);
        world->batches = sim_alloc(world->planned_capacity, sizeof *world->batches);
    }
    for (size_t i = 0; i < n->outbox.outcome_count; i++) {
        if (i + 1 < n->outbox.outcome_count &&
                n->outbox.outcomes[i + 1].log_message ==
                        n->outbox.outcomes[i].log_message) {
            continue;
        }
        plan_log_message(world, member, first, i + 1);
        first = i + 1;
    }
    for (size_t i = 0; i < n->outbox.outcome_count && !world->stop; i++) {
        book(world, member, &n->outbox.outcomes[i], world->batches[i]);
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

static int numbers_of(const struct negotiator *n)
{
    int count = 0;

    for (size_t i = 0; i < 64 * n->bits.words; i++) {
        count += n->bits.at[i] != NULL ? 1 : 0;
    }
    return count;
}

/* Of no number anything is left, and parents know what is shown. */
static void check_bits(struct world *world, const struct sim_member *member)
{
    const struct negotiator *n = &member->negotiator;
    const int children = n->tree.child_count;

    for (size_t w = 0; w < n->bits.words; w++) {
        const struct bits_word *word = bits_row(n, w);
        uint64_t left = word->own | word->reported;

        /* After a late cancellation the next round is collected member by member. */
        left |= world->scenario->cancel_chance == 0 ? word->single ^ word->always : 0;
        for (int c = 0; c < children; c++) {
            const struct sim_member *child =
                    &world->members[member->set][n->tree.children[c]];

            left |= word->heard[c];
            if (w < BITS_BOARD_WORDS &&
                    child->board.seen[w] == child->board.word_count) {
                left |= negotiator_seen(n, c, w) ^
                        bits_row(&child->negotiator, w)->shown;
            }
        }
        if (left != 0) {
            world_fail(world, CHECK_BOUNDS,
                    "%llx of word %zu are left at rank %d in set %d",
                    (unsigned long long)left, w, member->rank, member->set);
        }
    }
}

static void check_tables(struct world *world, const struct sim_member *member)
{
    const struct negotiator *n = &member->negotiator;
    const struct negotiator *first = &world->members[member->set][0].negotiator;

    if (n->names.active.count != 0 || n->groups.waiting.count != 0) {
        world_fail(world, CHECK_BOUNDS,
                "%zu rounds and %zu groups are left at rank %d in set %d: \"%s\"%s",
                n->names.active.count, n->groups.waiting.count, member->rank,
                member->set,
                n->names.active.first != NULL ? n->names.active.first->name : "",
                n->names.active.first != NULL && n->names.active.first->round.split
                        ? ", split"
                        : "");
    }
    if (numbers_of(n) > world->scenario->number_capacity ||
            numbers_of(n) != numbers_of(first) || n->log.length != first->log.length) {
        world_fail(world, CHECK_BOUNDS,
                "%d numbers and a log of %llu at rank %d in set %d, %d and %llu at its "
                "coordinator",
                numbers_of(n), (unsigned long long)n->log.length, member->rank,
                member->set, numbers_of(first), (unsigned long long)first->log.length);
    }
    check_bits(world, member);
}

static void finish_member(struct world *world, const struct sim_member *member)
{
    const struct set_log *log = &world->logs[member->set];

    if (member->applied != log->count) {
        world_fail(world, CHECK_LOG, "member %d of set %d saw %d of %d entries",
                member->member, member->set, member->applied, log->count);
    }
}

/* Members of a group must follow each other within one log message. */
static void check_groups(struct world *world, int set)
{
    const struct set_log *log = &world->logs[set];
    int open = 0;

    for (int i = 0; i < log->count; i++) {
        const struct log_entry *entry = &log->entries[i];
        const struct sim_call *call =
                entry->item >= 0 ? call_of(world, entry->item) : NULL;

        if (open > 0 &&
                (call != call_of(world, entry[-1].item) ||
                        entry[-1].log_message != entry->log_message)) {
            world_fail(world, CHECK_GROUP, "entry %d of set %d stands within a group",
                    i, set);
        }
        if (open > 0) {
            open--;
        } else if (call != NULL && call->grouped && entry->status == TUTTI_OK) {
            open = call->count - 1;
        }
        if (call == NULL) {
            world_fail(world, CHECK_LOG, "entry %d of set %d concerns nobody", i, set);
        }
    }
    if (open > 0) {
        world_fail(world, CHECK_GROUP, "a group of set %d is incomplete", set);
    }
}

static void finish_set(struct world *world, int set)
{
    const struct sim_member *members = world->members[set];
    const bool leftovers = set_has_leftovers(world, set);

    check_groups(world, set);
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
