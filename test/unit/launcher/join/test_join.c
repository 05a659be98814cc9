/*
 * Hosts that join: their messages and their secret. How they meet is in test_session_meet.c.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/join/join.h"
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

/* Reads a file of this text and mode. */
static tutti_status read_file(struct join_place *place, const char *text, mode_t mode)
{
    static char *none[] = { NULL };
    char path[] = "/tmp/test_join_secret.XXXXXX";
    struct options options = { .join_secret_file = path };
    int fd = mkstemp(path);
    tutti_status status;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
    *place = (struct join_place){ .secret_len = 0 };
    status = join_secret_read(&options, none, place);
    (void)unlink(path);
    return status;
}

UNIT_TEST(test_a_length_that_makes_no_secret_is_refused)
{
    static char longer[JOIN_SECRET_MAX + 10];
    struct join_place place;

    memset(longer, 'x', sizeof longer - 1);
    assert_int_equal(read_file(&place, "", 0600), TUTTI_ERR_INVALID);
    assert_int_equal(read_file(&place, "0123456789abcde\n", 0600), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "not 15; make one"));
    assert_null(strstr(tutti_last_error(), "0123456789"));
    assert_int_equal(read_file(&place, longer, 0600), TUTTI_ERR_INVALID);
}
