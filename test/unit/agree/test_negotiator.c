/*
 * The negotiator in small scenes: what is logged, when, and in which words.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "agree/names.h"
#include "agree/negotiator.h"
#include "agree/protocol.h"
#include "base/mem.h"
#include "scene.h"
#include "test/unit/unit.h"

/* The first end at a rank that has no OK status. */
static const struct scene_end *first_failure(const struct scene *scene, int rank)
{
    for (int i = 0; i < scene->end_count; i++) {
        if (scene->ends[i].rank == rank && scene->ends[i].status != TUTTI_OK) {
            return &scene->ends[i];
        }
    }
    fail();
    return NULL;
}

/* --------------------------------------------------------------- agreement */

UNIT_TEST(test_internal_collectives_get_no_number)
{
    const struct request last = scene_leave(META_FINALIZE);
    struct scene *s = scene_begin(2, 10);

    for (int i = 0; i < 3; i++) {
        scene_all_ready(s, &last);
    }
    assert_int_equal(s->ranks[1].stats.by_number, 0);
    scene_fini(s);
}

/* The numbers used longest ago are of names that one rank announced and no other does. */
UNIT_TEST(test_a_number_is_found_behind_those_in_use)
{
    static const char *const held[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i",
        "j", "k", "l", "m", "n", "o", "p" };
    const int count = (int)(sizeof held / sizeof *held);
    const struct request idle = scene_request("idle", 5);
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, count + 1);

    for (int i = 0; i < count; i++) {
        const struct request request = scene_request(held[i], 5);

        scene_all_ready(s, &request);
        scene_all_ready(s, &request);
    }
    scene_all_ready(s, &idle);
    scene_all_ready(s, &idle);
    for (int i = 0; i < count; i++) {
        const struct request request = scene_request(held[i], 5);

        scene_say(s, 0, &request);
    }
    scene_run(s);
    for (int i = 0; i < 6; i++) {
        scene_clear(s);
        scene_play_each(s, 0, 1, &x);
        assert_int_equal(scene_count(s, "x", TUTTI_OK), 2);
    }

    assert_int_equal(s->ranks[1].stats.by_number, 2);
    scene_fini(s);
}

UNIT_TEST(test_the_steady_state_allocates_nothing)
{
    const struct request x = scene_request("x", 5);
    uint64_t before;
    struct scene *s = scene_begin(4, 10);

    for (int i = 0; i < 4; i++) {
        scene_all_ready(s, &x);
    }
    before = mem_alloc_count();
    for (int i = 0; i < 10; i++) {
        scene_all_ready(s, &x);
    }
    assert_int_equal(mem_alloc_count(), before);
    scene_fini(s);
}

UNIT_TEST(test_names_used_once_are_forgotten_in_the_end)
{
    enum {
        NAMES = 6000
    };
    static char names[NAMES][16];
    struct scene *s = scene_begin(2, 10);

    for (int i = 0; i < NAMES; i++) {
        struct request once;

        (void)snprintf(names[i], sizeof names[i], "n%d", i);
        once = scene_request(names[i], 1);
        scene_all_ready(s, &once);
    }
    assert_true(s->ranks[0].names.by_name.count <= 4096);
    assert_true(s->ranks[1].names.by_name.count <= 4096);
    scene_fini(s);
}

/* ---------------------------------------------------------------- mismatch */

UNIT_TEST(test_a_mismatch_names_ranks_and_values_everywhere)
{
    const struct request x = scene_request("x", 5);
    const struct request odd = scene_request("x", 6);
    struct scene *s = scene_begin(4, 10);

    for (int r = 0; r < 4; r++) {
        scene_say(s, r, r == 2 ? &odd : &x);
    }
    scene_run(s);

    assert_int_equal(scene_count(s, "x", TUTTI_ERR_MISMATCH), 4);
    for (int r = 0; r < 4; r++) {
        const char *text = first_failure(s, r)->text;

        assert_non_null(strstr(text, "allreduce \"x\": count differs: "));
        assert_non_null(strstr(text, "ranks 10-11, 13 gave 5"));
        assert_non_null(strstr(text, "rank 12 gave 6"));
    }
    scene_all_ready(s, &x);
    scene_fini(s);
}

