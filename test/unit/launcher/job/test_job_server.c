/*
 * Connections to tuttirun: how many are held, and of whom.
 */
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/job/server.h"
#include "test/unit/unit.h"

enum {
    LIMIT = 3,
    BUFFER = 65536 /* bytes that a socket takes, more or less */
};

static void open_server(struct server *server)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    assert_true(epoll >= 0);
    assert_int_equal(server_init(server, epoll, 10, true), TUTTI_OK);
}

static void close_server(struct server *server)
{
    int epoll = server->epoll;

    server_fini(server);
    (void)close(epoll);
}

/* One more connection; loopback has it in the listener's queue when this returns. */
static int call(const struct server *server)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)server->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ BUFFER }, sizeof(int));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static size_t open_links(const struct server *server)
{
    size_t count = 0;

    for (size_t i = 0; i < server->count; i++) {
        assert_int_equal(server->links[i]->index, i);
        count += server->links[i]->fd >= 0 ? 1 : 0;
    }
    return count;
}

static bool was_closed(int fd)
{
    struct pollfd asked = { .fd = fd, .events = POLLIN };
    char byte;

    return poll(&asked, 1, 20000) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

static void test_strangers_that_have_gone_leave_room(void **state)
{
    struct server server;
    int fds[LIMIT + 1];

    (void)state;
    open_server(&server);
    for (int i = 0; i < LIMIT + 1; i++) {
        fds[i] = call(&server);
    }
    server_accept(&server, LIMIT, 1);
    assert_int_equal(open_links(&server), LIMIT);
    assert_true(was_closed(fds[LIMIT]));
    (void)close(fds[LIMIT]);

    server_close(server.links[1]);
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
static void test_links_of_ranks_stay(void **state)
{
    struct server server;
    int first;
    int second;

    (void)state;
    open_server(&server);
    first = call(&server);
    server_accept(&server, LIMIT, 1);
    server.links[0]->rank = 0;
    server_close(server.links[0]);
    second = call(&server);
    server_accept(&server, LIMIT, 2);
    assert_int_equal(server.count, 2);
    assert_int_equal(server.links[0]->rank, 0);
    (void)close(first);
    (void)close(second);
    close_server(&server);
}

/* Bytes that the socket does not take wait, and all arrive. */
static void test_what_waits_is_sent_later(void **state)
{
    enum {
        BYTES = SERVER_OUT_MAX - 1
    };
    static char bytes[BYTES];
    struct server server;
    struct server_link *link;
    size_t arrived = 0;
    int fd;

    (void)state;
    open_server(&server);
    fd = call(&server);
    server_accept(&server, LIMIT, 1);
    link = server.links[0];
    (void)setsockopt(link->fd, SOL_SOCKET, SO_SNDBUF, &(int){ BUFFER }, sizeof(int));
    wire_put_bytes(&link->out, bytes, sizeof bytes);
    assert_true(server_flush(&server, link));
    assert_true((link->events & (unsigned)EPOLLOUT) != 0);
    while (arrived < BYTES) {
        static char taken[BUFFER];
        struct pollfd asked = { .fd = fd, .events = POLLIN };

        /* Room is made when what was taken has been acknowledged, a moment later. */
        if (poll(&asked, 1, 10) == 1) {
            ssize_t count = recv(fd, taken, sizeof taken, 0);

            assert_true(count > 0);
            arrived += (size_t)count;
        }
        assert_true(server_flush(&server, link));
    }
    assert_int_equal(link->out.len, 0);
    assert_int_equal(link->events, EPOLLIN);
    (void)close(fd);
    close_server(&server);
}

static void test_only_the_secret_is_the_secret(void **state)
{
    struct server server;
    char text[LINK_TOKEN_BYTES + 1];

    (void)state;
    open_server(&server);
    memcpy(text, server.token, sizeof text);
    assert_true(server_token_is(&server, text, LINK_TOKEN_BYTES));
    assert_false(server_token_is(&server, text, LINK_TOKEN_BYTES - 1));
    text[LINK_TOKEN_BYTES - 1] ^= 1;
    assert_false(server_token_is(&server, text, LINK_TOKEN_BYTES));
    close_server(&server);
}

static bool have_hung_up(struct server *server, int64_t now)
{
    server_note_hangups(server, now);
    return server->links[0]->hung_up != 0 && server->links[2]->hung_up != 0;
}

/* One that is reset, and one that is closed in order; both have sent something before. */
static void test_hangups_are_noted_in_their_order(void **state)
{
    struct server server;
    int fds[LIMIT];

    (void)state;
    open_server(&server);
    for (int i = 0; i < LIMIT; i++) {
        fds[i] = call(&server);
    }
    server_accept(&server, LIMIT, 1);
    assert_int_equal(open_links(&server), LIMIT);
    for (int i = 0; i < LIMIT; i++) {
        assert_int_equal(send(fds[i], "x", 1, 0), 1);
    }
    assert_int_equal(send(server.links[2]->fd, "unread", 6, 0), 6);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_that_have_gone_leave_room),
        cmocka_unit_test(test_links_of_ranks_stay),
        cmocka_unit_test(test_what_waits_is_sent_later),
        cmocka_unit_test(test_only_the_secret_is_the_secret),
        cmocka_unit_test(test_hangups_are_noted_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
