/*
 * Plans, step by step: what becomes one and when, what ends it, and what becomes of it
 * then. Each scene is played with every way in which arrivals are told.
 */
#include <string.h>

#include "scene.h"
#include "test/unit/unit.h"

typedef void (*scene_script)(struct scene *s);

static void play_every_way(int most, int lanes, scene_script play)
{
    for (int way = SCENE_TREE; way < SCENE_WAYS; way++) {
        for (int size = 2; size <= most; size++) {
            struct scene *s = scene_begin_plans((enum scene_way)way, size, 20, lanes);

            play(s);
            scene_fini(s);
        }
    }
}

/* A test that plays its body with up to `most` ranks, with arrivals on every way. */
#define EVERY_WAY(name, most, lanes) \
    static void name##_way(struct scene *s); \
    UNIT_TEST(name) \
    { \
        play_every_way(most, lanes, name##_way); \
    } \
    static void name##_way(struct scene *s)

static void say(struct scene *s, int rank, const char *name)
{
    const struct request request = scene_request(name, 5);

    scene_play(s, rank, &request);
}

static void say_all(struct scene *s, const char *name)
{
    for (int r = 0; r < s->size; r++) {
        say(s, r, name);
    }
}

/* All submit it, and it is ready everywhere, on that lane. */
static void runs_on(struct scene *s, const char *name, uint32_t lane)
{
    scene_clear(s);
    say_all(s, name);
    assert_int_equal(s->end_count, s->size);
    assert_int_equal(scene_count(s, name, TUTTI_OK), s->size);
    for (int i = 0; i < s->end_count; i++) {
        assert_int_equal(s->ends[i].lane, lane);
    }
}

/* Names must outlive what is submitted under them. */
static const char *name_of(char letter)
{
    static const char *const names[] = { "g", "s", "u", "v", "x", "y", "z" };
    const char *found = NULL;

    for (size_t i = 0; i < sizeof names / sizeof *names && found == NULL; i++) {
        found = names[i][0] == letter ? names[i] : NULL;
    }
    assert_non_null(found);
    return found;
}

/* One after the other, each on the lane that the digit in its place says. */
static void run_in_turn(struct scene *s, const char *letters, const char *lanes)
{
    assert_int_equal(strlen(letters), strlen(lanes));
    for (size_t i = 0; letters[i] != '\0'; i++) {
        runs_on(s, name_of(letters[i]), (uint32_t)(lanes[i] - '0'));
    }
}

static void fire_timers(struct scene *s)
{
    for (int r = 0; r < s->size; r++) {
        const int64_t due = negotiator_next_tick(&s->ranks[r]);

        if (due < INT64_MAX) {
            scene_tick(s, r, due);
        }
    }
    scene_run(s);
}

/* All ranks have the same plan on a lane: its tensors, in this order, in that many batches. */
static void has_plan(
        const struct scene *s, int lane, const char *names, uint32_t batch_count)
{
    for (int r = 0; r < s->size; r++) {
        const struct plan *plan = s->ranks[r].plans.lanes[lane].current;

        assert_non_null(plan);
        assert_int_equal(plan->state, PLAN_ON);
        assert_int_equal(plan->item_count, strlen(names));
        assert_int_equal(plan->batch_count, batch_count);
        for (uint32_t i = 0; i < plan->item_count; i++) {
            assert_int_equal(plan->items[i]->name[0], names[i]);
        }
        assert_null(s->ranks[r].plans.lanes[lane].next);
    }
}

static void counts(
        const struct scene *s, uint64_t planned, uint64_t steps, uint64_t plan_exits)
{
    for (int r = 0; r < s->size; r++) {
        assert_int_equal(s->ranks[r].stats.planned, planned);
        assert_int_equal(s->ranks[r].stats.planned_steps, steps);
        assert_int_equal(s->ranks[r].stats.plan_exits, plan_exits);
    }
}

/* ------------------------------------------------------------------ learning */

EVERY_WAY(test_two_iterations_are_learnt, 3, 2)
{
    run_in_turn(s, "xyxy", "0000");
    assert_null(s->ranks[0].plans.lanes[1].current);
    /* The repeated name is the first one of the plan. */
    runs_on(s, "x", 1);
    has_plan(s, 1, "xy", 2);
    runs_on(s, "y", 1);
    counts(s, 2, 1, 0);
    for (int i = 0; i < 5; i++) {
        run_in_turn(s, "xy", "11");
    }
    counts(s, 12, 6, 0);
    assert_int_equal(s->ranks[0].plans.lanes[1].epoch, 1);
}

/* What is planned takes no room from names that come later: they may be planned, too. */
EVERY_WAY(test_plans_leave_room_for_numbers, 2, 3)
{
    for (int r = 0; r < s->size; r++) {
        s->ranks[r].config.number_capacity = 2;
    }
    run_in_turn(s, "xyxyxy", "000011");
    run_in_turn(s, "uvuvuv", "000022");
    run_in_turn(s, "xyuv", "1122");
    assert_int_equal(s->ranks[0].names.by_number.count, 4);
}

EVERY_WAY(test_names_used_once_stay_in_the_log, 3, 2)
{
    static const char *const losses[] = { "0", "1", "2", "3", "4" };

    for (int i = 0; i < 5; i++) {
        const uint32_t lane = i < 2 ? 0 : 1;

        runs_on(s, "x", lane);
        runs_on(s, losses[i], 0);
        runs_on(s, "y", lane);
    }
    has_plan(s, 1, "xy", 2);
    counts(s, 6, 3, 0);
}

/* "y" is in the first iteration and in the third, but not in the second. */
EVERY_WAY(test_two_iterations_in_a_row_count, 2, 3)
{
    run_in_turn(s, "xyxxyyy", "0001002");
    has_plan(s, 1, "x", 1);
    has_plan(s, 2, "y", 1);
}

/* A scalar in each micro step, and gradients in every second. */
EVERY_WAY(test_two_shapes_have_a_lane_each, 3, 3)
{
    run_in_turn(s, "ssgssgssg", "000110112");
    has_plan(s, 1, "s", 1);
    has_plan(s, 2, "g", 1);
    counts(s, 5, 5, 0);
}

/* ------------------------------------------------------------------- leaving */

/* After three iterations "z" is not made any more. */
EVERY_WAY(test_what_is_missing_twice_is_left_out, 3, 2)
{
    run_in_turn(s, "xyzxyzxyz", "000000111");
    run_in_turn(s, "xy", "11");
    scene_clear(s);
    say_all(s, "x");
    assert_int_equal(s->end_count, 0);
    fire_timers(s);
    assert_int_equal(scene_count(s, "x", TUTTI_OK), s->size);
    counts(s, 5, 1, 1);
    runs_on(s, "y", 0);
    /* It is missing for the second time. */
    runs_on(s, "x", 1);
    has_plan(s, 1, "xy", 2);
    runs_on(s, "y", 1);
    counts(s, 7, 2, 1);
    runs_on(s, "z", 0);
}

/* "y" is submitted when "x" is done; both are small enough to share a batch. */
EVERY_WAY(test_who_waits_in_a_batch_splits_it, 3, 2)
{
    for (int r = 0; r < s->size; r++) {
        s->ranks[r].config.limits =
                (struct planner_limits){ .batch_bytes = 1000, .tensor_bytes = 1000 };
    }
    run_in_turn(s, "xyxy", "0000");
    scene_clear(s);
    say_all(s, "x");
    has_plan(s, 1, "xy", 1);
    assert_int_equal(s->end_count, 0);
    fire_timers(s);
    assert_int_equal(scene_count(s, "x", TUTTI_OK), s->size);
    runs_on(s, "y", 0);
    counts(s, 0, 0, 1);
    for (int i = 0; i < 3; i++) {
        run_in_turn(s, "xy", "11");
    }
    has_plan(s, 1, "xy", 2);
    counts(s, 6, 3, 1);
}

/* The last rank cancels "y", which is not the next of the plan: the epoch is short. */
static void fail_an_epoch(struct scene *s)
{
    const struct request y = scene_request("y", 5);
    const int last = s->size - 1;

    say(s, last, "y");
    scene_cancel(s, last, &y);
    scene_run(s);
    runs_on(s, "x", 0);
    for (int r = 0; r < last; r++) {
        say(s, r, "y");
    }
    assert_int_equal(scene_count(s, "y", TUTTI_ERR_CANCELLED), s->size);
}

EVERY_WAY(test_failures_in_a_row_double_the_wait, 3, 2)
{
    static const int passed_over[] = { 0, 1, 3, 7 };

    run_in_turn(s, "xyxyxy", "000011");
    for (int k = 0; k < 4; k++) {
        fail_an_epoch(s);
        for (int i = 0; i < passed_over[k]; i++) {
            run_in_turn(s, "xy", "00");
        }
        run_in_turn(s, "xy", "11");
        assert_int_equal(s->ranks[0].stats.plan_exits, k + 1);
    }
    /* Four iterations forgive it all. */
    for (int i = 0; i < 3; i++) {
        run_in_turn(s, "xy", "11");
    }
    fail_an_epoch(s);
    runs_on(s, "x", 1);
}

/* All wait for the one that is second in the plan, until the timer ends that. */
static void times_out(struct scene *s, const char *second)
{
    for (int r = 0; r < s->size; r++) {
        s->ranks[r].waited = true;
    }
    scene_clear(s);
    say_all(s, second);
    assert_int_equal(s->end_count, 0);
    fire_timers(s);
    assert_int_equal(scene_count(s, second, TUTTI_OK), s->size);
}

static void later(struct scene *s, int64_t ns)
{
    for (int r = 0; r < s->size; r++) {
        s->ranks[r].now_ns += ns;
    }
}

/* An iteration is x and y, or y and x after each time that the timer ended an epoch. */
EVERY_WAY(test_an_epoch_pays_for_its_timer, 3, 2)
{
    static const struct {
        int64_t epoch_ns;
        int passed_over;
    } epochs[] = { { 0, 0 }, { 0, 1 }, { 0, 3 }, { 50000000, 0 }, { 0, 0 } };
    static const char *const names[] = { "x", "y" };

    run_in_turn(s, "xyxy", "0000");
    for (int k = 0; k < 5; k++) {
        const char *first = names[k % 2];
        const char *second = names[1 - k % 2];

        for (int i = 0; i < 10; i++) {
            runs_on(s, first, 1);
            runs_on(s, second, 1);
        }
        later(s, epochs[k].epoch_ns);
        times_out(s, second);
        runs_on(s, first, 0);
        for (int i = 0; i < epochs[k].passed_over; i++) {
            runs_on(s, second, 0);
            runs_on(s, first, 0);
        }
        assert_int_equal(s->ranks[0].stats.plan_exits, k + 1);
    }
    runs_on(s, "y", 1);
}

/* After three failures "y" comes no more. */
EVERY_WAY(test_failures_delay_a_smaller_plan, 3, 2)
{
    static const int lanes_between[] = { 0, 0, 1, 1, 0, 1 };

    for (int i = 0; i < 6; i++) {
        if (i == 3 || i == 4) {
            fail_an_epoch(s);
        }
        runs_on(s, "x", (uint32_t)lanes_between[i]);
        runs_on(s, "y", (uint32_t)lanes_between[i]);
    }
    fail_an_epoch(s);
    /* Three iterations are passed over, of which the first was whole. */
    for (int i = 0; i < 4; i++) {
        runs_on(s, "x", 0);
    }
    runs_on(s, "x", 1);
    has_plan(s, 1, "x", 1);
}

/* There is one lane, and what has it is not used any more. */
EVERY_WAY(test_a_lane_is_taken_by_another_plan, 3, 2)
{
    run_in_turn(s, "xyxyxy", "000011");
    run_in_turn(s, "uvuv", "0000");
    has_plan(s, 1, "xy", 2);
    runs_on(s, "u", 1);
    has_plan(s, 1, "uv", 2);
    runs_on(s, "v", 1);
    counts(s, 4, 2, 1);
    for (int r = 0; r < s->size; r++) {
        assert_non_null(strstr(s->notes[r], "makes room for another plan"));
        assert_int_equal(s->ranks[r].plans.lanes[1].epoch, 2);
    }
    runs_on(s, "x", 0);
    counts(s, 4, 2, 1);
}
