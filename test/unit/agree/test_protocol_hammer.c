/*
 * What a broken peer or a failing allocator can do to a negotiator: return an error.
 *
 * The scenes are played up to some step; then a message that was valid somewhere is
 * damaged and delivered. Sanitizers watch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree/protocol.h"
#include "base/mem.h"
#include "scene.h"
#include "test/sim/rng.h"
#include "test/unit/unit.h"

enum {
    CORPUS_MAX = 1024,
    ROUNDS = 4000,
    PLANNED_ROUNDS = 1500,
    ROUNDS_OF_NAMES = 12, /* of the scene; then come gathers and joins */
    LATE_ROUNDS = 10,
    PLAN_ROUNDS = 24, /* before them, if there are plans */
    STEPS = 4 * (ROUNDS_OF_NAMES + LATE_ROUNDS)
};

/* A message as it was sent, and at which step of the scene. */
struct specimen {
    int from, to, step;
    size_t len;
    uint8_t bytes[600];
};

struct corpus {
    struct specimen specimens[CORPUS_MAX];
    int count;
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

static void keep(struct corpus *corpus, const struct scene_message *message, int step)
{
    struct specimen *specimen = &corpus->specimens[corpus->count];

    if (corpus->count == CORPUS_MAX || message->len > sizeof specimen->bytes) {
        return;
    }
    corpus->count++;
    *specimen = (struct specimen){
        .from = message->from, .to = message->to, .step = step, .len = message->len
    };
    memcpy(specimen->bytes, message->bytes, message->len);
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

/* Delivers everything; with a corpus, keeps it too. */
static tutti_status deliver_all(struct scene *s, struct corpus *corpus, int step)
{
    tutti_status status = scene_try_look(s);

    while (s->first != NULL && status == TUTTI_OK) {
        if (corpus != NULL) {
            keep(corpus, s->first, step);
        }
        status = scene_try_deliver(s);
        if (s->first == NULL && status == TUTTI_OK) {
            status = scene_try_look(s);
        }
    }
    return status;
}

/* Plays up to a step; with a corpus, keeps every message. */
static tutti_status play(struct scene *s, int steps, struct corpus *corpus)
{
    tutti_status status = TUTTI_OK;

    for (int step = 0; step < steps && status == TUTTI_OK; step++) {
        status = play_step(s, step);
        if (status == TUTTI_OK && step % 7 == 6) {
            status = tick_all(s);
        }
        if (status == TUTTI_OK) {
            status = deliver_all(s, corpus, step);
        }
    }
    return status;
}

static bool has_kind(const struct corpus *corpus, uint8_t kind)
{
    for (int i = 0; i < corpus->count; i++) {
        if (corpus->specimens[i].bytes[0] == kind) {
            return true;
        }
    }
    return false;
}

static void collect(struct corpus *corpus, enum scene_way way)
{
    static struct scene scene;

    corpus->count = 0;
    assert_true(begin(&scene, 4, way));
    assert_int_equal(play(&scene, steps_of(way), corpus), TUTTI_OK);
    assert_true(corpus->count > 60 && corpus->count < CORPUS_MAX);
    assert_int_equal(has_kind(corpus, KIND_ALL_ARRIVED), way == SCENE_TREE);
    assert_int_equal(has_kind(corpus, KIND_ARRIVALS), way == SCENE_DIRECT);
    for (int r = 0; r < scene.size && way != SCENE_SLOW; r++) {
        assert_true(scene.ranks[r].stats.planned_steps >= 5);
        assert_true(scene.ranks[r].stats.plan_exits >= 2);
    }
    scene_fini(&scene);
}

/* Cuts, flips, replaces or repeats; returns the new length. */
static size_t damage(struct rng *rng, uint8_t *bytes, size_t len)
{
    const int how = rng_below(rng, 5);

    if (how == 0) {
        return (size_t)rng_below(rng, (int)len);
    }
    for (int i = rng_below(rng, 4); how <= 2 && i >= 0; i--) {
        const int at = rng_below(rng, (int)len);

        if (how == 1) {
            bytes[at] ^= (uint8_t)(1 << rng_below(rng, 8));
        } else {
            bytes[at] = (uint8_t)rng_next(rng);
        }
    }
    for (size_t i = 1; i < len && how == 3; i++) {
        bytes[i] = (uint8_t)rng_next(rng);
    }
    return len;
}

/* Delivers a damaged specimen and goes on a little; whatever comes must be an error. */
static void strike(struct rng *rng, const struct corpus *corpus, enum scene_way way)
{
    static struct scene scene;
    struct specimen specimen = corpus->specimens[rng_below(rng, corpus->count)];
    const int before =
            rng_chance(rng, 70) ? specimen.step : rng_below(rng, steps_of(way));
    uint8_t *exact;
    size_t len;
    tutti_status status;

    assert_true(begin(&scene, 4, way));
    assert_int_equal(play(&scene, before, NULL), TUTTI_OK);
    len = damage(rng, specimen.bytes, specimen.len);
    /* An allocation of its own, so that reading past its end is noticed. */
    exact = malloc(len > 0 ? len : 1);
    assert_non_null(exact);
    memcpy(exact, specimen.bytes, len);
    status = negotiator_receive(&scene.ranks[specimen.to], specimen.from, exact, len);
    free(exact);
    if (status == TUTTI_OK) {
        assert_true(negotiator_is_valid(&scene.ranks[specimen.to]));
        status = scene_try_flush(&scene, specimen.to);
    }
    if (status == TUTTI_OK) {
        status = scene_try_run(&scene);
    }
    assert_true(status == TUTTI_OK || status == TUTTI_ERR_PROTOCOL);
    scene_fini(&scene);
}

static void strike_often(uint64_t seed, int rounds, enum scene_way way)
{
    static struct corpus corpus;
    struct rng rng = rng_seeded(seed);

    collect(&corpus, way);
    for (int i = 0; i < rounds; i++) {
        strike(&rng, &corpus, way);
    }
}

UNIT_TEST(test_damaged_messages_are_errors_at_worst)
{
    strike_often(1, ROUNDS, SCENE_SLOW);
}

UNIT_TEST(test_damaged_messages_of_plans)
{
    strike_often(3, PLANNED_ROUNDS, SCENE_TREE);
    strike_often(4, PLANNED_ROUNDS, SCENE_FLAGS);
    strike_often(6, PLANNED_ROUNDS, SCENE_DIRECT);
}

static void make_noise(struct rng *rng, enum scene_way way, int steps)
{
    static struct scene scene;
    uint8_t bytes[64];
    const size_t len = (size_t)rng_range(rng, 1, sizeof bytes);
    tutti_status status;

    assert_true(begin(&scene, 4, way));
    assert_int_equal(play(&scene, steps, NULL), TUTTI_OK);
    for (size_t j = 0; j < len; j++) {
        bytes[j] = (uint8_t)rng_next(rng);
    }
    bytes[0] = (uint8_t)rng_range(rng, KIND_ANNOUNCE, KIND_ARRIVALS);
    status = negotiator_receive(
            &scene.ranks[1], rng_chance(rng, 50) ? 0 : 3, bytes, len);
    assert_true(status == TUTTI_OK || status == TUTTI_ERR_PROTOCOL);
    scene_fini(&scene);
}

UNIT_TEST(test_noise_is_an_error_at_worst)
{
    struct rng rng = rng_seeded(2);

    for (int i = 0; i < ROUNDS; i++) {
        make_noise(&rng, SCENE_SLOW, 0);
    }
    for (int i = 0; i < PLANNED_ROUNDS; i++) {
        make_noise(&rng, SCENE_TREE, rng_below(&rng, 4 * PLAN_ROUNDS));
    }
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
        assert_int_equal(play(&scene, 20 + rng_below(&rng, 28), NULL), TUTTI_OK);
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
