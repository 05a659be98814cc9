/*
 * Wires.
 */
#include "wires.h"

#include "grow.h"
#include "oracle.h"

/* How a batch is under way. */
enum flight_kind {
    FLIGHT_RIDES,
    FLIGHT_AGREED,
    FLIGHT_DROPPED,
    FLIGHT_WALKS
};

/** What a first message means. Its receiver does not see it, but for `arrives`. */
struct header {
    uint64_t epoch, index; /* of the batch                                      */
    bool arrives;
    struct flight *from; /* waits until it is taken; NULL: a copy was sent    */
};

/** A batch of a lane at a member. */
struct flight {
    struct flight *next; /* behind it on its lane */
    enum flight_kind kind;
    uint64_t epoch, index, sequence;
    bool launched;
    uint8_t *heard; /* [members] op_word of each; owned                  */
    int missing; /* members that were not heard                       */
    int untaken; /* messages of it that nobody has taken              */
    struct slot **slots; /* whose memory it uses; owned                       */
    size_t slot_count;
};

/** What heard says. */
enum {
    UNHEARD,
    ARRIVES,
    WALKS
};

/** A lane at a member. */
struct wire_lane {
    struct flight *flights; /* that have not ended; the oldest first; owned      */
    uint64_t sequence; /* of the next one that is launched                  */
};

/** Messages of one sender to one receiver with one tag. */
struct wire {
    struct header *headers; /* owned */
    int count, taken;
};

struct sim_wires {
    int members, window;
    struct wire_lane *lanes; /* [member][lane]; owned              */
    struct wire *wires; /* [to][from][lane][slot]; owned      */
};

/* ----------------------------------------------------------------- storage */

struct sim_wires *sim_wires_create(int members, int window)
{
    const size_t lanes = (size_t)members * SIM_LANES_MAX;
    struct sim_wires *wires = sim_alloc(1, sizeof *wires);

    wires->members = members;
    wires->window = window;
    wires->lanes = sim_alloc(lanes, sizeof *wires->lanes);
    wires->wires =
            sim_alloc(lanes * (size_t)members * (size_t)window, sizeof *wires->wires);
    return wires;
}

static void flight_free(struct flight *flight)
{
    free(flight->heard);
    free(flight->slots);
    free(flight);
}

void sim_wires_destroy(struct sim_wires *wires)
{
    if (wires == NULL) {
        return;
    }
    for (int l = 0; l < wires->members * SIM_LANES_MAX; l++) {
        while (wires->lanes[l].flights != NULL) {
            struct flight *flight = wires->lanes[l].flights;

            wires->lanes[l].flights = flight->next;
            flight_free(flight);
        }
    }
    for (int w = 0; w < wires->members * wires->members * SIM_LANES_MAX * wires->window;
            w++) {
        free(wires->wires[w].headers);
    }
    free(wires->lanes);
    free(wires->wires);
    free(wires);
}

static struct sim_wires *wires_of(
        const struct world *world, const struct sim_member *member)
{
    return world->wires[member->set];
}

static struct wire_lane *lane_of(
        const struct sim_wires *wires, const struct sim_member *member, uint32_t lane)
{
    return &wires->lanes[(uint32_t)member->member * SIM_LANES_MAX + lane];
}

static struct wire *wire_of(const struct sim_wires *wires, int to, int from,
        uint32_t lane, uint64_t sequence)
{
    const int pair = to * wires->members + from;
    const int place = pair * SIM_LANES_MAX + (int)lane;
    const int tag = (int)(sequence % (uint64_t)wires->window);

    return &wires->wires[place * wires->window + tag];
}

/* A damaged message, or a dead rank, may do anything to the others. */
static bool is_judged(const struct world *world)
{
    return !world->tainted && !world->killed;
}

/* ------------------------------------------------------- what the engine does */

bool wires_let_ride(void *user, const struct plan *plan)
{
    const uint64_t *seed = user;

    for (uint32_t i = 0; i < plan->item_count; i++) {
        const int collective = plan->items[i]->collective;

        if (collective != TUTTI_ALLREDUCE && collective != TUTTI_REDUCE &&
                collective != TUTTI_REDUCESCATTER) {
            return false;
        }
    }
    return hash_u64(*seed, (uint64_t)plan->item_count * 64 + plan->batch_count) % 8 > 0;
}

