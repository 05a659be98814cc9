/*
 * The bytes of every message, so that a change of the protocol is noticed. When one is
 * intended, this table changes with it, and so does agree/protocol.h.
 *
 * Four ranks; rank 0 is above 1 and 2, rank 1 above 3.
 */
#include <stdio.h>
#include <string.h>

#include "scene.h"
#include "test/unit/unit.h"

/*
 * Metadata of 5 float32 to be summed: count, count per row, form, dtype, op, root, scales,
 * group and its size; no dimensions, parts or row counts.
 */
#define META_SUM_5 "0a0000 0a0000 000000000000f03f 000000000000f03f"
/* The same of nothing, with a root. */
#define META_NONE(root) "000000 0000" root " 000000000000f03f 000000000000f03f"
#define NO_GROUP " 0000000000000000 00 00 00 00"
/* allreduce "x" */
#define NAME_X "000178"

/* Compares the oldest message under way with hexadecimal text; spaces are ignored. */
static void expect(const struct scene *scene, int from, int to, const char *hex)
{
    const struct scene_message *message = scene->first;
    char wanted[2048];
    char got[2048];
    size_t used = 0;

    assert_non_null(message);
    assert_int_equal(message->from, from);
    assert_int_equal(message->to, to);
    for (; *hex != '\0'; hex++) {
        if (*hex != ' ') {
            wanted[used++] = *hex;
        }
    }
    wanted[used] = '\0';
    assert_true(2 * message->len < sizeof got);
    for (size_t i = 0; i < message->len; i++) {
        (void)snprintf(got + 2 * i, 3, "%02x", message->bytes[i]);
    }
    assert_string_equal(got, wanted);
}

UNIT_TEST(test_announcement_by_name)
{
    const struct request x = scene_request("x", 5);
    struct request b = scene_collective(TUTTI_BROADCAST, "xyz", 300);
    struct scene *s = scene_begin(4, 10);
    static const int64_t shape[] = { 3, 100 };

    scene_say(s, 3, &x);
    /* announce, 0 entries read; name of a subtree, rank 3, allreduce "x", metadata, 0 entries
     * read */
    expect(s, 3, 1, "01 00 07 03" NAME_X META_SUM_5 NO_GROUP "00");
    scene_run(s);

    b.meta.root = 2;
    b.meta.dtype = TUTTI_BFLOAT16;
    b.meta.group = UINT64_C(0x1122334455667788);
    b.meta.group_size = 2;
    b.meta.ndim = 2;
    b.meta.dims = shape;
    scene_say(s, 2, &b);
    /* the count is 300: zigzag 600; the group least significant byte first */
    expect(s, 2, 0,
            "01 00 03 02 01 03 78797a d804 00 00 09 00 02 000000000000f03f "
            "000000000000f03f"
            " 8877665544332211 02 02 00 00 06 c801 00");
    scene_fini(s);
}

UNIT_TEST(test_announcement_by_number)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    const struct request odd = scene_request("x", 6);
    struct scene *s = scene_begin(4, 10);

    for (int i = 0; i < 2; i++) {
        scene_all_ready(s, &x);
        scene_all_ready(s, &y);
    }
    /* announce, 4 entries read; numbers of the subtree of rank 3, 1 and the next */
    scene_submit(s, 3, &x);
    scene_say(s, 3, &y);
    expect(s, 3, 1, "01 04 01 03 01 02");
    scene_run(s);
    scene_submit(s, 1, &x);
    scene_say(s, 1, &y);
    expect(s, 1, 0, "01 04 01 01 01 02");
    scene_run(s);
    scene_say(s, 0, &x);
    scene_play(s, 2, &x);

    /* Split: the number of rank 1 alone, and the name of rank 3 after 5 entries. */
    scene_say(s, 1, &x);
    scene_say(s, 3, &odd);
    scene_deliver(s, 1);
    expect(s, 1, 0,
            "01 05 02 01 01 01 03 03" NAME_X
            "0c0000 0a0000 000000000000f03f 000000000000f03f" NO_GROUP "05");
    scene_fini(s);
}

