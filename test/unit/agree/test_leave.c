/*
 * Joining and leaving, in small scenes: what goes on without whom, and what fails.
 *
 * Four ranks; rank 0 is above 1 and 2, rank 1 above 3.
 */
#include <string.h>

#include "base/mem.h"
#include "scene.h"
#include "test/unit/unit.h"

/* The only end of a name at a rank. */
static const struct scene_end *end_of(
        const struct scene *scene, int rank, const char *name)
{
    const struct scene_end *found = NULL;

    for (int i = 0; i < scene->end_count; i++) {
        if (scene->ends[i].rank == rank && strcmp(scene->ends[i].name, name) == 0) {
            assert_null(found);
            found = &scene->ends[i];
        }
    }
    assert_non_null(found);
    return found;
}

UNIT_TEST(test_a_reduction_goes_on_without_who_has_joined)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 3, &join);
    scene_play(s, 1, &x);
    scene_play(s, 2, &x);
    assert_int_equal(s->end_count, 0);
    scene_play(s, 0, &x);

    for (int r = 0; r < 3; r++) {
        assert_int_equal(end_of(s, r, "x")->status, TUTTI_OK);
        assert_int_equal(end_of(s, r, "x")->joined, 1U << 3);
    }
    assert_int_equal(end_of(s, 3, "without")->joined, 1U << 3);
    assert_int_equal(end_of(s, 3, "without")->count, 5);
    scene_fini(s);
}

UNIT_TEST(test_what_was_submitted_before_joining_counts)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    /* By number now, and held by rank 1 until the join passes. */
    scene_play(s, 3, &x);
    scene_play(s, 3, &join);
    scene_play(s, 1, &join);
    scene_play(s, 0, &x);
    scene_play(s, 2, &x);
    assert_int_equal(scene_count(s, "x", TUTTI_OK), 3);
    assert_int_equal(end_of(s, 3, "x")->joined, 1U << 1);
    assert_int_equal(end_of(s, 1, "without")->joined, 1U << 1);
    scene_fini(s);
}

UNIT_TEST(test_who_has_joined_learns_numbers_and_uses_them_later)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 3, &join);
    for (int i = 0; i < 3; i++) {
        scene_play_each(s, 0, 2, &x);
    }
    scene_play_each(s, 0, 2, &join);
    assert_int_equal(scene_count(s, "join", TUTTI_OK), 4);
    scene_all_ready(s, &x);
    assert_int_equal(s->ranks[3].stats.by_number, 1);
    scene_fini(s);
}

UNIT_TEST(test_a_join_tells_everybody_who_was_last)
{
    static const int order[] = { 3, 0, 1, 2 };
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    for (int round = 0; round < 3; round++) {
        scene_clear(s);
        for (int i = 0; i < 4; i++) {
            scene_play(s, (order[i] + round) % 4, &join);
        }
        for (int r = 0; r < 4; r++) {
            assert_int_equal(end_of(s, r, "join")->last, (2 + round) % 4);
        }
    }
    scene_fini(s);
}

UNIT_TEST(test_after_a_join_all_are_waited_for)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_play_each(s, 0, 3, &join);
    scene_clear(s);
    scene_play_each(s, 0, 2, &x);
    assert_int_equal(s->end_count, 0);
    scene_play(s, 3, &x);
    assert_int_equal(scene_count(s, "x", TUTTI_OK), 4);
    scene_fini(s);
}

UNIT_TEST(test_other_collectives_fail_without_who_has_joined)
{
    static const int collectives[] = { TUTTI_BROADCAST, TUTTI_BARRIER, TUTTI_ALLGATHER,
        TUTTI_ALLTOALL, META_SET_CREATE, META_SET_DESTROY };
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 1, &join);
    scene_play(s, 3, &join);
    for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
        const struct request x = scene_collective(collectives[c], "x", 5);

        scene_clear(s);
        scene_play(s, 0, &x);
        scene_play(s, 2, &x);
        assert_int_equal(scene_count(s, "x", TUTTI_ERR_UNSUPPORTED), 2);
        assert_non_null(strstr(end_of(s, 2, "x")->text,
                "\"x\": ranks 11, 13 have joined and will not submit it; "));
        assert_int_equal(s->end_count, 2);
    }
    scene_fini(s);
}

UNIT_TEST(test_a_reduce_needs_its_root)
{
    const struct request join = scene_leave(META_JOIN);
    struct request x = scene_collective(TUTTI_REDUCE, "x", 5);
    struct request y = scene_collective(TUTTI_REDUCE, "y", 5);
    struct scene *s = scene_begin(4, 10);

    x.meta.root = 3;
    y.meta.root = 2;
    scene_play(s, 3, &join);
    for (int r = 0; r < 3; r++) {
        scene_play(s, r, &x);
        scene_play(s, r, &y);
    }
    assert_int_equal(scene_count(s, "x", TUTTI_ERR_UNSUPPORTED), 3);
    assert_int_equal(scene_count(s, "y", TUTTI_OK), 3);
    scene_fini(s);
}

