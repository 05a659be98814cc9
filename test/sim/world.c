/*
 * The simulated world: set-up, and the events that happen to ranks.
 */
#include "world.h"

#include "grow.h"

/* ----------------------------------------------------------------- set-up */

/* Of every other name, and then nearly always. */
static size_t give_operand(
        void *user, const struct request *request, const void **bytes)
{
    const struct slot *slot = request->cookie;

    (void)user;
    *bytes = &slot->operand;
    return request->hash % 2 == 0 && slot->operand % 8 != 0 ? sizeof slot->operand : 0;
}

static void run_actions(struct world *world, struct sim_member *member);

/* A log message goes on at once. */
static tutti_status act(void *user)
{
    struct sim_member *member = user;

    run_actions(member->world, member);
    return TUTTI_OK;
}

static void create_member(struct world *world, int set, int member)
{
    const struct scenario *s = world->scenario;
    struct sim_member *m = &world->members[set][member];
    const struct negotiator_config config = { .size = s->sets[set].size,
        .rank = member,
        .shape = &s->sets[set].shape,
        .world_ranks = s->sets[set].ranks,
        .number_capacity = s->number_capacity,
        .row_count_bytes_max = s->row_count_bytes_max,
        .stall_ns = s->stall_ns,
        .stall_fail_ns = s->stall_fail_ns,
        .board = scenario_has_board(s, set, member),
        .operand = scenario_has_operands(&s->sets[set]) ? give_operand : NULL,
        .act = act,
        .user = m };

    m->world = world;
    m->set = set;
    m->member = member;
    m->rank = s->sets[set].ranks[member];
    world->ranks[m->rank].members[set] = m;
    if (negotiator_init(&m->negotiator, &config) != TUTTI_OK) {
        world_fail(world, CHECK_STATUS, "cannot create a negotiator");
    }
    m->negotiator.names.next_number = s->first_number;
}

static void create_slots(struct world *world)
{
    const struct scenario *s = world->scenario;

    world->slots = sim_alloc((size_t)s->name_count, sizeof *world->slots);
    for (int n = 0; n < s->name_count; n++) {
        const int size = s->sets[s->names[n].set].size;

        world->slots[n] = sim_alloc((size_t)size, sizeof *world->slots[n]);
        for (int m = 0; m < size; m++) {
            world->slots[n][m].numbers =
                    sim_alloc(scenario_numbers(s, &s->names[n]), sizeof(int64_t));
            world->slots[n][m].name = n;
            world->slots[n][m].member = m;
        }
    }
}

/* Adds those calls from `first` on, and before `end`, that a rank makes in its wave. */
static void add_calls(struct world *world, int rank, int first, int end)
{
    const struct scenario *s = world->scenario;
    struct sim_rank *r = &world->ranks[rank];

    for (int c = first; c < end; c++) {
        const struct sim_call *call = &s->calls[c];
        const int member = s->sets[call->set].member_of[rank];
        const int wave =
                member >= 0 && call->waves != NULL ? call->waves[member] : call->wave;

        if (member >= 0 && wave == r->wave &&
                scenario_role(call, member) < ROLE_ABSENT) {
            r->order[r->order_count++] = c;
        }
    }
}

/* Chooses the order of a rank's calls in its wave. */
static void begin_wave(struct world *world, int rank)
{
    const struct scenario *s = world->scenario;
    struct sim_rank *r = &world->ranks[rank];

    r->next = 0;
    r->order_count = 0;
    r->waits = r->wave + 1 == s->wave_count || rng_chance(&world->rng, s->wait_chance);
    if (r->wave + 1 < s->wave_count) {
        add_calls(world, rank, s->wave_first[r->wave], s->wave_first[r->wave + 1]);
    }
    add_calls(world, rank, s->leaves_first, s->call_count);
    rng_shuffle(&world->rng, r->order, r->order_count);
}

struct world *world_create(const struct scenario *scenario, bool verbose)
{
    struct world *world = sim_alloc(1, sizeof *world);

