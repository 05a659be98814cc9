/*
 * Connections to tuttirun: how many are held, and of whom.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/session/meet.h"
#include "launcher/session/server.h"
#include "test/unit/launcher/session/serve.h"

enum {
    LIMIT = 3,
    BUFFER = 65536 /* bytes that a socket takes, more or less */
};

static struct loop loop;
static size_t called;

static void count(void *link, unsigned ready)
{
    (void)link;
    called += (ready & (unsigned)EPOLLIN) != 0;
}

/* Who has proven himself gets the number that the next one has not. */
static void hello(struct server_link *link, struct meet_hello *said)
{
    static int next;

    if (said != NULL) {
        link->rank = next++;
        meet_welcome(&link->session, link->server->protocol, NULL, 0);
        assert_true(server_flush(link));
    }
}

static void open_server(struct server *server)
{
    static const struct meet_protocol protocol = { .name = "test" };

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    called = 0;
    *server = (struct server){
        .protocol = &protocol, .hello = hello, .call = count, .listener.fd = -1
    };
    assert_int_equal(server_make_token(server), TUTTI_OK);
    assert_int_equal(server_open(server, true), TUTTI_OK);
    assert_true(server_begin(server, &loop));
}

static void close_server(struct server *server)
{
    server_fini(server);
    loop_fini(&loop);
}

/* One more connection. */
static int call(const struct server *server)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(server->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ BUFFER }, sizeof(int));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Reads the challenge: what comes to one who is accepted first. */
static void take_challenge(int fd)
{
    uint8_t bytes[64];
    struct frame frame;
    size_t used;
    ssize_t count = recv(fd, bytes, sizeof bytes, 0);

    assert_true(count > 0);
    assert_int_equal(frame_take(bytes, (size_t)count, &frame, &used), TUTTI_OK);
    assert_int_equal(used, count);
    assert_int_equal(frame.type, FRAME_CHALLENGE);
}

static size_t open_links(const struct server *server)
{
    size_t count = 0;

    for (size_t i = 0; i < server->count; i++) {
        assert_int_equal(server->links[i]->index, i);
        count += session_is_lost(&server->links[i]->session) ? 0 : 1;
    }
    return count;
}

/* How many have proven themselves. */
static size_t proven_links(const struct server *server)
{
    size_t count = 0;

    for (size_t i = 0; i < server->count; i++) {
        count += server->links[i]->rank >= 0 ? 1 : 0;
    }
    return count;
}

