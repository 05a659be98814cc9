/*
 * The scheduler: a seeded choice among everything that can happen.
 */
#include "world.h"

/* Far above what a correct run needs. */
#define EVENTS_MAX 1000000

typedef bool (*rank_event)(struct world *world, int rank);

/* An event at some rank, where it is possible; ranks are tried from a random one on. */
static bool try_ranks(struct world *world, rank_event event)
{
    const int ranks = world->scenario->ranks;
    const int start = rng_below(&world->rng, ranks);

    for (int i = 0; i < ranks; i++) {
        if (event(world, (start + i) % ranks)) {
            return true;
        }
    }
    return false;
}

/* A third of the ranks is far away in some scenarios: their messages linger. */
static bool is_slow(struct world *world, int link)
{
    const int slow = world->scenario->slow_chance;

    return slow > 0 && world->network.busy[link] % 3 == 0 &&
            rng_chance(&world->rng, slow);
}

static bool try_delivery(struct world *world, bool patient)
{
    struct network *network = &world->network;
    const int count = network->busy_count;
    const int start = count > 0 ? rng_below(&world->rng, count) : 0;

    for (int i = 0; i < count; i++) {
        const int index = (start + i) % count;
        const struct sim_rank *target = &world->ranks[network_target(network, index)];

        if (!rank_is_awake(target) || (patient && is_slow(world, index))) {
            continue;
        }
        meddle_deliver(world, network_take(network, index));
        return true;
    }
    return false;
}

static bool try_tick(struct world *world, int rank)
{
    return rank_is_awake(&world->ranks[rank]) && world_tick(world, rank);
}

/* One event, by weight; if that kind is impossible, any other. */
static bool happen(struct world *world)
{
    const struct scenario *s = world->scenario;
    const int total =
            s->step_weight + s->deliver_weight + s->turn_weight + s->look_weight;
    const int choice = rng_below(&world->rng, total);
    bool moved;

    if (choice < s->step_weight) {
        moved = try_ranks(world, world_step);
    } else if (choice < s->step_weight + s->deliver_weight) {
        moved = try_delivery(world, true);
    } else if (choice < total - s->turn_weight) {
        moved = try_ranks(world, board_look);
    } else {
        moved = try_ranks(world, world_turn);
    }
    return moved || try_ranks(world, world_turn) || try_delivery(world, false) ||
            try_ranks(world, world_step) || try_ranks(world, board_look_closely);
}

static bool count_event(struct world *world)
{
    if (++world->events > EVENTS_MAX) {
        world_fail(world, CHECK_DEADLOCK, "it goes on for ever");
    }
    return !world->stop;
}

void schedule_run(struct world *world)
{
    const struct scenario *s = world->scenario;

    while (!world->stop && happen(world) && count_event(world)) {
        world->now_ns += rng_below(&world->rng, 1000);
        meddle(world);
        if (world->ticks_left > 0 && rng_chance(&world->rng, s->tick_chance) &&
                try_ranks(world, try_tick)) {
            world->ticks_left--;
        }
    }
}

void schedule_settle(struct world *world)
{
    while (!world->stop &&
            (try_ranks(world, world_turn) || try_delivery(world, false) ||
                    try_ranks(world, board_look_closely)) &&
            count_event(world)) {
    }
}

void schedule_wake_all(struct world *world)
{
    do {
        while (world->network.busy_count > 0 && !world->stop) {
            world_deliver(world, network_take(&world->network, 0));
        }
    } while (!world->stop &&
            (try_ranks(world, board_look_asleep) || try_ranks(world, world_turn)) &&
            count_event(world));
}