    world->scenario = scenario;
    world->rng = rng_seeded(scenario->seed + UINT64_C(0x5851f42d4c957f2d));
    world->verbose = verbose;
    world->ticks_left = scenario->is_training ? 2000 : 300;
    network_init(&world->network, scenario->ranks);
    world->ranks = sim_alloc((size_t)scenario->ranks, sizeof *world->ranks);
    world->members = sim_alloc((size_t)scenario->set_count, sizeof *world->members);
    world->fates = sim_alloc((size_t)scenario->item_count, sizeof *world->fates);
    for (int s = 0; s < scenario->set_count; s++) {
        const int size = scenario->sets[s].size;

        world->members[s] = sim_alloc((size_t)size, sizeof *world->members[s]);
        for (int m = 0; m < size; m++) {
            create_member(world, s, m);
        }
    }
    create_slots(world);
    for (int r = 0; r < scenario->ranks; r++) {
        world->ranks[r].order = sim_alloc((size_t)scenario->call_count, sizeof(int));
        world->ranks[r].skew_ns = rng_below(&world->rng, 1000000);
        begin_wave(world, r);
    }
    return world;
}

void world_destroy(struct world *world)
{
    const struct scenario *s = world->scenario;

    for (int set = 0; set < s->set_count; set++) {
        for (int m = 0; m < s->sets[set].size; m++) {
            negotiator_fini(&world->members[set][m].negotiator);
            board_fini(&world->members[set][m].board);
        }
        free(world->members[set]);
        free(world->logs[set].entries);
    }
    for (int n = 0; n < s->name_count; n++) {
        for (int m = 0; m < s->sets[s->names[n].set].size; m++) {
            free(world->slots[n][m].numbers);
        }
        free(world->slots[n]);
    }
    for (int r = 0; r < s->ranks; r++) {
        free(world->ranks[r].order);
    }
    network_fini(&world->network);
    planner_fini(&world->planner);
    free(world->planned);
    free(world->batches);
    free(world->claimed);
    free(world->members);
    free(world->slots);
    free(world->ranks);
    free(world->fates);
    free(world);
}

/* ----------------------------------------------------------------- events */

void world_touch(struct world *world, struct sim_member *member)
{
    struct negotiator *negotiator = &member->negotiator;

    member->dirty = true;
    negotiator->now_ns = world->now_ns + world->ranks[member->rank].skew_ns + 1;
}

void world_check_event(struct world *world, const struct sim_member *member,
        tutti_status status, const char *event)
{
    if (status != TUTTI_OK && world->tainted && status == TUTTI_ERR_PROTOCOL) {
        world->stop = true;
    } else if (status != TUTTI_OK) {
        world_fail(world, CHECK_STATUS, "%s at rank %d in set %d: %s: %s", event,
                member->rank, member->set, tutti_status_name(status),
                tutti_last_error());
    } else if (!negotiator_is_valid(&member->negotiator)) {
        world_fail(world, CHECK_VALID, "after %s at rank %d in set %d", event,
                member->rank, member->set);
    }
}

static void submit_item(
        struct world *world, struct sim_member *member, int item, enum role role)
{
    const struct scenario *s = world->scenario;
    const struct sim_item *it = &s->items[item];
    const struct sim_name *name = &s->names[it->name];
    struct slot *slot = &world->slots[it->name][member->member];
    const size_t len = strlen(name->text);

    slot->pending = true;
    slot->item = item;
    slot->role = role;
    slot->request = (struct request){ .collective = name->collective,
        .name = name->text,
        .name_len = len,
        .hash = request_hash(name->collective, name->text, len),
        .meta = scenario_meta(s, it, role, slot->numbers),
        .cookie = slot };
    scenario_row_counts(s, it, slot->member, &slot->request.meta, slot->numbers);
    slot->operand = scenario_operand(s, item, slot->member);
    slot->request.meta.spot = scenario_spot(s, item, slot->member);
    world->ranks[member->rank].pending++;
    world->ranks[member->rank].awaited += oracle_allows_waiting(world, slot) ? 1 : 0;
    world_log(world, "rank %d submits %s \"%s\" in set %d, item %d", member->rank,
            meta_collective_name(name->collective), name->text, member->set, item);
    world_touch(world, member);
    world_check_event(world, member,
            negotiator_submit(&member->negotiator, &slot->request), "submit");
}

