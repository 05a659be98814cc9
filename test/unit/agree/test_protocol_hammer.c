/*
 * What noise in arrival flags or a failing allocator can do to a negotiator: return an error.
 * Sanitizers watch. Messages are damaged by test/fuzz/negotiator.c and the simulator.
 */
#include "base/mem.h"
#include "scene.h"
#include "test/sim/rng.h"
#include "test/unit/unit.h"

enum {
    PLANNED_ROUNDS = 1500,
    ROUNDS_OF_NAMES = 12, /* of the scene; then come gathers and joins */
    LATE_ROUNDS = 10,
    PLAN_ROUNDS = 24, /* before them, if there are plans */
    STEPS = 4 * (ROUNDS_OF_NAMES + LATE_ROUNDS)
};

static bool begin(struct scene *s, int size, enum scene_way way)
{
    if (!scene_init(
                s, way, size, way == SCENE_SLOW ? 2 : 4, way == SCENE_SLOW ? 1 : 3)) {
        return false;
    }
    for (int r = 0; r < size; r++) {
        s->ranks[r].config.stall_ns = 1000;
    }
    return true;
}

static int steps_of(enum scene_way way)
{
    return way == SCENE_SLOW ? STEPS : STEPS + 4 * PLAN_ROUNDS;
}

static const int64_t shape[] = { 5, 1 };

/* A gather to rank 0, which lists what it expects, with row counts that change. */
static tutti_status play_gather(struct scene *s, int rank, int round)
{
    static int64_t row_counts[SCENE_RANKS_MAX][1 + SCENE_RANKS_MAX];
    int64_t *numbers = row_counts[rank];
    struct request request = scene_collective(TUTTI_GATHER, "g", 5);

    numbers[0] = 1 + (round == 3 ? rank : 0);
    for (int m = 0; m < s->size; m++) {
        numbers[1 + m] = 1 + (round == 3 ? m : 0);
    }
    request.meta.row_counts = rank == 0 ? 1 + s->size : 1;
    request.meta.dims = numbers;
    return scene_try_say(s, rank, &request);
}

/* Four gathers; then rank 1 joins and the others go on a little before they do. */
static tutti_status play_late_step(struct scene *s, int rank, int round)
{
    const struct request join = scene_leave(META_JOIN);
    const struct request z = scene_request("z", 5);
    const struct request finalize = scene_leave(META_FINALIZE);

    if (round < 4) {
        return play_gather(s, rank, round);
    }
    if (round == LATE_ROUNDS - 1) {
        return scene_try_say(s, rank, &finalize);
    }
    if (rank == 1) {
        return round == 4 ? scene_try_say(s, rank, &join) : TUTTI_OK;
    }
    return scene_try_say(s, rank, round == LATE_ROUNDS - 2 ? &join : &z);
}

/*
 * Two tensors, again and again. The third iteration is planned; in the seventh one the last
 * rank cancels a tensor of it, and in the tenth it gives other metadata.
 */
static tutti_status play_plan_step(struct scene *s, int rank, int round)
{
    const bool last = rank == s->size - 1;
    const bool swapped = last && (round == 12 || round == 13);
    struct request request = scene_request(round % 2 == swapped ? "p" : "q", 5);
    tutti_status status;

    request.meta.count += last && round == 18 ? 1 : 0;
    status = scene_try_say(s, rank, &request);
    if (status == TUTTI_OK && last && round == 12) {
        status = negotiator_cancel(&s->ranks[rank], &request);
    }
    return status == TUTTI_OK ? scene_try_flush(s, rank) : status;
}

