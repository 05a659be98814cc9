/*
 * Messages between hosts that join, the hub and its agents.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/join/join_message.h"
#include "test/unit/unit.h"

UNIT_TEST(test_messages_arrive_as_they_were_sent)
{
    const struct join_message sent = {
        .type = JOIN_OUTPUT, .channel = 7, .value = 2, .bytes = "a\0b", .len = 3
    };
    const struct join_message empty = { .type = JOIN_BYE };
    const struct join_message long_one = { .type = JOIN_RUN, .len = FRAME_MAX };
    struct session end;
    struct session other;
    struct join_message got;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    end = session_of(fds[0], NULL, 0);
    other = session_of(fds[1], NULL, 0);
    assert_false(join_send(&other, &long_one));
    assert_true(join_send(&other, &sent));
    assert_true(join_send(&other, &empty));
    session_put(&other, JOIN_INPUT, "1234567", 7); /* shorter than its header */
    session_put(&other, JOIN_BYE + 1, "12345678", 8); /* types that are unknown  */
    session_put(&other, JOIN_RUN - 1, "12345678", 8);
    assert_true(session_send_all(&other));
    assert_true(session_receive(&end));
    assert_int_equal(join_next(&end, &got), 1);
    assert_int_equal(got.type, JOIN_OUTPUT);
    assert_int_equal(got.channel, 7);
    assert_int_equal(got.value, 2);
    assert_int_equal(got.len, 3);
    assert_memory_equal(got.bytes, "a\0b", 3);
    assert_int_equal(join_next(&end, &got), 1);
    assert_int_equal(got.type, JOIN_BYE);
    assert_int_equal(got.len, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(join_next(&end, &got), -1);
    }
    assert_int_equal(join_next(&end, &got), 0);
    session_fini(&end);
    session_fini(&other);
    assert_false(join_send(&other, &empty));
}

UNIT_TEST(test_a_hello_is_read_back)
{
    const struct join_hello sent = {
        .key = "b-17 attempt 1", .name = "algo-2", .index = 3, .slots = 8
    };
    struct wire_writer out = { .data = NULL };
    char texts[JOIN_HELLO_TEXTS_MAX];
    struct join_hello hello;
    struct wire_reader in;

    join_put_hello(&out, &sent);
    wire_reader_init(&in, out.data, out.len);
    assert_true(join_get_hello(&in, &hello, texts));
    assert_string_equal(hello.key, "b-17 attempt 1");
    assert_string_equal(hello.name, "algo-2");
    assert_int_equal(hello.index, 3);
    assert_int_equal(hello.slots, 8);
    /* Cut anywhere it is none. */
    for (size_t len = 0; len < out.len; len++) {
        wire_reader_init(&in, out.data, len);
        assert_false(join_get_hello(&in, &hello, texts));
    }
    wire_writer_fini(&out);
}

UNIT_TEST(test_keys_are_compared_whole)
{
    assert_true(join_same_key("", ""));
    assert_true(join_same_key("abc", "abc"));
    assert_false(join_same_key("abc", "abd"));
    assert_false(join_same_key("abc", "ab"));
    assert_false(join_same_key("", "a"));
}
