/*
 * What a rank says when it leaves a plan: where, who, why, and which tensor. Where is equal
 * on all ranks; a rank that leaves as well names itself.
 *
 * Two ranks plan "a" and "b", a batch each; rank 1 is world rank 11.
 */
#include <stdio.h>

#include "scene.h"
#include "test/unit/unit.h"

/* The third iteration and the first batch of the fourth have committed in a plan. */
static struct scene *begin(void)
{
    const struct request a = scene_request("a", 5);
    const struct request b = scene_request("b", 5);
    struct scene *s = scene_begin_plans(SCENE_TREE, 2, 10, 2);

    for (int i = 0; i < 3; i++) {
        scene_all_ready(s, &a);
        scene_all_ready(s, &b);
    }
    scene_all_ready(s, &a);
    for (int r = 0; r < s->size; r++) {
        assert_int_equal(s->ranks[r].stats.planned, 3);
        assert_int_equal(s->ranks[r].stats.planned_steps, 1);
        assert_string_equal(s->notes[r], "");
    }
    return s;
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

static void all_left(const struct scene *s, const char *why)
{
    left(s, 0, why);
    left(s, 1, why);
}

UNIT_TEST(test_a_tensor_that_did_not_come)
{
    const struct request a = scene_request("a", 5);
    struct scene *s = begin();

    scene_play(s, 1, &a);
    scene_tick(s, 1, negotiator_next_tick(&s->ranks[1]));
    scene_run(s);
    /* Rank 0 has nothing to leave the plan for, but hears of it. */
    all_left(s, "11 did not submit allreduce \"b\" in time");
    scene_fini(s);
}

UNIT_TEST(test_other_metadata)
{
    const struct request b = scene_request("b", 6);
    struct scene *s = begin();

    scene_play(s, 1, &b);
    all_left(s, "11 submitted allreduce \"b\" with other metadata");
    scene_fini(s);
}

UNIT_TEST(test_another_step)
{
    struct request b = scene_request("b", 5);
    struct scene *s = begin();

    b.meta.step = 4;
    scene_play(s, 1, &b);
    all_left(s, "11 submitted allreduce \"b\" with another step than was expected");
    scene_fini(s);
}

UNIT_TEST(test_a_cancellation)
{
    const struct request a = scene_request("a", 5);
    struct scene *s = begin();

    /* It has not arrived at the batch of "a": that of "b" comes first. */
    scene_play(s, 1, &a);
    scene_cancel(s, 1, &a);
    scene_run(s);
    all_left(s, "11 cancels allreduce \"a\"");
    scene_play(s, 0, &a);
    assert_int_equal(scene_count(s, "a", TUTTI_ERR_CANCELLED), 2);
    scene_fini(s);
}

UNIT_TEST(test_a_cancellation_that_is_too_late)
{
    const struct request a = scene_request("a", 5);
    const struct request b = scene_request("b", 5);
    struct scene *s = begin();

    scene_play(s, 1, &b);
    scene_cancel(s, 1, &b);
    scene_run(s);
    scene_play(s, 0, &b);
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
UNIT_TEST(test_a_cancellation_is_announced_with_its_tensor)
{
    const struct request b = scene_request("b", 5);
    const struct request other = scene_request("a", 6);
    struct scene *s = begin();

    scene_play(s, 1, &b);
    scene_cancel(s, 1, &b);
    scene_run(s);
    assert_string_equal(s->notes[1], "");
    scene_play(s, 0, &other);
    all_left(s, "10 submitted allreduce \"a\" with other metadata");
    scene_play(s, 0, &b);
    assert_int_equal(scene_count(s, "b", TUTTI_ERR_CANCELLED), 2);
    assert_int_equal(scene_count(s, "b", TUTTI_OK), 0);
    scene_fini(s);
}

/* A rank that has filled the window says at once that it leaves. */
UNIT_TEST(test_an_exit_needs_no_room)
{
    const struct request b = scene_request("b", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = begin();

    for (int r = 0; r < s->size; r++) {
        s->ranks[r].config.window = 1;
    }
    scene_play(s, 1, &b);
    scene_play(s, 1, &join);
    all_left(s, "10 leaves because another rank joins or finalizes");
    /* "b" was announced before the join. */
    scene_play(s, 0, &b);
    assert_int_equal(scene_count(s, "b", TUTTI_OK), 2);
    scene_play(s, 0, &join);
    assert_int_equal(scene_count(s, "join", TUTTI_OK), 2);
    scene_fini(s);
}

UNIT_TEST(test_a_join)
{
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = begin();

    scene_play(s, 1, &join);
    left(s, 0, "10 leaves because another rank joins or finalizes");
    left(s, 1, "11 joins");
    scene_fini(s);
}

UNIT_TEST(test_a_finalize)
{
    const struct request finalize = scene_leave(META_FINALIZE);
    struct scene *s = begin();

    scene_play(s, 1, &finalize);
    left(s, 0, "10 leaves because another rank joins or finalizes");
    left(s, 1, "11 finalizes");
    scene_fini(s);
}