UNIT_TEST(test_more_than_two_opinions_are_mentioned)
{
    struct scene *s = scene_begin(3, 10);

    for (int r = 0; r < 3; r++) {
        const struct request x = scene_request("x", 5 + r);

        scene_say(s, r, &x);
    }
    scene_run(s);

    assert_string_equal(first_failure(s, 1)->text,
            "allreduce \"x\": count differs: rank 10 gave 5, rank 11 gave 6, others "
            "gave "
            "yet others; give the same on all ranks or use different names");
    scene_fini(s);
}

/* ------------------------------------------------------------------ cancel */

UNIT_TEST(test_cancelling_what_has_an_outcome_does_nothing)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, 10);

    scene_all_ready(s, &x);
    assert_int_equal(negotiator_cancel(&s->ranks[1], &x), TUTTI_OK);
    assert_false(negotiator_is_dirty(&s->ranks[1]));
    scene_fini(s);
}

/* ------------------------------------------------------------------ groups */

/* ------------------------------------------------------------------ stalls */

UNIT_TEST(test_the_coordinator_names_who_is_missing)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    struct scene *s = scene_begin(4, 10);

    for (int r = 0; r < 3; r++) {
        scene_say(s, r, &x);
    }
    scene_say(s, 0, &y);
    scene_play(s, 1, &y);
    scene_tick(s, 0, 1000);
    scene_run(s);
    assert_string_equal(s->stall, "");
    scene_tick(s, 0, 1001);

    assert_string_equal(s->stall,
            "stalled for 1e-06 s: rank 12 has not submitted allreduce \"y\"; rank "
            "13 "
            "has "
            "not submitted allreduce \"x\", allreduce \"y\"");
    s->stall[0] = '\0';
    scene_tick(s, 0, 2000);
    assert_string_equal(s->stall, "");
    scene_tick(s, 0, 2001);
    assert_string_not_equal(s->stall, "");
    scene_fini(s);
}

UNIT_TEST(test_a_sleeping_parent_is_reported_by_its_children)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, 10);

    scene_say(s, 1, &x);
    scene_tick(s, 1, 1001);
    scene_tick(s, 1, 1251);
    assert_string_equal(s->stall, "");
    scene_tick(s, 1, 1501);

    assert_int_equal(s->stall_rank, 1);
    assert_string_equal(s->stall,
            "stalled for 1.5e-06 s: rank 10 has not submitted allreduce \"x\"");
    scene_fini(s);
}

UNIT_TEST(test_a_coordinator_that_waits_too_keeps_its_children_quiet)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(4, 10);

    scene_say(s, 0, &x);
    scene_play(s, 1, &x);
    scene_tick(s, 1, 1001);
    scene_tick(s, 0, 1001);
    scene_run(s);
    scene_tick(s, 1, 1501);

    assert_string_equal(s->stall, "");
    scene_fini(s);
}

UNIT_TEST(test_long_lists_in_a_report_are_cut)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g" };
    struct scene *s = scene_begin(2, 10);

    for (int i = 0; i < 7; i++) {
        const struct request x = scene_request(names[i], 5);

        scene_say(s, 0, &x);
    }
    scene_tick(s, 0, 1001);
    scene_tick(s, 0, 1251);

    assert_string_equal(s->stall,
            "stalled for 1.25e-06 s: rank 11 has not submitted allreduce \"a\", "
            "allreduce "
            "\"b\", allreduce \"c\", allreduce \"d\", allreduce \"e\" and 2 more");
    scene_fini(s);
}

UNIT_TEST(test_a_stall_can_fail_the_context)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, 10);

    s->ranks[0].config.stall_fail_ns = 3000;
    scene_say(s, 0, &x);
    scene_tick(s, 0, 3000);
    s->ranks[0].now_ns = 3001;
    assert_int_equal(negotiator_tick(&s->ranks[0]), TUTTI_ERR_TIMEOUT);
    assert_string_equal(tutti_last_error(),
            "allreduce \"x\" was not submitted by all ranks within stall_fail_s = "
            "3e-06 s");
    scene_fini(s);
}

