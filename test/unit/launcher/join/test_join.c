/*
 * Hosts that join: their messages, their secret, and that one runs what the first host says, also
 * what comes at once with the WELCOME, and nothing of another's.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/join/join.h"
#include "launcher/join/join_message.h"
#include "launcher/session/sockets.h"
#include "test/unit/unit.h"

enum {
    PATIENCE_S = 240
};

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

#define SECRET "0123456789abcdef"

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

UNIT_TEST(test_a_file_without_its_last_newline)
{
    static const char *const texts[] = { SECRET, SECRET "\n", SECRET "\r\n" };
    struct join_place place;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(read_file(&place, texts[i], 0400), TUTTI_OK);
        assert_int_equal(place.secret_len, strlen(SECRET));
        assert_memory_equal(place.secret, SECRET, strlen(SECRET));
    }
}

UNIT_TEST(test_a_file_that_others_may_read_is_refused)
{
    static const mode_t modes[] = { 0604, 0640, 0602, 0610 };
    struct join_place place;

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(read_file(&place, SECRET, modes[i]), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), "chmod 600"));
        assert_null(strstr(tutti_last_error(), SECRET));
        assert_int_equal(place.secret_len, 0);
    }
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

UNIT_TEST(test_without_a_file)
{
    static char variable[] = "TUTTI_JOIN_SECRET=" SECRET;
    static char *set[] = { variable, NULL };
    static char *unset[] = { NULL };
    struct options options = { .join_secret_file = NULL };
    struct join_place place = { .secret_len = 0 };

    assert_int_equal(join_secret_read(&options, set, &place), TUTTI_OK);
    assert_memory_equal(place.secret, SECRET, place.secret_len);
    place.secret_len = 0;
    assert_int_equal(join_secret_read(&options, unset, &place), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "--join-trusted-network"));
    options.join_trusted_network = true;
    assert_int_equal(join_secret_read(&options, unset, &place), TUTTI_OK);
    assert_int_equal(place.secret_len, 0);
    options.join_secret_file = "/no/such/file";
    assert_int_equal(join_secret_read(&options, set, &place), TUTTI_ERR_INVALID);
}

static const char secret[] = SECRET;

/* The host, in a process of its own; exits with 1 where join_serve() fails. */
static pid_t start_host(uint16_t port)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct placement placement = {
            .join = { .nodes = 2,
                    .index = 1,
                    .port = port,
                    .secret_len = sizeof secret },
        };

        (void)snprintf(placement.join.first, sizeof placement.join.first, "127.0.0.1");
        memcpy(placement.join.secret, secret, sizeof secret);
        _exit(join_serve(&placement, PATIENCE_S) == TUTTI_OK ? 0 : 1);
    }
    return pid;
}

static int64_t deadline(void)
{
    return clock_ns() + (int64_t)PATIENCE_S * 1000000000;
}

static struct join_message next_message(struct session *session)
{
    struct join_message message;
    int got = join_next(session, &message);

    while (got == 0) {
        struct pollfd asked = { .fd = session->fd, .events = POLLIN };

        assert_int_equal(poll(&asked, 1, PATIENCE_S * 1000), 1);
        assert_true(session_receive(session));
        got = join_next(session, &message);
    }
    assert_int_equal(got, 1);
    return message;
}

/* The host's HELLO to one who has this secret; what is sent next goes in one piece. */
static struct session meet_host(pid_t *host, const char *text, size_t len)
{
    uint16_t port = 0;
    int listener = listen_anywhere(&port);
    struct pollfd asked = { .fd = listener, .events = POLLIN };
    struct session session;
    struct meet_hello hello;
    struct frame frame;

    assert_true(listener >= 0);
    *host = start_host(port);
    assert_int_equal(poll(&asked, 1, PATIENCE_S * 1000), 1);
    session = session_of(accept(listener, NULL, NULL), text, len);
    (void)close(listener);
    assert_true(meet_challenge(&session));
    assert_true(session_send_all(&session));
    assert_int_equal(session_wait(&session, deadline(), &frame), 1);
    assert_int_equal(meet_take_hello(&session, &join_protocol, &frame, &hello),
            len == sizeof secret);
    (void)setsockopt(session.fd, IPPROTO_TCP, TCP_CORK, &(int){ 1 }, sizeof(int));
    return session;
}

static int end_of(pid_t host)
{
    int status;

    assert_int_equal(waitpid(host, &status, 0), host);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

UNIT_TEST(test_what_comes_with_the_welcome_is_run)
{
    const struct join_message run = { .type = JOIN_RUN, .bytes = "echo ran", .len = 8 };
    const struct join_message bye = { .type = JOIN_BYE };
    struct session end;
    struct join_message said;
    pid_t host;

    end = meet_host(&host, secret, sizeof secret);
    meet_welcome(&end, &join_protocol, NULL, 0);
    assert_true(join_send(&end, &run));
    (void)setsockopt(end.fd, IPPROTO_TCP, TCP_CORK, &(int){ 0 }, sizeof(int));
    do {
        said = next_message(&end);
    } while (said.type != JOIN_OUTPUT);
    assert_int_equal(said.len, 4);
    assert_memory_equal(said.bytes, "ran\n", 4);
    assert_true(join_send(&end, &bye));
    (void)setsockopt(end.fd, IPPROTO_TCP, TCP_CORK, &(int){ 0 }, sizeof(int));
    assert_int_equal(end_of(host), 0);
    session_fini(&end);
}

UNIT_TEST(test_nothing_of_an_impostor_is_run)
{
    char folder[] = "/tmp/test_join_serve.XXXXXX";
    char command[64];
    struct join_message run = { .type = JOIN_RUN, .bytes = command };

    assert_non_null(mkdtemp(folder));
    run.len = (size_t)snprintf(command, sizeof command, "touch %s/ran", folder);
    for (int greets = 0; greets < 2; greets++) {
        pid_t host;
        struct session end = meet_host(&host, "", 0);

        if (greets == 1) {
            meet_welcome(&end, &join_protocol, NULL, 0);
        }
        assert_true(join_send(&end, &run));
        (void)setsockopt(end.fd, IPPROTO_TCP, TCP_CORK, &(int){ 0 }, sizeof(int));
        assert_int_equal(end_of(host), 1);
        session_fini(&end);
    }
    assert_int_equal(rmdir(folder), 0); /* it is empty */
}