UNIT_TEST(test_cancellation)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(4, 10);

    scene_all_ready(s, &x);
    scene_play(s, 2, &x);
    scene_cancel(s, 2, &x);
    /* announce, 1 entry read; cancel, rank 2, the name, 1 entry read */
    expect(s, 2, 0, "01 01 04 02" NAME_X "01");
    scene_fini(s);
}

/* All four submit, rank 0 last; the log message that it sends is the oldest message then. */
static void decide(struct scene *scene, const struct request *request)
{
    scene_play_each(scene, 1, 3, request);
    scene_say(scene, 0, request);
}

UNIT_TEST(test_log_of_what_is_ready)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(4, 10);

    decide(s, &x);
    /* log from 0; name, no number */
    expect(s, 0, 1, "02 0000000000000000 11" NAME_X META_SUM_5 NO_GROUP "00");
    scene_run(s);
    decide(s, &x);
    /* the second use is given number 1 */
    expect(s, 0, 1, "02 0100000000000000 11" NAME_X META_SUM_5 NO_GROUP "01");
    scene_run(s);
    decide(s, &x);
    /* numbers: 1, one of them */
    expect(s, 0, 1, "02 0200000000000000 10 01 01");
    scene_fini(s);
}

UNIT_TEST(test_steps)
{
    struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(4, 10);

    x.meta.step = 9;
    scene_say(s, 3, &x);
    /* step 8: +64 beside the form, and 8 + 1 behind it */
    expect(s, 3, 1,
            "01 00 07 03" NAME_X
            "0a0040 09 0a0000 000000000000f03f 000000000000f03f" NO_GROUP "00");
    scene_run(s);
    for (int r = 2; r >= 0; r--) {
        scene_play(s, r, &x);
    }
    x.meta.step = 10;
    scene_all_ready(s, &x);
    x.meta.step = 11;
    decide(s, &x);
    /* the one that is expected takes no byte */
    expect(s, 0, 1, "02 0200000000000000 10 01 01");
    scene_run(s);
    x.meta.step = 300;
    decide(s, &x);
    /* another one: number 1, step 299 + 1 */
    expect(s, 0, 1, "02 0300000000000000 17 01 ac02");
    scene_fini(s);
}

UNIT_TEST(test_log_of_a_retired_number)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    struct scene *s = scene_begin(4, 1);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    scene_all_ready(s, &y);
    decide(s, &y);
    /* forget 1, one of them; name y, number 2 */
    expect(s, 0, 1, "02 0300000000000000 13 01 01 11 000179" META_SUM_5 NO_GROUP "02");
    scene_fini(s);
}

UNIT_TEST(test_log_of_failures)
{
    struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(4, 10);

    x.meta.group = 0x77;
    x.meta.group_size = 2;
    scene_play(s, 3, &x);
    scene_cancel(s, 3, &x);
    scene_run(s);
    scene_say(s, 1, &x);
    scene_play(s, 2, &x);
    scene_say(s, 0, &x);
    /* failed, status -7, rank 13 + 1, a text; group 0x77 failed, the same */
    expect(s, 0, 1,
            "02 0000000000000000 12" NAME_X "0d 0e 26"
            "616c6c7265647563652022782220776173"
            "2063616e63656c6c65642062792072616e6b203133"
            "14 7700000000000000 0d 0e 26"
            "616c6c7265647563652022782220776173"
            "2063616e63656c6c65642062792072616e6b203133");
    scene_fini(s);
}