/* The step-th thing that happens in the scene: one rank submits. */
static tutti_status play_step(struct scene *s, int step)
{
    static const char *const names[] = { "x", "y", "longer name" };
    const int rank = 3 - step % 4;
    const int round = step / 4 - (s->ranks[0].config.lanes > 1 ? PLAN_ROUNDS : 0);
    struct request request = scene_request(names[(unsigned)round % 3], 5);

    if (round < 0) {
        return play_plan_step(s, rank, step / 4);
    }
    if (round >= ROUNDS_OF_NAMES) {
        return play_late_step(s, rank, round - ROUNDS_OF_NAMES);
    }

    if (round % 5 == 4 && rank == 3) {
        request.meta.count = 6;
    }
    if (round % 3 == 1) {
        request.meta.group = 9;
        request.meta.group_size = 1;
    }
    if (round % 3 == 2) {
        request.meta.ndim = 2;
        request.meta.dims = shape;
    }
    if (round == 8 && rank == 2) {
        const tutti_status status = scene_try_say(s, rank, &request);

        return status == TUTTI_OK ? negotiator_cancel(&s->ranks[rank], &request)
                                  : status;
    }
    return scene_try_say(s, rank, &request);
}

/* All ranks look for stalls. */
static tutti_status tick_all(struct scene *s)
{
    tutti_status status = TUTTI_OK;

    for (int r = 0; r < s->size && status == TUTTI_OK; r++) {
        s->ranks[r].now_ns += 1500;
        status = negotiator_tick(&s->ranks[r]);
        status = status == TUTTI_OK ? scene_try_flush(s, r) : status;
    }
    return status;
}

/* Plays up to a step. */
static tutti_status play(struct scene *s, int steps)
{
    tutti_status status = TUTTI_OK;

    for (int step = 0; step < steps && status == TUTTI_OK; step++) {
        status = play_step(s, step);
        if (status == TUTTI_OK && step % 7 == 6) {
            status = tick_all(s);
        }
        if (status == TUTTI_OK) {
            status = scene_try_run(s);
        }
    }
    return status;
}

/* Arrival flags that their owners would not write, while a plan is on. */
UNIT_TEST(test_noise_in_arrival_flags_is_an_error_at_worst)
{
    static struct scene scene;
    struct rng rng = rng_seeded(5);

    for (int i = 0; i < PLANNED_ROUNDS; i++) {
        const int rank = rng_below(&rng, 4);
        const struct plan *plan;
        struct arrival arrival;
        tutti_status status;

        assert_true(begin(&scene, 4, SCENE_FLAGS));
        assert_int_equal(play(&scene, 20 + rng_below(&rng, 28)), TUTTI_OK);
        plan = scene.ranks[rank].plans.lanes[1].current;
        assert_int_equal(plan->state, PLAN_ON);
        arrival =
                (struct arrival){ .count = plan->decided + (uint64_t)rng_below(&rng, 4),
                    .why = rng_chance(&rng, 50) ? PLAN_EXIT_TIMER : PLAN_EXIT_NONE };
        status = negotiator_arrival(&scene.ranks[rank], 1, (rank + 1) % 4,
                arrival_word(plan->epoch, &arrival),
                (uint64_t)rng_below(&rng, 2 * PLAN_EXIT_COUNT) << 32 |
                        (uint64_t)rng_below(&rng, 4));
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_PROTOCOL);
        assert_true(negotiator_is_valid(&scene.ranks[rank]));
        scene_fini(&scene);
    }
}

/* The scene of two ranks alone, from its beginning to its end. */
static tutti_status play_two(enum scene_way way)
{
    static struct scene scene;
    tutti_status status = TUTTI_OK;

    if (!begin(&scene, 2, way)) {
        return TUTTI_ERR_NO_MEMORY;
    }
    for (int step = 0; step < steps_of(way) && status == TUTTI_OK; step++) {
        if (3 - step % 4 < 2) {
            status = play_step(&scene, step);
        }
        if (status == TUTTI_OK) {
            status = scene_try_run(&scene);
        }
    }
    scene_fini(&scene);
    return status;
}

/* Each allocation fails once; LeakSanitizer sees what is left behind. */
static void fail_each_allocation(enum scene_way way)
{
    tutti_status status;
    uint64_t n = 0;

    do {
        mem_fail_at(++n);
        status = play_two(way);
        assert_true(status == TUTTI_OK || status == TUTTI_ERR_NO_MEMORY);
    } while (status != TUTTI_OK);
    mem_fail_at(0);
    assert_true(n > 50);
}

UNIT_TEST(test_every_failing_allocation_is_survived)
{
    for (int way = SCENE_SLOW; way < SCENE_WAYS; way++) {
        fail_each_allocation((enum scene_way)way);
    }
}
