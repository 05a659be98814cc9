/*
 * The bytes of every message, so that a change of the protocol is noticed. When one is
 * intended, this table changes with it, and so does agree/protocol.h.
 *
 * Rank 0 is above 1 and 2, rank 1 above 3 where there is one.
 */
#include <stdio.h>
#include <string.h>

#include "scene.h"
#include "test/unit/unit.h"

/*
 * Metadata of 5 float32 to be summed: count, count per row, form, dtype, op, root, scales,
 * group and its size; no dimensions, parts or row counts. META_6: of 6.
 */
#define META_5 "0a0000 0a0000 000000000000f03f 000000000000f03f"
#define META_6 "0c0000 0a0000 000000000000f03f 000000000000f03f"
/* The same of nothing, with a root. */
#define META_NONE(root) "000000 0000" root "000000000000f03f 000000000000f03f"
#define NO_GROUP "0000000000000000 00 00 00 00"
/* allreduce "x", "y"; the join */
#define NAME_X "000178"
#define NAME_Y "000179"
#define NAME_J "43046a6f696e"
/* "allreduce "x" was already cancelled by rank 13", with its length */
#define CANCELLED \
    "26 616c6c7265647563652022782220776173 2063616e63656c6c65642062792072616e6b203133"

/*
 * What happens, word by word: the act, the rank, and what it submits.
 *   s3x  rank 3 submits x        u3x  ... without a flush     p3x  ... and all is delivered
 *   c3x  it cancels x            ax   all submit, and it ends well
 *   dx   all submit, rank 0 last: the log message that it sends is the oldest one then
 *   m2   2 messages are delivered    r  all are    t0  the time is 2000 at rank 0
 *   o    two bytes travel with each announcement from here on
 *   3>1: the oldest message is from 3 to 1 and has the bytes that follow, to a ";"
 * x and y are allreduces; X is x with 6 elements; 1 to 4 x with a step of 9, 10, 11
 * and 300; 5 and 6 x at spots 5 and 6; g is of a group; b is a broadcast, r a gather, j the join.
 */
struct golden_case {
    int ranks;
    int numbers; /* room for so many */
    const char *script;
};

static const struct golden_case cases[] = {
    /* announce; name of a subtree, rank 3, allreduce "x", metadata, 0 entries read */
    { 4, 10, "s3x 3>1: 01 07 03" NAME_X META_5 NO_GROUP "00;" },
    /* the count is 300: zigzag 600; the group least significant byte first */
    { 4, 10,
            "s2b 2>0: 01 03 02 01 03 78797a d804 00 00 09 00 02 000000000000f03f "
            "000000000000f03f 8877665544332211 02 02 00 00 06 c801 00;" },
    /* announce; numbers of the subtree of rank 3, 1 and the next */
    { 4, 10,
            "ax ay ax ay u3x s3y 3>1: 01 01 03 01 02; r"
            " u1x s1y 1>0: 01 01 01 01 02; r s0x p2x"
            /* split: the number of rank 1 alone, and the name of rank 3 after 5 entries */
            " s1x s3X m1 1>0: 01 02 01 01 01 03 03" NAME_X META_6 NO_GROUP "05;" },
    /* announce; cancel, rank 2, the name, 1 entry read */
    { 4, 10, "ax p2x c2x 2>0: 01 04 02" NAME_X "01;" },
    /* log from 0; name, no number; the second use is given number 1; numbers: 1, one of them */
    { 4, 10,
            "dx 0>1: 02 0000000000000000 11" NAME_X META_5 NO_GROUP "00; r"
            " dx 0>1: 02 0100000000000000 11" NAME_X META_5 NO_GROUP "01; r"
            " dx 0>1: 02 0200000000000000 10 01 01;" },
    /*
     * Step 8: +64 beside the form, and 8 + 1 behind it. The one that is expected takes no byte;
     * another one: number 1, step 299 + 1.
     */
    { 4, 10,
            "s31 3>1: 01 07 03" NAME_X
            "0a0040 09 0a0000 000000000000f03f 000000000000f03f" NO_GROUP "00; r"
            " p21 p11 p01 a2 d3 0>1: 02 0200000000000000 10 01 01; r"
            " d4 0>1: 02 0300000000000000 17 01 ac02;" },
    /* Spot 5: +16 beside the form; number 1 is mixed. */
    { 4, 10,
            "s35 3>1: 01 07 03" NAME_X
            "0a0010 0500000000000000 0a0000 000000000000f03f 000000000000f03f" NO_GROUP
            "00; r p25 p15 p05 a5 p35 p26 p15 s05"
            " 0>1: 02 0200000000000000 19 01; r d6 0>1: 02 0300000000000000 10 01 "
            "01;" },
    /* forget 1, one of them; name y, no number; its next use has 3 */
    { 4, 1,
            "ax ax ay dy 0>1: 02 0300000000000000 13 01 01 11" NAME_Y META_5 NO_GROUP
            "00; r dy 0>1: 02 0500000000000000 11" NAME_Y META_5 NO_GROUP "03;" },
    /* failed, status -7, rank 13 + 1, a text; group 0x77 failed, the same */
    { 4, 10,
            "p3g c3g r s1g p2g s0g 0>1: 02 0000000000000000 12" NAME_X "0d 0e" CANCELLED
            "14 7700000000000000 0d 0e" CANCELLED ";" },
    /*
     * Announce; name, rank 3, collective 67 "join", empty metadata, 0 entries read. Log from 0;
     * absent is one, rank 3; name. The join, with rank 2 as its root: it was last.
     */
    { 4, 10,
            "s3j 3>1: 01 03 03" NAME_J META_NONE("00") NO_GROUP
            "00; r s1x p2x s0x"
            " 0>1: 02 0000000000000000 15 01 03 11" NAME_X META_5 NO_GROUP "00; r"
            " s0j p1j s2j m1 0>1: 02 0200000000000000 11" NAME_J META_NONE("02")
                    NO_GROUP "00;" },
    /* one row count of 7: zigzag 14; not in the log */
    { 4, 10,
            "s3r 3>1: 01 03 03 07 0178" META_5 "0000000000000000 00 00 00 01 0e 00; r"
            " s1r p2r s0r 0>1: 02 0000000000000000 11 07 0178" META_5 NO_GROUP "00;" },
    /* the coordinator waits: what is held is passed on */
    { 4, 10, "ax ax p1x s0x t0 0>1: 08; m2 1>3: 08; m1 1>0: 01 02 01 01 01;" },
    /* operand of number 1, 2 bytes; operands of number 1, 6 bytes, of three ranks */
    { 3, 10,
            "ax ax o s1x 1>0: 01 08 01 02 aabb; m1 p2x s0x"
            " 0>1: 02 0200000000000000 18 01 06 aabbaabbaabb;" },
};

