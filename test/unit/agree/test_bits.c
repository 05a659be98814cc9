/*
 * Numbers as bits, where the simulator does not go: more of them than a word or the board has, and
 * words that no rank may show.
 */
#include <stdio.h>

#include "agree/protocol.h"
#include "scene.h"
#include "test/unit/unit.h"

enum {
    ON_BOARD = 64 * BITS_BOARD_WORDS,
    NAMES_MAX = ON_BOARD + 10
};

static char names[NAMES_MAX][8];

/* All ranks submit so many tensors at once, and all are ready everywhere. */
static void all_ready(struct scene *s, int count)
{
    for (int r = s->size - 1; r >= 0; r--) {
        for (int i = 0; i < count; i++) {
            (void)snprintf(names[i], sizeof names[i], "n%d", i);

            const struct request request = scene_request(names[i], 5);

            scene_submit(s, r, &request);
        }
        assert_int_equal(scene_try_flush(s, r), TUTTI_OK);
        scene_run(s);
    }
    assert_int_equal(s->end_count, s->size * count);
    for (int i = 0; i < SCENE_ENDS_MAX; i++) {
        assert_int_equal(s->ends[i].status, TUTTI_OK);
    }
    scene_clear(s);
}

static struct scene *with_numbers(enum scene_way way, int size, int count)
{
    struct scene *s = scene_begin(way, size, NAMES_MAX);

    all_ready(s, count);
    all_ready(s, count);
    return s;
}

UNIT_TEST(test_numbers_fill_several_words)
{
    for (int way = SCENE_MESSAGES; way < SCENE_WAYS; way++) {
        struct scene *s = with_numbers((enum scene_way)way, 4, 150);

        for (int i = 0; i < 3; i++) {
            all_ready(s, 150);
        }
        for (int r = 0; r < 4; r++) {
            assert_int_equal(s->ranks[r].stats.by_number, 3 * 150);
        }
        scene_fini(s);
    }
}

/* Words that are not on the board hold the last numbers; 0 is none. */
UNIT_TEST(test_numbers_beyond_the_board_go_by_message)
{
    struct scene *s = with_numbers(SCENE_BOARD, 2, NAMES_MAX);
    const struct request on_board = scene_request(names[ON_BOARD - 2], 5);
    const struct request beyond = scene_request(names[ON_BOARD - 1], 5);

    all_ready(s, NAMES_MAX);
    assert_int_equal(s->ranks[1].stats.by_number, NAMES_MAX);
    scene_say(s, 1, &on_board);
    assert_null(s->first);
    scene_say(s, 1, &beyond);
    assert_non_null(s->first);
    scene_play(s, 0, &on_board);
    scene_play(s, 0, &beyond);
    assert_int_equal(s->end_count, 4);
    scene_fini(s);
}

UNIT_TEST(test_bits_of_numbers_that_nobody_has_mean_nothing)
{
    const struct request x = scene_request("n0", 5);
    struct scene *s = with_numbers(SCENE_BOARD, 2, 1);

    s->boards[1][0] ^= ~(UINT64_C(1) << 1); /* all but that of number 1 */
    scene_run(s);
    assert_int_equal(s->end_count, 0);
    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    scene_fini(s);
}

/* A bit that is not as it was is another announcement. */
UNIT_TEST(test_a_number_shown_twice_is_refused)
{
    const struct request x = scene_request("n0", 5);
    struct scene *s = with_numbers(SCENE_BOARD, 2, 1);

    scene_play(s, 1, &x);
    s->boards[1][0] ^= UINT64_C(1) << 1;
    assert_int_equal(scene_try_run(s), TUTTI_ERR_PROTOCOL);
    assert_string_equal(tutti_last_error(), "rank 11 announced \"n0\" twice");
    scene_fini(s);
}

UNIT_TEST(test_a_number_sent_twice_is_refused)
{
    const struct request x = scene_request("n0", 5);
    struct scene *s = with_numbers(SCENE_MESSAGES, 2, 1);
    struct negotiator *coordinator = &s->ranks[0];

    scene_say(s, 1, &x);
    assert_int_equal(negotiator_receive(coordinator, 1, s->first->bytes, s->first->len),
            TUTTI_OK);
    assert_int_equal(negotiator_receive(coordinator, 1, s->first->bytes, s->first->len),
            TUTTI_ERR_PROTOCOL);
    assert_string_equal(tutti_last_error(), "rank 11 announced \"n0\" twice");
    scene_fini(s);
}

static size_t four_bytes(void *user, const struct request *request, const void **bytes)
{
    (void)user;
    (void)request;
    *bytes = "four";
    return 4;
}

/* What a batch reads as operands of its tensor. */
UNIT_TEST(test_operands_of_another_length_are_refused)
{
    static const uint8_t shorter[] = { KIND_LOG, 2, 0, 0, 0, 0, 0, 0, 0, ENTRY_OPERANDS,
        1, 4, 'w', 'o', 'r', 'd' };
    const struct request x = scene_request("n0", 5);
    struct scene *s = with_numbers(SCENE_MESSAGES, 2, 1);

    scene_say(s, 1, &x);
    assert_int_equal(negotiator_receive(&s->ranks[1], 0, shorter, sizeof shorter),
            TUTTI_ERR_PROTOCOL);
    scene_fini(s);
    s = with_numbers(SCENE_MESSAGES, 2, 1);
    s->ranks[1].config.operand = four_bytes;
    scene_say(s, 1, &x);
    assert_int_equal(negotiator_receive(&s->ranks[1], 0, shorter, sizeof shorter),
            TUTTI_ERR_PROTOCOL);
    scene_fini(s);
}
