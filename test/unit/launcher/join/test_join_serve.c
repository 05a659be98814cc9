/*
 * A host that joins runs what the first host says, also what comes at once with the WELCOME,
 * and nothing of another's.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/join/join.h"
#include "launcher/join/join_message.h"
#include "launcher/session/listen.h"
#include "test/unit/unit.h"

enum {
    PATIENCE_S = 20
};

static const char secret[] = "0123456789abcdef";

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
