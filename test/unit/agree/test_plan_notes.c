/*
 * What a rank says when it leaves a plan: where, who, why, and which tensor. Where is equal
 * on all ranks; a rank that leaves as well names itself.
 *
 * Two ranks plan "a" and "b", a batch each; rank 1 is world rank 11.
 */
#include <stdio.h>

#include "scene.h"
#include "test/unit/unit.h"

static void say(struct scene *s, int rank, const struct request *request)
{
    assert_int_equal(scene_say(s, rank, request), TUTTI_OK);
    assert_int_equal(scene_run(s), TUTTI_OK);
}

/* The third iteration and the first batch of the fourth have committed in a plan. */
static struct scene *begin(void)
{
    static struct scene scene;
    const struct request a = scene_request("a", 5);
    const struct request b = scene_request("b", 5);

    assert_true(scene_init(&scene, 2, 2, 10));
    for (int r = 0; r < scene.size; r++) {
        scene.ranks[r].config.lanes = 2;
        scene.ranks[r].config.window = 8;
        scene.ranks[r].config.stall_ns = 0;
    }
    for (int i = 0; i < 3; i++) {
        scene_all_ready(&scene, &a);
        scene_all_ready(&scene, &b);
    }
    scene_all_ready(&scene, &a);
    for (int r = 0; r < scene.size; r++) {
        assert_int_equal(scene.ranks[r].stats.planned, 3);
        assert_int_equal(scene.ranks[r].stats.planned_steps, 1);
        assert_string_equal(scene.notes[r], "");
    }
    return &scene;
}

/* A rank has left the plan and says so. */
static void left(const struct scene *s, int rank, const char *why)
{
    char text[512];

    (void)snprintf(text, sizeof text,
            "plan on lane 1 (2 tensors) left after 1 iteration and 1 of 2 batches: "
            "rank %s",
            why);
    assert_string_equal(s->notes[rank], text);
    assert_int_equal(s->ranks[rank].stats.plan_exits, 1);
}

static void test_a_tensor_that_did_not_come(void **state)
{
    const struct request a = scene_request("a", 5);
    struct scene *s = begin();

    (void)state;
    say(s, 1, &a);
    s->ranks[1].now_ns = negotiator_next_tick(&s->ranks[1]);
    assert_int_equal(negotiator_tick(&s->ranks[1]), TUTTI_OK);
    assert_int_equal(scene_flush(s, 1), TUTTI_OK);
    assert_int_equal(scene_run(s), TUTTI_OK);
    /* Rank 0 has nothing to leave the plan for, but hears of it. */
    left(s, 0, "11 did not submit allreduce \"b\" in time");
    left(s, 1, "11 did not submit allreduce \"b\" in time");
    scene_fini(s);
}

static void test_other_metadata(void **state)
{
    const struct request b = scene_request("b", 6);
    struct scene *s = begin();

    (void)state;
    say(s, 1, &b);
    left(s, 0, "11 submitted allreduce \"b\" with other metadata");
    left(s, 1, "11 submitted allreduce \"b\" with other metadata");
    scene_fini(s);
}

static void test_another_step(void **state)
{
    struct request b = scene_request("b", 5);
    struct scene *s = begin();

    (void)state;
    b.meta.step = 4;
    say(s, 1, &b);
    left(s, 0, "11 submitted allreduce \"b\" with another step than was expected");
    left(s, 1, "11 submitted allreduce \"b\" with another step than was expected");
    scene_fini(s);
}

static void cancel(struct scene *s, int rank, const struct request *request)
{
    assert_int_equal(negotiator_cancel(&s->ranks[rank], request), TUTTI_OK);
    assert_int_equal(scene_flush(s, rank), TUTTI_OK);
    assert_int_equal(scene_run(s), TUTTI_OK);
}