UNIT_TEST(test_a_join_decides_what_waited_for_it)
{
    const struct request x = scene_request("x", 5);
    const struct request b = scene_collective(TUTTI_BROADCAST, "b", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    for (int r = 0; r < 3; r++) {
        scene_play(s, r, &x);
        scene_play(s, r, &b);
    }
    assert_int_equal(s->end_count, 0);
    scene_play(s, 3, &join);
    assert_int_equal(scene_count(s, "x", TUTTI_OK), 3);
    assert_int_equal(scene_count(s, "b", TUTTI_ERR_UNSUPPORTED), 3);
    scene_fini(s);
}

/* The number of what rank 3 has announced is retired before its join arrives. */
UNIT_TEST(test_a_join_waits_for_what_must_be_announced_again)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 1);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    scene_all_ready(s, &y);
    for (int r = 0; r < 4; r++) {
        scene_submit(s, r, &y);
    }
    scene_flush(s, 3);
    scene_deliver(s, 1);
    scene_submit(s, 3, &x);
    scene_say(s, 3, &join);
    scene_flush(s, 2);
    /* y is ready and takes the number of x; behind that come x, by number, and the join. */
    scene_deliver(s, 4);
    scene_clear(s);
    scene_say(s, 0, &x);
    scene_deliver(s, 1);
    scene_say(s, 1, &x);
    scene_deliver(s, 1);
    scene_play(s, 2, &x);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(end_of(s, r, "x")->joined, 0);
    }
    scene_fini(s);
}

UNIT_TEST(test_joining_and_going_on_without_allocates_nothing_new)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    uint64_t before = 0;
    struct scene *s = scene_begin(4, 10);

    for (int round = 0; round < 6; round++) {
        scene_play(s, 3, &join);
        before = round == 4 ? mem_alloc_count() : before;
        scene_play_each(s, 0, 2, &x);
        assert_true(round != 4 || mem_alloc_count() == before);
        scene_play_each(s, 0, 2, &join);
        scene_clear(s);
    }
    scene_fini(s);
}

UNIT_TEST(test_a_join_cannot_be_cancelled)
{
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 3, &join);
    assert_int_equal(negotiator_cancel(&s->ranks[3], &join), TUTTI_OK);
    assert_false(negotiator_is_dirty(&s->ranks[3]));
    scene_fini(s);
}

UNIT_TEST(test_what_waits_for_who_leaves_fails)
{
    const struct request x = scene_request("x", 5);
    const struct request finalize = scene_leave(META_FINALIZE);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 0, &x);
    scene_play(s, 3, &finalize);
    assert_int_equal(s->end_count, 0);
    scene_play(s, 1, &x);
    scene_play(s, 2, &x);
    assert_int_equal(scene_count(s, "x", TUTTI_ERR_FINALIZED), 3);
    assert_string_equal(end_of(s, 0, "x")->text,
            "allreduce \"x\": rank 13 has called tutti_finalize() and will not submit "
            "it; "
            "let all ranks submit the same before they finalize");
    scene_fini(s);
}

UNIT_TEST(test_a_join_fails_when_the_others_leave)
{
    const struct request join = scene_leave(META_JOIN);
    const struct request finalize = scene_leave(META_FINALIZE);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 2, &join);
    scene_play(s, 0, &finalize);
    scene_play(s, 1, &finalize);
    assert_int_equal(s->end_count, 0);
    scene_play(s, 3, &finalize);
    assert_int_equal(s->end_count, 1);
    assert_int_equal(end_of(s, 2, "join")->status, TUTTI_ERR_FINALIZED);

    scene_play(s, 2, &finalize);
    assert_int_equal(scene_count(s, "finalize", TUTTI_OK), 4);
    scene_fini(s);
}

UNIT_TEST(test_who_has_joined_and_leaves_is_still_absent)
{
    const struct request x = scene_request("x", 5);
    const struct request b = scene_collective(TUTTI_BROADCAST, "b", 5);
    const struct request join = scene_leave(META_JOIN);
    const struct request finalize = scene_leave(META_FINALIZE);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 3, &join);
    scene_play(s, 3, &finalize);
    for (int r = 0; r < 3; r++) {
        scene_play(s, r, &x);
        scene_play(s, r, &b);
    }
    assert_int_equal(end_of(s, 0, "x")->joined, 1U << 3);
    assert_int_equal(scene_count(s, "b", TUTTI_ERR_FINALIZED), 3);
    scene_play_each(s, 0, 2, &join);
    assert_int_equal(scene_count(s, "join", TUTTI_OK), 4);
    scene_fini(s);
}

UNIT_TEST(test_stall_reports_do_not_name_who_has_joined)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 0, &x);
    scene_play(s, 1, &join);
    scene_tick(s, 0, 5000);
    scene_tick(s, 0, 5250);
    assert_non_null(strstr(s->stall, "rank 12 has not submitted allreduce \"x\""));
    assert_null(strstr(s->stall, "rank 11"));
    scene_fini(s);
}

UNIT_TEST(test_a_join_does_not_stall_while_others_go_on)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_play(s, 3, &join);
    for (int r = 0; r < 4; r++) {
        s->ranks[r].now_ns = 900;
    }
    scene_play_each(s, 0, 2, &x);
    assert_int_equal(negotiator_next_tick(&s->ranks[3]), 1150);
    scene_fini(s);
}
