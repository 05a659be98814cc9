/*
 * A socket for connections over IPv4 and IPv6.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/session/listen.h"
#include "test/unit/unit.h"

UNIT_TEST(test_both_kinds_of_addresses)
{
    uint16_t port = 0;
    int listener = listen_anywhere(&port);
    const struct sockaddr_in four = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    const struct sockaddr_in6 six = {
        .sin6_family = AF_INET6,
        .sin6_port = htons(port),
        .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int other = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(listener >= 0);
    assert_int_not_equal(port, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&four, sizeof four), 0);
    (void)close(fd);
    /* Where ::1 can be reached at all. */
    if (other >= 0 && connect(other, (const struct sockaddr *)&six, sizeof six) == 0) {
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&six, sizeof six), 0);
        (void)close(fd);
    }
    (void)close(other);
    (void)close(listener);
}

UNIT_TEST(test_a_port_that_is_taken)
{
    uint16_t port = 0;
    int listener = listen_anywhere(&port);
    uint16_t same = port;

    assert_true(listener >= 0);
    assert_int_equal(listen_anywhere(&same), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(same, port);
    (void)close(listener);
}