UNIT_TEST(test_joining)
{
    const struct request x = scene_request("x", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = scene_begin(4, 10);

    scene_say(s, 3, &join);
    /* announce; name, rank 3, collective 67 "join", empty metadata, 0 entries read */
    expect(s, 3, 1, "01 00 03 03 43046a6f696e " META_NONE("00") NO_GROUP "00");
    scene_run(s);
    scene_say(s, 1, &x);
    scene_play(s, 2, &x);
    scene_say(s, 0, &x);
    /* log from 0; absent is one, rank 3; name */
    expect(s, 0, 1, "02 0000000000000000 15 01 03 11" NAME_X META_SUM_5 NO_GROUP "00");
    scene_run(s);
    scene_say(s, 0, &join);
    scene_play(s, 1, &join);
    scene_say(s, 2, &join);
    scene_deliver(s, 1);
    /* the join, with rank 2 as its root: it was last */
    expect(s, 0, 1,
            "02 0200000000000000 11 43046a6f696e " META_NONE("02") NO_GROUP "00");
    scene_fini(s);
}

UNIT_TEST(test_row_counts)
{
    static const int64_t rows[] = { 7 };
    struct request x = scene_collective(TUTTI_GATHER, "x", 5);
    struct scene *s = scene_begin(4, 10);

    x.meta.row_counts = 1;
    x.meta.dims = rows;
    scene_say(s, 3, &x);
    /* one row count of 7: zigzag 14 */
    expect(s, 3, 1,
            "01 00 03 03 07 0178" META_SUM_5 " 0000000000000000 00 00 00 01 0e 00");
    scene_run(s);
    scene_say(s, 1, &x);
    scene_play(s, 2, &x);
    scene_say(s, 0, &x);
    /* not in the log */
    expect(s, 0, 1, "02 0000000000000000 11 07 0178" META_SUM_5 NO_GROUP "00");
    scene_fini(s);
}

UNIT_TEST(test_what_is_held_in_a_stall)
{
    const struct request x = scene_request("x", 5);
    struct scene *s = scene_begin(4, 10);

    scene_all_ready(s, &x);
    scene_all_ready(s, &x);
    scene_play(s, 1, &x);
    scene_say(s, 0, &x);
    scene_tick(s, 0, 2000);
    /* the coordinator waits */
    expect(s, 0, 1, "08");
    scene_deliver(s, 2);
    expect(s, 1, 3, "08");
    scene_deliver(s, 1);
    expect(s, 1, 0, "01 02 02 01 01 01");
    scene_fini(s);
}

/* -------------------------------------------------------------------- plans */

/* Names "x" and "y" have the numbers 1 and 2, and are planned when "x" is next ready. */
static struct scene *begin_plans(enum scene_way way)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    struct scene *s = scene_begin_plans(way, 4, 10, 2);

    for (int i = 0; i < 2; i++) {
        scene_all_ready(s, &x);
        scene_all_ready(s, &y);
    }
    return s;
}

UNIT_TEST(test_log_of_plans)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = begin_plans(SCENE_TREE);

    decide(s, &x);
    /* log from 4; plan on lane 1, 2 batches, 2 tensors: one, number 1; one, number 2 */
    expect(s, 0, 1, "02 0400000000000000 16 01 02 02 01 01 01 02");
    scene_run(s);
    scene_all_ready(s, &y);
    /* It is left by the join of all, and its tensors are launched once more. */
    scene_play_each(s, 0, 3, &join);
    scene_all_ready(s, &x);
    scene_all_ready(s, &y);
    decide(s, &x);
    /* log from 8, behind the join; plan on lane 1, no batches: as it is */
    expect(s, 0, 1, "02 0800000000000000 16 01 00");
    scene_fini(s);
}

