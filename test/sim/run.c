/*
 * One run of the simulator.
 */
#include "run.h"

#include <string.h>

static bool someone_waits(const struct world *world)
{
    for (int r = 0; r < world->scenario->ranks; r++) {
        if (rank_is_awake(&world->ranks[r])) {
            return true;
        }
    }
    return false;
}

static void check_programs(struct world *world)
{
    for (int r = 0; r < world->scenario->ranks; r++) {
        if (!world_is_done(world, r)) {
            world_fail(world, CHECK_DEADLOCK, "rank %d does not go on in wave %d", r,
                    world->ranks[r].wave);
        }
    }
}

static void finish(struct world *world)
{
    if (world->tainted || world->killed) {
        return;
    }
    check_programs(world);
    if (!world->stop) {
        oracle_finish(world);
    }
    if (!world->stop && someone_waits(world)) {
        stalls_check(world);
    }
}

static void count_numbers(const struct world *world, struct run_result *result)
{
    result->by_number = 0;
    result->by_name = 0;
    result->reused = 0;
    result->operands = world->operands;
    for (int set = 0; set < world->scenario->set_count; set++) {
        const struct negotiator *negotiator = &world->members[set][0].negotiator;
        const uint64_t given =
                negotiator->names.next_number - world->scenario->first_number;

        result->by_number += negotiator->stats.by_number;
        result->by_name += negotiator->stats.by_name;
        result->reused +=
                given > negotiator->bits.places ? given - negotiator->bits.places : 0;
    }
}

void run_seed(uint64_t seed, bool verbose, struct run_result *result)
{
    struct scenario *scenario = scenario_create(seed);
    struct world *world = world_create(scenario, verbose);

    schedule_run(world);
    if (!world->stop && !world->killed && !someone_waits(world)) {
        schedule_wake_all(world);
    }
    if (!world->stop) {
        finish(world);
    }
    if (world->check != CHECK_NONE && verbose) {
        world_dump(world);
    }
    result->check = world->check;
    result->events = world->events;
    result->digest = world->digest;
    result->ranks = scenario->ranks;
    result->mode = scenario->mode;
    count_numbers(world, result);
    memcpy(result->finding, world->finding, sizeof result->finding);
    world_destroy(world);
    scenario_destroy(scenario);
}