static struct request request_of(char what)
{
    static const uint64_t steps[] = { 9, 10, 11, 300 };
    static const int64_t shape[] = { 3, 100 };
    static const int64_t rows[] = { 7 };
    struct request request =
            scene_request(what == 'y' ? "y" : "x", what == 'X' ? 6 : 5);

    if (what >= '1' && what <= '4') {
        request.meta.step = steps[what - '1'];
    } else if (what == '5' || what == '6') {
        request.meta.spot = (uint64_t)(what - '0');
    } else if (what == 'g') {
        request.meta.group = 0x77;
        request.meta.group_size = 2;
    } else if (what == 'r') {
        request = scene_collective(TUTTI_GATHER, "x", 5);
        request.meta.row_counts = 1;
        request.meta.dims = rows;
    } else if (what == 'b') {
        request = scene_collective(TUTTI_BROADCAST, "xyz", 300);
        request.meta.root = 2;
        request.meta.dtype = TUTTI_BFLOAT16;
        request.meta.group = UINT64_C(0x1122334455667788);
        request.meta.group_size = 2;
        request.meta.ndim = 2;
        request.meta.dims = shape;
    } else if (what == 'j') {
        return scene_leave(META_JOIN);
    }
    return request;
}

static size_t operand(void *user, const struct request *request, const void **bytes)
{
    (void)user;
    (void)request;
    *bytes = "\xaa\xbb";
    return 2;
}

/* Compares the oldest message under way; @return what comes behind its bytes. */
static const char *expect(const struct scene *scene, const char *word)
{
    const struct scene_message *message = scene->first;
    const char *end = strchr(word, ';');
    char wanted[1024] = "";
    char got[1024] = "";
    size_t used = 0;

    assert_non_null(message);
    assert_int_equal(message->from, word[0] - '0');
    assert_int_equal(message->to, word[2] - '0');
    for (const char *hex = word + 4; hex < end; hex++) {
        if (*hex != ' ') {
            wanted[used++] = *hex;
        }
    }
    assert_true(2 * message->len < sizeof got);
    for (size_t i = 0; i < message->len; i++) {
        (void)snprintf(got + 2 * i, 3, "%02x", message->bytes[i]);
    }
    assert_string_equal(got, wanted);
    return end + 1;
}

static void act(struct scene *s, const char *word)
{
    const bool is_of_all = word[0] == 'a' || word[0] == 'd';
    const struct request request = request_of(is_of_all ? word[1]
                    : word[1] != '\0'                   ? word[2]
                                                        : '\0');
    const int rank = word[1] - '0';

    switch (word[0]) {
    case 'a':
        scene_all_ready(s, &request);
        break;
    case 'd':
        scene_play_each(s, 1, 3, &request);
        scene_say(s, 0, &request);
        break;
    case 's':
        scene_say(s, rank, &request);
        break;
    case 'u':
        scene_submit(s, rank, &request);
        break;
    case 'p':
        scene_play(s, rank, &request);
        break;
    case 'c':
        scene_cancel(s, rank, &request);
        break;
    case 'o':
        for (int r = 0; r < s->size; r++) {
            s->ranks[r].config.operand = operand;
        }
        break;
    case 'm':
        scene_deliver(s, rank);
        break;
    case 't':
        scene_tick(s, rank, 2000);
        break;
    default:
        scene_run(s);
        break;
    }
}

UNIT_TEST(test_every_message_has_these_bytes)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *s = scene_begin(SCENE_MESSAGES, cases[i].ranks, cases[i].numbers);

        for (const char *word = cases[i].script; *word != '\0';) {
            if (word[1] == '>') {
                word = expect(s, word);
            } else {
                act(s, word);
                word += strcspn(word, " ");
            }
            word += strspn(word, " ");
        }
        scene_fini(s);
    }
}
