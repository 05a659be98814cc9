/*
 * Connections to tuttirun: how many are held, and of whom.
 */
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/session/meet.h"
#include "launcher/session/server.h"
#include "test/unit/unit.h"

enum {
    LIMIT = 3,
    BUFFER = 65536 /* bytes that a socket takes, more or less */
};

static void open_server(struct server *server)
{
    static struct loop loop;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    *server = (struct server){ .listener = -1 };
    assert_int_equal(server_init(server, &loop, true), TUTTI_OK);
}

static void close_server(struct server *server)
{
    server_fini(server);
    loop_fini(server->loop);
}

/* One more connection; loopback has it in the listener's queue when this returns. */
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
    assert_int_equal(frame_take(bytes, (size_t)count, NULL, &frame, &used), TUTTI_OK);
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

static bool was_closed(int fd)
{
    struct pollfd asked = { .fd = fd, .events = POLLIN };
    char byte;

    return poll(&asked, 1, 20000) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

UNIT_TEST(test_strangers_that_have_gone_leave_room)
{
    struct server server;
    int fds[LIMIT + 1];

    open_server(&server);
    for (int i = 0; i < LIMIT + 1; i++) {
        fds[i] = call(&server);
    }
    server_accept(&server, LIMIT, 1);
    assert_int_equal(open_links(&server), LIMIT);
    assert_true(was_closed(fds[LIMIT]));
    (void)close(fds[LIMIT]);

    session_lose(&server.links[1]->session);
    fds[LIMIT] = call(&server);
    server_accept(&server, LIMIT, 2);
    assert_int_equal(open_links(&server), LIMIT);
    assert_int_equal(server.links[1]->opened, 2);
    for (int i = 0; i < LIMIT + 1; i++) {
        (void)close(fds[i]);
    }
    close_server(&server);
}

/* What is known of a rank outlives its connection. */
UNIT_TEST(test_links_of_ranks_stay)
{
    struct server server;
    int first;
    int second;

    open_server(&server);
    first = call(&server);
    server_accept(&server, LIMIT, 1);
    server.links[0]->rank = 0;
    session_lose(&server.links[0]->session);
    second = call(&server);
    server_accept(&server, LIMIT, 2);
    assert_int_equal(server.count, 2);
    assert_int_equal(server.links[0]->rank, 0);
    (void)close(first);
    (void)close(second);
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
    server_accept(&server, LIMIT, 1);
    take_challenge(fd);
    link = server.links[0];
    (void)setsockopt(
            link->session.fd, SOL_SOCKET, SO_SNDBUF, &(int){ BUFFER }, sizeof(int));
    wire_put_bytes(&link->session.out, bytes, sizeof bytes);
    assert_true(server_flush(link));
    assert_true((link->session.watch.events & (unsigned)EPOLLOUT) != 0);
    while (arrived < BYTES) {
        static char taken[BUFFER];
        struct pollfd asked = { .fd = fd, .events = POLLIN };

        /* Room is made when what was taken has been acknowledged, a moment later. */
        if (poll(&asked, 1, 10) == 1) {
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

static bool have_hung_up(struct server *server, int64_t now)
{
    server_note_hangups(server, now);
    return server->links[0]->hung_up != 0 && server->links[2]->hung_up != 0;
}

/* One that is reset, and one that is closed in order; both have sent something before. */
UNIT_TEST(test_hangups_are_noted_in_their_order)
{
    struct server server;
    int fds[LIMIT];

    open_server(&server);
    for (int i = 0; i < LIMIT; i++) {
        fds[i] = call(&server);
    }
    server_accept(&server, LIMIT, 1);
    assert_int_equal(open_links(&server), LIMIT);
    for (int i = 0; i < LIMIT; i++) {
        take_challenge(fds[i]);
        assert_int_equal(send(fds[i], "x", 1, 0), 1);
    }
    assert_int_equal(send(server.links[2]->session.fd, "unread", 6, 0), 6);
    server_note_hangups(&server, 10);
    assert_int_equal(server.links[2]->hung_up, 0);
    (void)close(fds[2]);
    (void)close(fds[0]);
    for (int tries = 0; !have_hung_up(&server, 20 + tries); tries++) {
        assert_true(tries < 20000);
        (void)usleep(1000);
    }
    assert_true(server.links[2]->hung_up < server.links[0]->hung_up);
    assert_int_equal(server.links[1]->hung_up, 0);
    (void)close(fds[1]);
    close_server(&server);
}