static struct flight *flight_add(struct world *world, struct sim_member *member,
        uint32_t lane, enum flight_kind kind, uint64_t index)
{
    const struct sim_wires *wires = wires_of(world, member);
    struct flight **at = &lane_of(wires, member, lane)->flights;
    struct flight *flight = sim_alloc(1, sizeof *flight);

    flight->kind = kind;
    flight->epoch = member->negotiator.lanes[lane].epoch;
    flight->index = index;
    flight->heard = sim_alloc((size_t)wires->members, sizeof *flight->heard);
    flight->missing = wires->members - 1;
    if (member->negotiator.lanes[lane].current != NULL) {
        flight->epoch = member->negotiator.lanes[lane].current->epoch;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = flight;
    return flight;
}

static void flight_lend(struct world *world, struct flight *flight, struct slot *slot)
{
    if (slot == NULL || !slot->pending || slot->lent) {
        if (!is_judged(world)) {
            return;
        }
        world_fail(world, CHECK_WIRES, "a batch begins with %s, which %s",
                slot != NULL ? world->scenario->names[slot->name].text : "a name",
                slot != NULL && slot->pending ? "is under way" : "was not submitted");
        return;
    }
    flight->slots = sim_grow(flight->slots, (int)flight->slot_count, sizeof(void *));
    flight->slots[flight->slot_count++] = slot;
    slot->lent = true;
}

void wires_begin(struct world *world, struct sim_member *member,
        const struct action *action, const uint8_t *cookies)
{
    struct flight *flight =
            flight_add(world, member, action->lane, FLIGHT_RIDES, action->word);

    world_log(world, "rank %d, set %d, lane %u: begins batch %llu", member->rank,
            member->set, action->lane, (unsigned long long)action->word);
    for (size_t at = 0; at < action->len; at += sizeof(struct slot *)) {
        struct slot *slot;

        memcpy(&slot, cookies + at, sizeof slot);
        flight_lend(world, flight, slot);
    }
}

static void give_back(struct flight *flight)
{
    for (size_t i = 0; i < flight->slot_count; i++) {
        flight->slots[i]->lent = false;
    }
    flight->slot_count = 0;
}

void wires_walk(
        struct world *world, struct sim_member *member, const struct action *action)
{
    struct wire_lane *lane = lane_of(wires_of(world, member), member, action->lane);

    world_log(world,
            "rank %d, set %d, lane %u: drops from %llu on, walks %llu from %llu",
            member->rank, member->set, action->lane, (unsigned long long)action->from,
            (unsigned long long)action->detail, (unsigned long long)action->word);
    for (struct flight *f = lane->flights; f != NULL; f = f->next) {
        if (f->kind != FLIGHT_RIDES || f->index < action->from) {
            continue;
        }
        f->kind = FLIGHT_DROPPED;
        if (!f->launched) {
            give_back(f);
            f->kind = FLIGHT_WALKS;
        }
    }
    for (uint64_t i = 0; i < action->detail; i++) {
        (void)flight_add(world, member, action->lane, FLIGHT_WALKS, action->word + i);
    }
}

static struct flight *find_flight(const struct wire_lane *lane, uint64_t index)
{
    for (struct flight *f = lane->flights; f != NULL; f = f->next) {
        if (f->kind == FLIGHT_RIDES && f->index == index) {
            return f;
        }
    }
    return NULL;
}

static bool is_of(
        const struct flight *flight, const struct outcome *outcomes, size_t count)
{
    for (size_t i = 0; i < count && i < flight->slot_count; i++) {
        if (flight->slots[i] != outcomes[i].cookie) {
            return false;
        }
    }
    return flight->slot_count == count && flight->missing == 0;
}

void wires_agree(struct world *world, struct sim_member *member,
        const struct outcome *outcomes, size_t count)
{
    const struct sim_wires *wires = wires_of(world, member);
    struct flight *flight;

    if (wires == NULL) {
        return;
    }
    if (!outcomes->begun) {
        /* The plan may be gone; all members count alike what commits on a lane. */
        flight = flight_add(world, member, outcomes->lane, FLIGHT_AGREED, 0);
        flight->epoch = UINT64_MAX;
        flight->index = outcomes->turn;
        return;
    }
    flight = find_flight(lane_of(wires, member, outcomes->lane), outcomes->index);
    if (flight == NULL || !is_of(flight, outcomes, count)) {
        if (is_judged(world)) {
            world_fail(world, CHECK_WIRES,
                    "batch %llu of lane %u is agreed at rank %d, and %s",
                    (unsigned long long)outcomes->index, outcomes->lane, member->rank,
                    flight == NULL ? "was not begun"
                                   : "is another one, or not all were heard");
        }
        return;
    }
    flight->kind = FLIGHT_AGREED;
    give_back(flight);
}

void wires_check_returned(struct world *world, const struct slot *slot)
{
    if (slot->lent && is_judged(world)) {
        world_fail(world, CHECK_WIRES,
                "\"%s\" ends at member %d while a batch that was begun uses its memory",
                world->scenario->names[slot->name].text, slot->member);
    }
}

/* ------------------------------------------------------------------ events */

/* Large messages are sent only when they are received; who walks sends empty ones. */
static bool waits_to_be_taken(const struct world *world, const struct flight *flight)
{
    return flight->kind != FLIGHT_WALKS &&
            hash_u64(world->scenario->seed, flight->epoch * 1024 + flight->index) % 3 ==
            0;
}

static void launch(struct world *world, const struct sim_member *member, uint32_t lane,
        struct flight *flight)
{
    const struct sim_wires *wires = wires_of(world, member);
    const bool waits = waits_to_be_taken(world, flight);

    flight->launched = true;
    flight->sequence = lane_of(wires, member, lane)->sequence++;
    for (int to = 0; to < wires->members; to++) {
        struct wire *wire = wire_of(wires, to, member->member, lane, flight->sequence);

        if (to == member->member) {
            continue;
        }
        wire->headers = sim_grow(wire->headers, wire->count, sizeof *wire->headers);
        wire->headers[wire->count++] = (struct header){ .epoch = flight->epoch,
            .index = flight->index,
            .arrives = flight->kind != FLIGHT_WALKS,
            .from = waits ? flight : NULL };
        flight->untaken += waits ? 1 : 0;
    }
}

/* The first that waits on a lane, when the batch a window before it has ended. */
static bool launch_next(
        struct world *world, const struct sim_member *member, uint32_t lane)
{
    const struct sim_wires *wires = wires_of(world, member);
    const struct wire_lane *l = lane_of(wires, member, lane);
    struct flight *next = l->flights;

    while (next != NULL && next->launched) {
        next = next->next;
    }
    if (next == NULL ||
            (l->flights->launched &&
                    l->sequence - l->flights->sequence >= (uint64_t)wires->window)) {
        return false;
    }
    launch(world, member, lane, next);
    return true;
}

static void take(struct world *world, const struct sim_member *member,
        struct flight *flight, int from, struct header *header)
{
    if (header->from != NULL) {
        header->from->untaken--;
    }
    flight->heard[from] = header->arrives ? ARRIVES : WALKS;
    flight->missing--;
    if (is_judged(world) &&
            (header->epoch != flight->epoch || header->index != flight->index)) {
        world_fail(world, CHECK_WIRES,
                "rank %d takes batch %llu of epoch %llu of member %d for %llu of %llu",
                member->rank, (unsigned long long)header->index,
                (unsigned long long)header->epoch, from,
                (unsigned long long)flight->index, (unsigned long long)flight->epoch);
    }
}

/* A first message arrives at a batch. */
static bool receive_for(struct world *world, const struct sim_member *member,
        uint32_t lane, struct flight *flight)
{
    const struct sim_wires *wires = wires_of(world, member);
    const int start = rng_below(&world->rng, wires->members);

    for (int i = 0; i < wires->members && flight->launched; i++) {
        const int from = (start + i) % wires->members;
        struct wire *wire =
                wire_of(wires, member->member, from, lane, flight->sequence);

        if (flight->heard[from] == UNHEARD && wire->taken < wire->count) {
            take(world, member, flight, from, &wire->headers[wire->taken++]);
            return true;
        }
    }
    return false;
}

/* A batch ends that has sent and received everything, if it may. */
static bool end_one(
        const struct world *world, const struct sim_member *member, uint32_t lane)
{
    struct flight **at = &lane_of(wires_of(world, member), member, lane)->flights;

    while (*at != NULL) {
        struct flight *flight = *at;

        if (flight->launched && flight->kind != FLIGHT_RIDES && flight->missing == 0 &&
                flight->untaken == 0) {
            *at = flight->next;
            give_back(flight);
            flight_free(flight);
            return true;
        }
        at = &flight->next;
    }
    return false;
}

static bool receive_one(
        struct world *world, const struct sim_member *member, uint32_t lane)
{
    struct flight *f = lane_of(wires_of(world, member), member, lane)->flights;
    bool received = false;

    while (f != NULL && !received) {
        received = rng_chance(&world->rng, 70) && receive_for(world, member, lane, f);
        f = f->next;
    }
    f = lane_of(wires_of(world, member), member, lane)->flights;
    while (f != NULL && !received) {
        received = receive_for(world, member, lane, f);
        f = f->next;
    }
    return received;
}

/* ------------------------------------------------------- what the engine sees */

static bool has_riders(const struct wire_lane *lane)
{
    for (const struct flight *f = lane->flights; f != NULL; f = f->next) {
        if (f->kind != FLIGHT_AGREED) {
            return true;
        }
    }
    return false;
}

/* The batch that is to be decided next, when it is launched. */
static const struct flight *undecided(
        const struct wire_lane *lane, const struct plan *plan)
{
    for (const struct flight *f = lane->flights; f != NULL; f = f->next) {
        if (f->index == plan->decided && f->epoch == plan->epoch && f->launched &&
                f->kind != FLIGHT_AGREED) {
            return f;
        }
    }
    return NULL;
}

/* Tells the negotiator what was heard of one member. */
static bool listen(struct world *world, struct sim_member *member, uint32_t lane)
{
    const struct sim_wires *wires = wires_of(world, member);
    const struct plan *plan = member->negotiator.lanes[lane].current;
    const struct flight *flight = undecided(lane_of(wires, member, lane), plan);
    const int start = rng_below(&world->rng, wires->members);

    for (int i = 0; i < wires->members && flight != NULL; i++) {
        const int from = (start + i) % wires->members;

        if (flight->heard[from] == UNHEARD || !plan_listens(plan, from)) {
            continue;
        }
        world_log(world, "rank %d, set %d, lane %u: member %d %s batch %llu",
                member->rank, member->set, lane, from,
                flight->heard[from] == ARRIVES ? "arrives at" : "walks",
                (unsigned long long)flight->index);
        world_touch(world, member);
        world_check_event(world, member,
                negotiator_heard(&member->negotiator, lane, from,
                        flight->heard[from] == ARRIVES),
                "heard");
        return true;
    }
    return false;
}

static bool look_at_lane(struct world *world, struct sim_member *member, uint32_t lane)
{
    const struct plan *plan = member->negotiator.lanes[lane].current;

    /* An engine looks when it has done what the negotiator wishes. */
    if (plan == NULL || !plan->rides || plan->state == PLAN_SLOW || member->dirty) {
        return false;
    }
    if (plan->state == PLAN_DRAINING && !plan->drained &&
            !has_riders(lane_of(wires_of(world, member), member, lane))) {
        world_log(world, "rank %d, set %d, lane %u: has drained", member->rank,
                member->set, lane);
        world_touch(world, member);
        world_check_event(world, member, negotiator_drained(&member->negotiator, lane),
                "drained");
        return true;
    }
    return listen(world, member, lane);
}

static bool move_lane(struct world *world, struct sim_member *member, uint32_t lane)
{
    if (rng_chance(&world->rng, 40) && look_at_lane(world, member, lane)) {
        return true;
    }
    if (rng_chance(&world->rng, 50) && end_one(world, member, lane)) {
        return true;
    }
    return launch_next(world, member, lane) || receive_one(world, member, lane) ||
            end_one(world, member, lane) || look_at_lane(world, member, lane);
}

bool world_wire_asleep(struct world *world, int rank)
{
    const struct scenario *s = world->scenario;
    const int start = rng_below(&world->rng, SIM_LANES_MAX);

    for (int set = 0; set < s->set_count; set++) {
        struct sim_member *member = world->ranks[rank].members[set];

        for (int l = 0; l < SIM_LANES_MAX && member != NULL &&
                world->wires[set] != NULL && !world->stop;
                l++) {
            if (move_lane(world, member, (uint32_t)((start + l) % SIM_LANES_MAX))) {
                return true;
            }
        }
    }
    return false;
}

bool wires_move(const struct world *world, int rank)
{
    for (int set = 0; set < world->scenario->set_count; set++) {
        const struct sim_member *member = world->ranks[rank].members[set];

        for (uint32_t l = 0;
                l < SIM_LANES_MAX && member != NULL && world->wires[set] != NULL; l++) {
            for (const struct flight *f =
                            lane_of(world->wires[set], member, l)->flights;
                    f != NULL; f = f->next) {
                if (f->kind == FLIGHT_AGREED) {
                    return true;
                }
            }
        }
    }
    return false;
}

bool world_wire(struct world *world, int rank)
{
    const struct sim_rank *r = &world->ranks[rank];

    return !r->dead && (rank_is_awake(r) || wires_move(world, rank)) &&
            world_wire_asleep(world, rank);
}

void wires_finish(struct world *world, int set)
{
    const struct sim_wires *wires = world->wires[set];

    if (wires == NULL) {
        return;
    }
    for (int l = 0; l < wires->members * SIM_LANES_MAX; l++) {
        if (wires->lanes[l].flights != NULL) {
            world_fail(world, CHECK_WIRES,
                    "batch %llu of epoch %llu on lane %d never ends at member %d of "
                    "set %d",
                    (unsigned long long)wires->lanes[l].flights->index,
                    (unsigned long long)wires->lanes[l].flights->epoch,
                    l % SIM_LANES_MAX, l / SIM_LANES_MAX, set);
        }
    }
    for (int w = 0; w < wires->members * wires->members * SIM_LANES_MAX * wires->window;
            w++) {
        if (wires->wires[w].taken != wires->wires[w].count) {
            world_fail(
                    world, CHECK_WIRES, "a message of set %d is never received", set);
        }
    }
}
