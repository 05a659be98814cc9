/*
 * Frames between hosts that join, the hub and its agents.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/join/frame.h"
#include "test/unit/unit.h"

/* Two ends of a connection. */
static void connect_ends(struct frame_end *end, int *other)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *end = (struct frame_end){ .fd = fds[0] };
    *other = fds[1];
}

static void test_frames_arrive_as_they_were_sent(void **state)
{
    const struct frame sent = {
        .type = FRAME_OUTPUT, .channel = 7, .value = 2, .bytes = "a\0b", .len = 3
    };
    const struct frame empty = { .type = FRAME_BYE };
    struct frame_end end;
    struct frame got;
    int other;

    (void)state;
    connect_ends(&end, &other);
    assert_true(frame_send(other, &sent));
    assert_true(frame_send(other, &empty));
    assert_int_equal(frame_receive(&end), TUTTI_OK);
    assert_int_equal(frame_next(&end, &got), 1);
    assert_int_equal(got.type, FRAME_OUTPUT);
    assert_int_equal(got.channel, 7);
    assert_int_equal(got.value, 2);
    assert_int_equal(got.len, 3);
    assert_memory_equal(got.bytes, "a\0b", 3);
    assert_int_equal(frame_next(&end, &got), 1);
    assert_int_equal(got.type, FRAME_BYE);
    assert_int_equal(got.len, 0);
    assert_int_equal(frame_next(&end, &got), 0);
    (void)close(other);
    assert_int_equal(frame_receive(&end), TUTTI_ERR_SYSTEM);
    frame_end_fini(&end);
}

static void test_a_frame_in_pieces_is_whole_with_the_last(void **state)
{
    static const unsigned char bytes[] = { 11, 0, 0, 0, FRAME_ENDED, 1, 0, 0, 0, 9, 0,
        0, 0, 'x', 'y' };
    struct frame_end end;
    struct frame got;
    int other;

    (void)state;
    connect_ends(&end, &other);
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(frame_next(&end, &got), 0);
        assert_int_equal(write(other, bytes + i, 1), 1);
        assert_int_equal(frame_receive(&end), TUTTI_OK);
    }
    assert_int_equal(frame_next(&end, &got), 1);
    assert_int_equal(got.type, FRAME_ENDED);
    assert_int_equal(got.channel, 1);
    assert_int_equal(got.value, 9);
    assert_memory_equal(got.bytes, "xy", 2);
    (void)close(other);
    frame_end_fini(&end);
}

static void test_malformed_frames_are_refused(void **state)
{
    static const unsigned char cases[][13] = {
        { 8, 0, 0, 0, FRAME_RUN }, /* shorter than its header */
        { 0, 0, 0, 64, FRAME_RUN }, /* longer than any         */
        { 9, 0, 0, 0, 0 }, /* types that are unknown  */
        { 9, 0, 0, 0, FRAME_BYE + 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct frame_end end;
        struct frame got;
        int other;

        connect_ends(&end, &other);
        assert_int_equal(write(other, cases[i], sizeof cases[i]), sizeof cases[i]);
        assert_int_equal(frame_receive(&end), TUTTI_OK);
        assert_int_equal(frame_next(&end, &got), -1);
        (void)close(other);
        frame_end_fini(&end);
    }
}

static void test_a_hello_is_read_back(void **state)
{
    const struct frame_hello sent = {
        .key = "b-17 attempt 1",
        .release = "1.2.3",
        .name = "algo-2",
        .index = 3,
        .slots = 8,
    };
    char texts[HELLO_TEXTS_MAX];
    struct frame_hello hello;
    struct frame_end end;
    struct frame got;
    int other;

    (void)state;
    connect_ends(&end, &other);
    assert_true(frame_send_hello(other, &sent));
    assert_int_equal(frame_receive(&end), TUTTI_OK);
    assert_int_equal(frame_next(&end, &got), 1);
    assert_true(frame_read_hello(&got, &hello, texts));
    assert_string_equal(hello.key, "b-17 attempt 1");
    assert_string_equal(hello.release, "1.2.3");
    assert_string_equal(hello.name, "algo-2");
    assert_int_equal(hello.index, 3);
    assert_int_equal(hello.slots, 8);
    /* Cut anywhere it is none. */
    for (size_t len = got.len; len > 0; len--) {
        struct frame cut = got;

        cut.len = len - 1;
        assert_false(frame_read_hello(&cut, &hello, texts));
    }
    got.value++;
    assert_false(frame_read_hello(&got, &hello, texts));
    (void)close(other);
    frame_end_fini(&end);
}

static void test_keys_are_compared_whole(void **state)
{
    (void)state;
    assert_true(frame_same_key("", ""));
    assert_true(frame_same_key("abc", "abc"));
    assert_false(frame_same_key("abc", "abd"));
    assert_false(frame_same_key("abc", "ab"));
    assert_false(frame_same_key("", "a"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_arrive_as_they_were_sent),
        cmocka_unit_test(test_a_frame_in_pieces_is_whole_with_the_last),
        cmocka_unit_test(test_malformed_frames_are_refused),
        cmocka_unit_test(test_a_hello_is_read_back),
        cmocka_unit_test(test_keys_are_compared_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
