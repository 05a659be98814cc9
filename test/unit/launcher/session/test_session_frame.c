/*
 * Frames of sessions: what is sent arrives, in any pieces, and nothing else does.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/session/session.h"
#include "test/unit/unit.h"

/* Two ends of a connection. */
static void connect_ends(struct session *end, struct session *other)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *end = (struct session){ .fd = fds[0] };
    *other = (struct session){ .fd = fds[1] };
}

UNIT_TEST(test_frames_arrive_as_they_were_sent)
{
    struct session end;
    struct frame got;
    struct session other;

    connect_ends(&end, &other);
    session_put(&other, 7, "a\0b", 3);
    session_put(&other, 255, NULL, 0);
    assert_true(session_send_all(&other));
    assert_true(session_receive(&end));
    assert_int_equal(session_next(&end, &got), 1);
    assert_int_equal(got.type, 7);
    assert_int_equal(got.len, 3);
    assert_memory_equal(got.body, "a\0b", 3);
    session_put_back(&end);
    assert_int_equal(session_next(&end, &got), 1);
    assert_int_equal(got.type, 7);
    assert_int_equal(session_next(&end, &got), 1);
    assert_int_equal(got.type, 255);
    assert_int_equal(got.len, 0);
    assert_int_equal(session_next(&end, &got), 0);
    session_fini(&other);
    assert_false(session_receive(&end));
    assert_true(end.was_closed);
    session_fini(&end);
}

UNIT_TEST(test_a_frame_in_pieces_is_whole_with_the_last)
{
    static const unsigned char bytes[] = { 3, 0, 0, 0, 9, 'x', 'y' };
    struct session end;
    struct frame got;
    struct session other;

    connect_ends(&end, &other);
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(session_next(&end, &got), 0);
        assert_int_equal(write(other.fd, bytes + i, 1), 1);
        assert_true(session_receive(&end));
    }
    assert_int_equal(session_next(&end, &got), 1);
    assert_int_equal(got.type, 9);
    assert_int_equal(got.len, 2);
    assert_memory_equal(got.body, "xy", 2);
    session_fini(&other);
    session_fini(&end);
}

UNIT_TEST(test_malformed_frames_are_refused)
{
    static const unsigned char cases[][5] = {
        { 0, 0, 0, 0, 1 }, /* without a type  */
        { 2, 0, 2, 0, 1 }, /* longer than any */
        { 0xff, 0xff, 0xff, 0xff, 1 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct session end;
        struct frame got;
        struct session other;

        connect_ends(&end, &other);
        assert_int_equal(write(other.fd, cases[i], sizeof cases[i]), sizeof cases[i]);
        assert_true(session_receive(&end));
        assert_int_equal(session_next(&end, &got), -1);
        session_fini(&other);
        session_fini(&end);
    }
}

/* Two ends with keys as hosts that have met have them. */
static void connect_sealed(struct session *end, struct session *other)
{
    connect_ends(end, other);
    end->seal = (struct frame_seal){ .is_on = true, .in_key = { 1 }, .out_key = { 2 } };
    other->seal =
            (struct frame_seal){ .is_on = true, .in_key = { 2 }, .out_key = { 1 } };
}

UNIT_TEST(test_sealed_frames_come_over)
{
    struct session end;
    struct session other;
    struct frame got;

    connect_sealed(&end, &other);
    for (int i = 0; i < 3; i++) {
        session_put(&other, 5, "abc", 3);
        assert_true(session_send_all(&other));
        assert_true(session_receive(&end));
        assert_int_equal(session_next(&end, &got), 1);
        assert_int_equal(got.len, 3);
        assert_memory_equal(got.body, "abc", 3);
        assert_int_equal(session_next(&end, &got), 0);
    }
    session_fini(&other);
    session_fini(&end);
}

enum meddling {
    CHANGED,
    CUT,
    REPEATED,
    LEFT_OUT,
    UNSEALED,
    SENT_BACK,
    MEDDLINGS
};

static void put(struct wire_writer *out, struct frame_seal *seal)
{
    size_t start = frame_begin(out, 5);

    wire_put_bytes(out, "true", 4);
    frame_end(out, start, seal);
}

/* Puts what somebody between the ends makes of two frames where `end` receives it. */
static void meddle(enum meddling how, struct session *end, struct session *other)
{
    struct frame_seal seal = how == SENT_BACK ? end->seal : other->seal;
    struct wire_writer out = { .data = NULL };
    uint8_t first[64];
    uint8_t second[64];
    ssize_t len;

    seal.is_on = how != UNSEALED;
    put(&out, &seal);
    len = (ssize_t)out.len;
    memcpy(first, out.data, out.len);
    wire_writer_reset(&out);
    put(&out, &seal);
    memcpy(second, out.data, out.len);
    wire_writer_fini(&out);
    first[4 + 1] ^= how == CHANGED ? 1 : 0; /* "true" */
    if (how == CUT) {
        first[0]--;
        assert_int_equal(write(other->fd, first, (size_t)len - 1), len - 1);
    } else if (how != LEFT_OUT) {
        assert_int_equal(write(other->fd, first, (size_t)len), len);
    }
    assert_int_equal(
            write(other->fd, how == REPEATED ? first : second, (size_t)len), len);
}

UNIT_TEST(test_nobody_meddles_with_sealed_frames)
{
    for (int how = 0; how < MEDDLINGS; how++) {
        struct session end;
        struct session other;
        struct frame got;

        connect_sealed(&end, &other);
        meddle((enum meddling)how, &end, &other);
        assert_true(session_receive(&end));
        if (how == REPEATED) {
            assert_int_equal(session_next(&end, &got), 1);
        }
        assert_int_equal(session_next(&end, &got), -1);
        session_fini(&other);
        session_fini(&end);
    }
}