/* The server has closed the other end; what it has said before is passed over. */
static bool was_closed(int fd)
{
    char bytes[64];
    ssize_t count;

    do {
        count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (count > 0);
    return count == 0 || errno != EAGAIN;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
}

/* Says HELLO to a server that has called the challenge; the WELCOME is not waited for. */
static void say_hello(const struct server *server, struct session *session)
{
    struct frame frame;

    assert_int_equal(meet_wait(session, INT64_MAX), MEET_OK);
    assert_int_equal(
            meet_join(session, server->protocol, NULL, 0, 1, &frame), MEET_SILENT);
}

/* A friend: the server's part is played in between. */
static struct session call_as_friend(const struct server *server)
{
    struct session session = session_of(call(server), server->token, LINK_TOKEN_BYTES);
    const size_t proven = proven_links(server);

    SERVE_UNTIL(is_readable(session.fd));
    say_hello(server, &session);
    SERVE_UNTIL(proven_links(server) == proven + 1);
    return session;
}

/* It has called long before the next one. */
static void age(struct server *server, int index)
{
    server->links[index]->opened = index;
}

/* However many call and say nothing: they take nobody's place who can prove himself. */
UNIT_TEST(test_strangers_take_no_place)
{
    struct server server;
    int fds[SERVER_STRANGERS + 1];
    struct session first, second;

    open_server(&server);
    first = call_as_friend(&server);
    for (size_t i = 0; i < SERVER_STRANGERS; i++) {
        fds[i] = call(&server);
        SERVE_UNTIL(open_links(&server) == i + 2);
        age(&server, (int)i + 1);
    }
    fds[SERVER_STRANGERS] = call(&server);
    SERVE_UNTIL(was_closed(fds[0]));
    SERVE_UNTIL(open_links(&server) == SERVER_STRANGERS + 1);
    second = call_as_friend(&server);
    SERVE_UNTIL(open_links(&server) == SERVER_STRANGERS + 1);
    assert_int_equal(server.links[0]->rank + 1, server.links[2]->rank);
    assert_false(session_is_lost(&server.links[0]->session));
    SERVE_UNTIL(called == 2); /* what may have come behind the HELLO is looked at */
    assert_int_equal(send(first.fd, "x", 1, 0), 1);
    SERVE_UNTIL(called == 3);
    close_all(fds, SERVER_STRANGERS + 1);
    session_fini(&first);
    session_fini(&second);
    close_server(&server);
}

/* Whose time is up has what he said by then heard first. */
UNIT_TEST(test_strangers_have_a_time)
{
    struct server server;
    struct session friend;
    int silent;

    open_server(&server);
    silent = call(&server);
    SERVE_UNTIL(open_links(&server) == 1);
    assert_true(server.links[0]->session.watch.due > server.links[0]->opened);
    friend = session_of(call(&server), server.token, LINK_TOKEN_BYTES);
    SERVE_UNTIL(open_links(&server) == 2);
    say_hello(&server, &friend);
    wait_for(server.links[1]->session.fd, POLLIN);
    for (int i = 0; i < 2; i++) {
        struct loop_watch *watch = &server.links[i]->session.watch;

        loop_set_due(&loop, watch, 1);
        watch->call(server.links[i], 0);
    }
    assert_true(session_is_lost(&server.links[0]->session));
    assert_int_equal(server.links[0]->rank, -1);
    SERVE_UNTIL(was_closed(silent));
    assert_true(server.links[1]->rank >= 0);
    assert_int_equal(server.links[1]->session.watch.due, 0);
    (void)close(silent);
    session_fini(&friend);
    close_server(&server);
}

/* Bytes that the socket does not take wait, and all arrive. */
UNIT_TEST(test_what_waits_is_sent_later)
{
    enum {
        BYTES = SESSION_FULL - 1
    };
    static char bytes[BYTES];
    struct server server;
    struct server_link *link;
    size_t arrived = 0;
    int fd;

    open_server(&server);
    fd = call(&server);
    SERVE_UNTIL(open_links(&server) == 1);
    take_challenge(fd);
    link = server.links[0];
    (void)setsockopt(
            link->session.fd, SOL_SOCKET, SO_SNDBUF, &(int){ BUFFER }, sizeof(int));
    wire_put_bytes(&link->session.out, bytes, sizeof bytes);
    assert_true(server_flush(link));
    assert_true((link->session.watch.events & (unsigned)EPOLLOUT) != 0);
    while (arrived < BYTES) {
        static char taken[BUFFER];

        /* Room is made when what was taken has been acknowledged, a moment later. */
        if (is_readable(fd)) {
            ssize_t count = recv(fd, taken, sizeof taken, 0);

            assert_true(count > 0);
            arrived += (size_t)count;
        }
        assert_true(server_flush(link));
    }
    assert_int_equal(link->session.out.len, 0);
    assert_int_equal(link->session.watch.events, EPOLLIN);
    (void)close(fd);
    close_server(&server);
}

/* One that is reset, and one that is closed in order; both have sent something before. */
UNIT_TEST(test_hangups_are_noted_in_their_order)
{
    struct server server;
    int fds[LIMIT];

    open_server(&server);
    for (size_t i = 0; i < LIMIT; i++) {
        fds[i] = call(&server);
        SERVE_UNTIL(open_links(&server) == i + 1);
        take_challenge(fds[i]);
        assert_int_equal(send(fds[i], "x", 1, 0), 1);
    }
    assert_int_equal(send(server.links[2]->session.fd, "unread", 6, 0), 6);
    wait_for(fds[2], POLLIN);
    server_note_hangups(&server, 10);
    assert_int_equal(server.links[2]->hung_up, 0);
    (void)close(fds[2]);
    wait_for(server.links[2]->session.fd, POLLRDHUP);
    (void)close(fds[0]);
    wait_for(server.links[0]->session.fd, POLLRDHUP);
    server_note_hangups(&server, 20);
    assert_true(server.links[2]->hung_up < server.links[0]->hung_up);
    assert_int_not_equal(server.links[2]->hung_up, 0);
    assert_int_equal(server.links[1]->hung_up, 0);
    (void)close(fds[1]);
    close_server(&server);
}
