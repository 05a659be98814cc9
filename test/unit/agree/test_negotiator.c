/*
 * What the simulator does not see: which names and numbers are kept, and that what no rank may
 * send is refused.
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

/* The numbers used longest ago are of names that one rank announced and no other does. */
UNIT_TEST(test_a_number_is_found_behind_those_in_use)
{
    static const char *const held[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i",
        "j", "k", "l", "m", "n", "o", "p" };
    const int count = (int)(sizeof held / sizeof *held);
    const struct request idle = scene_request("idle", 5);
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(SCENE_MESSAGES, 2, count + 1);

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
    for (int i = 0; i < 7; i++) {
        scene_clear(s);
        scene_play_each(s, 0, 1, &x);
        assert_int_equal(scene_count(s, "x", TUTTI_OK), 2);
    }

    assert_int_equal(s->ranks[1].stats.by_number, 2);
    scene_fini(s);
}

UNIT_TEST(test_names_used_once_are_forgotten_in_the_end)
{
    enum {
        NAMES = 6000
    };
    static char names[NAMES][16];
    struct scene *s = scene_begin(SCENE_MESSAGES, 2, 10);

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

/* ----------------------------------------------------------------- spots */

/* Members give it at these spots; it ends well, and is mixed on all of them or on none. */
static void play_at(struct scene *s, const uint64_t spots[3], bool mixed)
{
    struct request x = scene_request("x", 5);

    for (int r = 0; r < s->size; r++) {
        x.meta.spot = spots[r];
        scene_say(s, r, &x);
    }
    scene_run(s);
    assert_int_equal(scene_count(s, "x", TUTTI_OK), s->size);
    for (int i = 0; i < s->end_count; i++) {
        assert_int_equal(s->ends[i].mixed, mixed);
    }
    scene_clear(s);
}

UNIT_TEST(test_different_spots_are_told_and_do_no_harm)
{
    static const uint64_t here[] = { 7, 7, 7 };
    static const uint64_t there[] = { 8, 8, 8 };
    static const uint64_t apart[] = { 7, 0, 8 };
    struct scene *s = scene_begin(SCENE_MESSAGES, 3, 10);

    play_at(s, apart, true); /* by name */
    play_at(s, here, false);
    play_at(s, here, false);
    assert_int_equal(s->ranks[0].stats.by_number, 1);
    play_at(s, apart, true); /* one by number, two by name */
    play_at(s, apart, true); /* the number stands for any spot */
    play_at(s, there, true);
    assert_int_equal(s->ranks[2].stats.by_number, 3);
    scene_fini(s);
}

/* Spots are not what ranks are told that they disagree about. */
UNIT_TEST(test_spots_do_not_hide_a_mismatch)
{
    struct request x = scene_request("x", 5);
    struct request longer = scene_request("x", 6);
    struct scene *s = scene_begin(SCENE_MESSAGES, 3, 10);

    scene_say(s, 0, &x);
    x.meta.spot = 7;
    scene_say(s, 1, &x);
    scene_play(s, 2, &longer);
    assert_int_equal(scene_count(s, "x", TUTTI_ERR_MISMATCH), 3);
    assert_string_equal(s->ends[0].text,
            "allreduce \"x\": count differs: ranks 10-11 gave 5, rank 12 gave 6; give "
            "the "
            "same on all ranks or use different names");
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
    struct scene *s = scene_begin(SCENE_MESSAGES, 4, 10);

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
    struct scene *s = scene_begin(SCENE_MESSAGES, 4, 10);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    assert_int_equal(receive(s, 0, 2, number, sizeof number), TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}

UNIT_TEST(test_a_number_never_given_is_refused)
{
    const uint8_t number[] = { KIND_ANNOUNCE, ITEM_NUMBERS, 1, 1, 1 };
    struct scene *s = scene_begin(SCENE_MESSAGES, 2, 10);

    assert_int_equal(receive(s, 0, 1, number, sizeof number), TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}

UNIT_TEST(test_a_repeated_announcement_is_refused)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(SCENE_MESSAGES, 3, 10);

    scene_say(s, 1, &x);
    assert_int_equal(receive(s, 0, 1, s->first->bytes, s->first->len), TUTTI_OK);
    assert_int_equal(
            receive(s, 0, 1, s->first->bytes, s->first->len), TUTTI_ERR_PROTOCOL);
    assert_string_equal(tutti_last_error(), "rank 11 announced \"x\" twice");
    scene_fini(s);
}

static size_t sent, ended;

static tutti_status note_actions(void *user)
{
    const struct outbox *box = &((const struct negotiator *)user)->outbox;

    sent += box->action_count;
    ended += box->outcome_count;
    return TUTTI_OK;
}

UNIT_TEST(test_a_log_message_goes_on_before_it_is_applied)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(SCENE_MESSAGES, 2, 10);

    s->ranks[0].config.act = note_actions;
    s->ranks[0].config.user = &s->ranks[0];
    scene_say(s, 0, &x);
    scene_say(s, 1, &x);
    scene_deliver(s, 1);
    assert_int_equal(sent, 1);
    assert_int_equal(ended, 0);
    assert_int_equal(scene_count(s, "x", TUTTI_OK), 1);
    assert_null(s->first); /* nor is it sent again */
    scene_fini(s);
}

UNIT_TEST(test_a_gap_in_the_log_is_noticed)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(SCENE_MESSAGES, 2, 10);

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
    struct scene *s = scene_begin(SCENE_MESSAGES, 2, 10);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    assert_int_equal(receive(s, 1, 0, log, sizeof log), TUTTI_ERR_PROTOCOL);
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

/* The text of a report that a look at the clock of rank 0 made; "": none. */
static const char *report_at(struct scene *scene, int64_t now_ns)
{
    scene->stall[0] = '\0';
    scene_tick(scene, 0, now_ns);
    return scene->stall;
}

/* Only the age at the last report is kept, in few bits. */
UNIT_TEST(test_a_stall_is_reported_again_after_the_time_of_a_stall)
{
    const struct request request = scene_request("late", 5);
    struct scene *s = scene_begin(SCENE_MESSAGES, 2, 10);

    scene_say(s, 0, &request);
    (void)report_at(s, 800); /* asks what others hold */
    assert_string_equal(report_at(s, 999), "");
    assert_string_not_equal(report_at(s, 1300), "");
    assert_string_equal(report_at(s, 1301), "");
    assert_string_equal(report_at(s, 2200), "");
    assert_string_not_equal(report_at(s, 2301), "");
    assert_string_equal(report_at(s, 3200), "");
    assert_string_not_equal(report_at(s, 4095900), "");
    assert_string_equal(report_at(s, 4095901), "");
    assert_string_not_equal(report_at(s, 4096901), "");
    scene_fini(s);
}