/* A rank that has joined submits nothing to the set; it may finalize. */
static bool join_blocks(
        const struct world *world, const struct sim_call *call, int member)
{
    const struct scenario *s = world->scenario;
    const bool finalize =
            s->names[s->items[call->first].name].collective == META_FINALIZE;

    return world->slots[s->sets[call->set].join][member].pending &&
            !(finalize && s->leaves_joined);
}

/* True when something that the member would submit is still in flight. */
static bool call_is_blocked(
        const struct world *world, const struct sim_call *call, int member)
{
    const struct scenario *s = world->scenario;
    const enum role role = scenario_role(call, member);

    for (int i = call->first; i < call->first + call->count; i++) {
        if (world->slots[s->items[i].name][member].pending &&
                scenario_submits(s, &s->items[i], role)) {
            return true;
        }
    }
    return false;
}

/* All tensors of the call in one go, in an order of the rank's own. */
static void make_call(struct world *world, const struct sim_call *call, int rank)
{
    const struct scenario *s = world->scenario;
    struct sim_member *member = world->ranks[rank].members[call->set];
    const enum role role = scenario_role(call, member->member);
    const int start = rng_below(&world->rng, call->count);

    for (int i = 0; i < call->count && !world->stop; i++) {
        const int item = call->first + (start + i) % call->count;

        if (scenario_submits(s, &s->items[item], role)) {
            submit_item(world, member, item, role);
        }
    }
}

bool world_is_done(const struct world *world, int rank)
{
    return world->ranks[rank].wave == world->scenario->wave_count;
}

bool world_step(struct world *world, int rank)
{
    const struct scenario *s = world->scenario;
    struct sim_rank *r = &world->ranks[rank];

    if (r->dead || world_is_done(world, rank)) {
        return false;
    }
    if (r->next < r->order_count) {
        const struct sim_call *call = &s->calls[r->order[r->next]];

        const int member = s->sets[call->set].member_of[rank];

        if (call_is_blocked(world, call, member) || join_blocks(world, call, member)) {
            return false;
        }
        r->next++;
        make_call(world, call, rank);
        return true;
    }
    if (r->waits && r->awaited > 0) {
        return false;
    }
    r->wave++;
    if (!world_is_done(world, rank)) {
        begin_wave(world, rank);
    }
    return true;
}

static void take_report(
        struct world *world, struct sim_member *member, const char *text, size_t len)
{
    world_log(
            world, "rank %d, set %d: %.*s", member->rank, member->set, (int)len, text);
    if (world->on_stall != NULL) {
        world->on_stall(world, member, text, len);
    }
}

static void send_to(struct world *world, const struct sim_member *member, int to,
        const uint8_t *bytes, size_t len)
{
    const struct message head = { .from = member->rank,
        .to = world->scenario->sets[member->set].ranks[to],
        .set = member->set,
        .shown = member->board.word_count,
        .len = len };

    if (!world->ranks[head.to].dead) {
        network_send(&world->network, &head, bytes);
    }
}

/* To the children of the node: over the board, or, if it is full, by messages. */
static void log_action(struct world *world, struct sim_member *member,
        const struct action *action, const uint8_t *bytes)
{
    const struct tree *tree = &member->negotiator.tree;

    if (!rng_chance(&world->rng, world->scenario->full_chance)) {
        board_log(member, bytes, action->len);
        return;
    }
    for (int c = 0; c < tree->near_count; c++) {
        send_to(world, member, tree->near[c], bytes, action->len);
    }
}

static void digest_action(struct world *world, const struct sim_member *member,
        const struct action *action, const uint8_t *bytes)
{
    uint64_t hash = hash_u64(world->digest.actions, (uint64_t)member->rank);

    hash = hash_u64(hash, (uint64_t)action->kind << 32 | (uint32_t)action->to);
    hash = hash_u64(hash, action->index);
    hash = hash_u64(hash, action->shown);
    world->digest.actions = hash_bytes(hash, bytes, action->len);
}