static void test_a_cancellation(void **state)
{
    const struct request a = scene_request("a", 5);
    struct scene *s = begin();

    (void)state;
    /* It has not arrived at the batch of "a": that of "b" comes first. */
    say(s, 1, &a);
    cancel(s, 1, &a);
    left(s, 0, "11 cancels allreduce \"a\"");
    left(s, 1, "11 cancels allreduce \"a\"");
    say(s, 0, &a);
    assert_int_equal(scene_count(s, "a", TUTTI_ERR_CANCELLED), 2);
    scene_fini(s);
}

static void test_a_cancellation_that_is_too_late(void **state)
{
    const struct request a = scene_request("a", 5);
    const struct request b = scene_request("b", 5);
    struct scene *s = begin();

    (void)state;
    say(s, 1, &b);
    cancel(s, 1, &b);
    say(s, 0, &b);
    assert_int_equal(scene_count(s, "b", TUTTI_OK), 2);
    for (int r = 0; r < s->size; r++) {
        assert_string_equal(s->notes[r], "");
        assert_int_equal(s->ranks[r].stats.plan_exits, 0);
        assert_int_equal(s->ranks[r].stats.planned_steps, 2);
    }
    /* Nothing is left of the wish. */
    scene_all_ready(s, &a);
    scene_all_ready(s, &b);
    assert_int_equal(s->ranks[1].stats.planned_steps, 3);
    scene_fini(s);
}

/* Too late for the plan; but that is left before the tensor commits. */
static void test_a_cancellation_is_announced_with_its_tensor(void **state)
{
    const struct request b = scene_request("b", 5);
    const struct request other = scene_request("a", 6);
    struct scene *s = begin();

    (void)state;
    say(s, 1, &b);
    cancel(s, 1, &b);
    assert_string_equal(s->notes[1], "");
    say(s, 0, &other);
    left(s, 0, "10 submitted allreduce \"a\" with other metadata");
    left(s, 1, "10 submitted allreduce \"a\" with other metadata");
    say(s, 0, &b);
    assert_int_equal(scene_count(s, "b", TUTTI_ERR_CANCELLED), 2);
    assert_int_equal(scene_count(s, "b", TUTTI_OK), 0);
    scene_fini(s);
}

/* A rank that has filled the window says at once that it leaves. */
static void test_an_exit_needs_no_room(void **state)
{
    const struct request b = scene_request("b", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = begin();

    (void)state;
    for (int r = 0; r < s->size; r++) {
        s->ranks[r].config.window = 1;
    }
    say(s, 1, &b);
    say(s, 1, &join);
    left(s, 0, "10 leaves because another rank joins or finalizes");
    left(s, 1, "10 leaves because another rank joins or finalizes");
    /* "b" was announced before the join. */
    say(s, 0, &b);
    assert_int_equal(scene_count(s, "b", TUTTI_OK), 2);
    say(s, 0, &join);
    assert_int_equal(scene_count(s, "join", TUTTI_OK), 2);
    scene_fini(s);
}

static void test_a_join(void **state)
{
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = begin();

    (void)state;
    say(s, 1, &join);
    left(s, 0, "10 leaves because another rank joins or finalizes");
    left(s, 1, "11 joins");
    scene_fini(s);
}

static void test_a_finalize(void **state)
{
    const struct request finalize = scene_leave(META_FINALIZE);
    struct scene *s = begin();

    (void)state;
    say(s, 1, &finalize);
    left(s, 0, "10 leaves because another rank joins or finalizes");
    left(s, 1, "11 finalizes");
    scene_fini(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tensor_that_did_not_come),
        cmocka_unit_test(test_other_metadata),
        cmocka_unit_test(test_another_step),
        cmocka_unit_test(test_a_cancellation),
        cmocka_unit_test(test_a_cancellation_that_is_too_late),
        cmocka_unit_test(test_a_cancellation_is_announced_with_its_tensor),
        cmocka_unit_test(test_an_exit_needs_no_room),
        cmocka_unit_test(test_a_join),
        cmocka_unit_test(test_a_finalize),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