UNIT_TEST(test_arrivals)
{
    const struct request x = scene_request("x", 5);
    const struct request odd = scene_request("y", 6);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = begin_plans(SCENE_TREE);

    scene_all_ready(s, &x);
    scene_say(s, 3, &odd);
    /*
     * announce, 5 entries read; arrival of lane 1, epoch 1: 1 batch, then an exit for other
     * metadata (2), of tensor 1 of the plan, by rank 3. That ends the plan for it: name y
     */
    expect(s, 3, 1,
            "01 05 06 01 01 01 02 01 03 03 03 000179"
            "0c0000 0a0000 000000000000f03f 000000000000f03f" NO_GROUP "05");
    scene_run(s);
    scene_fini(s);

    s = begin_plans(SCENE_TREE);
    decide(s, &x);
    scene_run(s);
    scene_say(s, 3, &join);
    /* exit because of a join (3): rank 3 leaves (+128), about no tensor; then the join */
    expect(s, 3, 1,
            "01 05 06 01 01 01 83 00 03 03 03 43046a6f696e " META_NONE("00") NO_GROUP
            "05");
    scene_fini(s);
}

UNIT_TEST(test_arrivals_of_all)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    struct scene *s = begin_plans(SCENE_TREE);

    scene_all_ready(s, &x);
    scene_say(s, 3, &y);
    /* announce, 5 entries read; arrival of lane 1, epoch 1: 2 batches, no exit; rank 3 */
    expect(s, 3, 1, "01 05 06 01 01 02 00 00 03");
    scene_run(s);
    scene_say(s, 1, &y);
    scene_play(s, 2, &y);
    scene_say(s, 0, &y);
    /* arrivals: lane 1, epoch 1, 2 batches; without an exit the rank is any of them */
    expect(s, 0, 1, "06 01 01 02 00 00 02");
    scene_deliver(s, 1);
    scene_deliver(s, 1);
    /* passed on as it is */
    expect(s, 1, 3, "06 01 01 02 00 00 02");
    scene_fini(s);
}

/* Two bytes come with each arrival. */
static void carry(void *user, const struct plan *plan, const struct plan_batch *batch,
        struct wire_writer *out)
{
    (void)user;
    (void)plan;
    (void)batch;
    wire_put_str(out, "\xaa\xbb", 2);
}

UNIT_TEST(test_direct_arrivals)
{
    const struct request x = scene_request("x", 5);
    const struct request y = scene_request("y", 5);
    const struct request join = scene_leave(META_JOIN);
    struct scene *s = begin_plans(SCENE_DIRECT);

    scene_all_ready(s, &x);
    s->ranks[3].config.carry = carry;
    scene_say(s, 3, &y);
    /* arrivals: lane 1, epoch 1, 2 batches, no exit, rank 3; 2 bytes of operands */
    expect(s, 3, 0, "07 01 01 02 00 00 03 02 aabb");
    scene_deliver(s, 1);
    expect(s, 3, 1, "07 01 01 02 00 00 03 02 aabb");
    scene_run(s);
    scene_say(s, 2, &y);
    /* nothing comes with it */
    expect(s, 2, 0, "07 01 01 02 00 00 02 00");
    scene_run(s);
    scene_play_each(s, 0, 1, &y);
    assert_int_equal(scene_count(s, "y", TUTTI_OK), 4);
    scene_say(s, 3, &join);
    /* exit because of a join (3): rank 3 leaves (+128), about no tensor; no operands */
    expect(s, 3, 0, "07 01 01 02 83 00 03 00");
    scene_fini(s);
}

/* What was announced before a plan is told apart from what is announced behind it. */
UNIT_TEST(test_reading_between_announcements)
{
    const struct request x = scene_request("x", 5);
    struct request z = scene_request("z", 5);
    struct scene *s = begin_plans(SCENE_TREE);

    z.meta.group = 7; /* so it is not held for rank 3 */
    scene_play_each(s, 1, 3, &x);
    scene_say(s, 0, &x);
    scene_submit(s, 1, &z);
    for (int i = 0; i < 3; i++) {
        scene_deliver(s, 1);
    }
    /*
     * announce, 4 entries read; name z, then 5 entries read; what it submitted of the plan
     * needs the arrival of rank 3 before it is told
     */
    expect(s, 1, 0,
            "01 04 03 01 00017a" META_SUM_5 " 0700000000000000 00 00 00 00"
            "04 05 05");
    scene_fini(s);
}
