/*
 * Connecting to the first of several addresses that answers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/exec/uplink.h"
#include "launcher/session/link.h"
#include "launcher/session/sockets.h"
#include "test/unit/unit.h"

static const int64_t second = 1000000000;

/* A socket on this host with its port; with `queue` 0 it does not listen. */
static int make_listener(int queue, int *port)
{
    struct sockaddr_in own = { .sin_family = AF_INET,
        .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof own;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
    if (queue > 0) {
        assert_int_equal(listen(fd, queue), 0);
    }
    *port = ntohs(own.sin_port);
    return fd;
}

/* Tries these addresses; -1 with errno. */
static int try_all(const char *const *hosts, size_t count, int number, int64_t deadline)
{
    struct connect_addresses addresses = { .count = 0 };
    char port[16];

    (void)snprintf(port, sizeof port, "%d", number);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(connect_add(&addresses, hosts[i], port,
                                 AI_NUMERICHOST | AI_NUMERICSERV),
                0);
    }
    return connect_any(&addresses, deadline);
}

/* Of the documentation's network nothing ever answers: nor does it refuse, mostly. */
UNIT_TEST(test_an_address_that_is_silent_holds_up_nobody)
{
    static const char *const hosts[] = { "192.0.2.1", "198.51.100.1", "127.0.0.1" };
    int port;
    int listener = make_listener(1, &port);
    int fd = try_all(hosts, 3, port, clock_ns() + 60 * second);

    assert_true(fd >= 0);
    (void)close(fd);
    (void)close(listener);
}