UNIT_TEST(test_the_next_tick_is_when_something_may_be_due)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, 10);

    assert_true(negotiator_next_tick(&s->ranks[0]) == INT64_MAX);
    scene_say(s, 0, &x);
    assert_int_equal(negotiator_next_tick(&s->ranks[0]), 251);
    scene_tick(s, 0, 1100);
    assert_int_equal(negotiator_next_tick(&s->ranks[0]), 1350);
    s->ranks[0].config.stall_ns = 0;
    assert_true(negotiator_next_tick(&s->ranks[0]) == INT64_MAX);
    scene_fini(s);
}

/* ---------------------------------------------------------- broken peers */

static tutti_status receive(
        struct scene *s, int to, int from, const uint8_t *bytes, size_t len)
{
    return negotiator_receive(&s->ranks[to], from, bytes, len);
}

UNIT_TEST(test_messages_from_the_wrong_side_are_refused)
{
    const uint8_t announce[] = { KIND_ANNOUNCE };
    const uint8_t log[] = { KIND_LOG, 0, 0, 0, 0, 0, 0, 0, 0 };
    const uint8_t unknown[] = { 77 };
    struct scene *s = scene_begin(4, 10);

    assert_int_equal(receive(s, 1, 0, announce, sizeof announce), TUTTI_ERR_PROTOCOL);
    assert_int_equal(receive(s, 1, 2, announce, sizeof announce), TUTTI_ERR_PROTOCOL);
    assert_int_equal(receive(s, 1, 3, log, sizeof log), TUTTI_ERR_PROTOCOL);
    assert_int_equal(receive(s, 1, 0, unknown, sizeof unknown), TUTTI_ERR_PROTOCOL);
    assert_int_equal(receive(s, 1, 0, NULL, 0), TUTTI_ERR_PROTOCOL);
    assert_int_equal(receive(s, 1, 99, announce, sizeof announce), TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}

UNIT_TEST(test_a_rank_may_speak_only_for_those_below_it)
{
    /* Rank 2 claims to pass on a number of rank 3, which is below rank 1. */
    const uint8_t number[] = { KIND_ANNOUNCE, ITEM_NUMBERS, 3, 1, 1 };
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(4, 10);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    assert_int_equal(receive(s, 0, 2, number, sizeof number), TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}

UNIT_TEST(test_a_number_never_given_is_refused)
{
    const uint8_t number[] = { KIND_ANNOUNCE, ITEM_NUMBERS, 1, 1, 1 };
    struct scene *s = scene_begin(2, 10);

    assert_int_equal(receive(s, 0, 1, number, sizeof number), TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}

UNIT_TEST(test_a_repeated_announcement_is_refused)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(3, 10);

    scene_say(s, 1, &x);
    assert_int_equal(receive(s, 0, 1, s->first->bytes, s->first->len), TUTTI_OK);
    assert_int_equal(
            receive(s, 0, 1, s->first->bytes, s->first->len), TUTTI_ERR_PROTOCOL);
    assert_string_equal(tutti_last_error(), "rank 11 announced \"x\" twice");
    scene_fini(s);
}

UNIT_TEST(test_a_gap_in_the_log_is_noticed)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, 10);

    scene_say(s, 1, &x);
    scene_say(s, 0, &x);
    scene_deliver(s, 1);
    s->first->bytes[1] = 1; /* the index */
    assert_int_equal(scene_try_deliver(s), TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}

UNIT_TEST(test_a_decision_about_something_not_submitted_is_refused)
{
    const uint8_t log[] = { KIND_LOG, 2, 0, 0, 0, 0, 0, 0, 0, ENTRY_NUMBERS, 1, 1 };
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, 10);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    assert_int_equal(receive(s, 1, 0, log, sizeof log), TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}

UNIT_TEST(test_submitting_a_name_in_flight_is_an_internal_error)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(2, 10);

    scene_submit(s, 1, &x);
    assert_int_equal(negotiator_submit(&s->ranks[1], &x), TUTTI_ERR_INTERNAL);
    scene_fini(s);
}