static void run_actions(struct world *world, struct sim_member *member)
{
    const struct negotiator *n = &member->negotiator;

    for (size_t i = 0; i < n->outbox.action_count; i++) {
        const struct action *action = &n->outbox.actions[i];
        const uint8_t *bytes = n->outbox.arena.data + action->offset;

        digest_action(world, member, action, bytes);
        switch (action->kind) {
        case ACTION_SEND:
            send_to(world, member, action->to, bytes, action->len);
            break;
        case ACTION_STALL:
            take_report(world, member, (const char *)bytes, action->len);
            break;
        case ACTION_LOG:
            log_action(world, member, action, bytes);
            break;
        case ACTION_SHOW:
            world_log(world, "rank %d, set %d: word %zu shows %llx", member->rank,
                    member->set, action->index, (unsigned long long)action->shown);
            board_show(member, action->index, action->shown);
            break;
        }
    }
}

bool world_turn(struct world *world, int rank)
{
    const struct sim_rank *r = &world->ranks[rank];
    bool moved = false;

    for (int s = 0; s < world->scenario->set_count && !world->stop && !r->dead; s++) {
        struct sim_member *member = r->members[s];

        if (member == NULL || !member->dirty) {
            continue;
        }
        moved = true;
        world_touch(world, member);
        world_check_event(
                world, member, negotiator_flush(&member->negotiator), "flush");
        if (world->stop) {
            return true;
        }
        member->dirty = false;
        run_actions(world, member);
        oracle_take(world, member);
        negotiator_clear(&member->negotiator);
    }
    return moved;
}

void world_deliver(struct world *world, struct message *message)
{
    struct sim_member *member = world->ranks[message->to].members[message->set];
    const int from = world->scenario->sets[message->set].member_of[message->from];

    world_log(world, "rank %d receives kind %d of %zu bytes from rank %d in set %d",
            message->to, message->len > 0 ? message->bytes[0] : -1, message->len,
            message->from, message->set);
    board_read_before(world, member, message);
    world_touch(world, member);
    world_check_event(world, member,
            negotiator_receive(&member->negotiator, from, message->bytes, message->len),
            "receive");
    free(message);
}

bool world_tick(struct world *world, int rank)
{
    struct sim_rank *r = &world->ranks[rank];
    bool ticked = false;

    for (int s = 0; s < world->scenario->set_count && !r->dead; s++) {
        struct sim_member *member = r->members[s];
        tutti_status status;

        if (member == NULL) {
            continue;
        }
        member->negotiator.now_ns = world->now_ns + r->skew_ns + 1;
        if (member->negotiator.now_ns < negotiator_next_tick(&member->negotiator)) {
            continue;
        }
        ticked = true;
        world_touch(world, member);
        status = negotiator_tick(&member->negotiator);
        if (status == TUTTI_ERR_TIMEOUT && world->scenario->stall_fail_ns > 0) {
            world_log(world, "rank %d: %s", rank, tutti_last_error());
            world_kill(world, rank);
            return true;
        }
        world_check_event(world, member, status, "tick");
    }
    return ticked;
}

/* ------------------------------------------------------------------ meddling */

void world_cancel(struct world *world, struct slot *slot)
{
    const struct scenario *s = world->scenario;
    struct sim_call *call = &s->calls[s->items[slot->item].call];
    struct sim_member *member = &world->members[call->set][slot->member];

    world_log(world, "rank %d cancels \"%s\" in set %d", member->rank,
            s->names[slot->name].text, call->set);
    call->cancelled = true;
    world_touch(world, member);
    world_check_event(world, member,
            negotiator_cancel(&member->negotiator, &slot->request), "cancel");
}

void world_kill(struct world *world, int rank)
{
    struct sim_rank *r = &world->ranks[rank];

    world_log(world, "rank %d is gone", rank);
    r->dead = true;
    world->killed = true;
    network_drop(&world->network, rank);
}