/* Submits at a rank that is alone and takes the outcome, which must be its own. */
static void alone(struct negotiator *negotiator, const struct request *request)
{
    assert_int_equal(negotiator_submit(negotiator, request), TUTTI_OK);
    assert_int_equal(negotiator_flush(negotiator), TUTTI_OK);
    assert_int_equal(negotiator->outbox.outcome_count, 1);
    assert_null(negotiator->outbox.outcomes[0].error);
    assert_ptr_equal(negotiator->outbox.outcomes[0].cookie, request->cookie);
    negotiator_clear(negotiator);
    assert_true(negotiator_is_valid(negotiator));
}

static void play_others(struct negotiator *negotiator, const struct request *like)
{
    char name[32];

    for (int i = 0; i < 5000; i++) {
        struct request other = *like;

        (void)snprintf(name, sizeof name, "other %d", i);
        other.name = name;
        other.name_len = strlen(name);
        other.hash = request_hash(other.collective, name, other.name_len);
        other.tensor = NULL;
        alone(negotiator, &other);
    }
}

static void forget(void *user, void *theirs)
{
    *(bool *)theirs = true;
    assert_null(user);
}

/* More names than are remembered: one that is held stays where it is, until it is let go. */
UNIT_TEST(test_a_name_that_is_held_is_not_forgotten)
{
    static const int ranks[] = { 0 };
    struct tree_shape shape;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct negotiator_config config = { .size = 1,
        .shape = &shape,
        .world_ranks = ranks,
        .lock = &lock,
        .forget = forget };
    struct negotiator negotiator;
    struct request first = scene_request("first", 5);
    const struct name_ref ref = request_ref(&first);
    bool is_forgotten = false;

    assert_true(tree_shape_init(&shape, 1, ranks, 2));
    assert_int_equal(negotiator_init(&negotiator, &config), TUTTI_OK);
    first.tensor = names_hold(&negotiator, &ref);
    assert_non_null(first.tensor);
    first.tensor->user = &is_forgotten;
    play_others(&negotiator, &first);
    assert_int_not_equal(negotiator.names.freed, 0);
    assert_false(is_forgotten);
    alone(&negotiator, &first);
    play_others(&negotiator, &first);
    assert_false(is_forgotten);
    alone(&negotiator, &first);
    names_let_go(&negotiator, first.tensor);
    play_others(&negotiator, &first);
    assert_true(is_forgotten);
    negotiator_fini(&negotiator);
    tree_shape_fini(&shape);
}

/* The negotiator has nothing of it, so it would never be dropped. */
UNIT_TEST(test_a_name_that_was_not_submitted_goes_when_it_is_let_go)
{
    static const int ranks[] = { 0 };
    struct tree_shape shape;
    const struct negotiator_config config = {
        .size = 1, .shape = &shape, .world_ranks = ranks, .forget = forget
    };
    struct negotiator negotiator;
    struct request request = scene_request("first", 5);
    const struct name_ref ref = request_ref(&request);
    bool is_forgotten = false;

    assert_true(tree_shape_init(&shape, 1, ranks, 2));
    assert_int_equal(negotiator_init(&negotiator, &config), TUTTI_OK);
    request.tensor = names_hold(&negotiator, &ref);
    assert_non_null(request.tensor);
    request.tensor->user = &is_forgotten;
    assert_ptr_equal(names_hold(&negotiator, &ref), request.tensor);
    assert_null(tensor_find(&negotiator, &ref));
    names_let_go(&negotiator, request.tensor);
    assert_false(is_forgotten);
    names_let_go(&negotiator, request.tensor);
    assert_true(is_forgotten);
    assert_int_equal(negotiator.names.by_name.count, 0);
    negotiator_fini(&negotiator);
    tree_shape_fini(&shape);
}

/* ------------------------------------------------------------------ leaving */

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
