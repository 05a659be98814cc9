/*
 * One connection, by hand.
 */
#include "launcher/check/connect.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/check/facts.h"
#include "launcher/check/route.h"
#include "launcher/listen.h"

enum {
    CONNECT_MS = 5000,
    LISTEN_MS = 20000
};

/* errno of the connection, 0 when it was made. */
static int try_address(const struct addrinfo *address)
{
    int error = 0;
    socklen_t len = sizeof error;
    struct pollfd ready = { .events = POLLOUT };

    ready.fd =
            socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ready.fd < 0) {
        return errno;
    }
    if (connect(ready.fd, address->ai_addr, address->ai_addrlen) != 0) {
        error = errno;
    }
    if (error == EINPROGRESS) {
        error = poll(&ready, 1, CONNECT_MS) == 1 ? 0 : ETIMEDOUT;
        if (error == 0) {
            (void)getsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &len);
        }
    }
    (void)close(ready.fd);
    return error;
}

int connect_main(char *const *argv)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    char text[FACTS_ADDRESS_MAX] = "";
    int64_t started = clock_ns();
    int error;

    if (argv[0] == NULL || argv[1] == NULL) {
        (void)fprintf(stderr, "usage: tuttirun --check-connect HOST PORT\n");
        return CONNECT_EXIT_USAGE;
    }
    error = getaddrinfo(argv[0], argv[1], &hints, &found);
    if (error != 0) {
        (void)printf("the name %s has no address: %s\n", argv[0], gai_strerror(error));
        return CONNECT_EXIT_UNRESOLVED;
    }
    error = ECONNREFUSED;
    for (const struct addrinfo *one = found; one != NULL && error != 0;
            one = one->ai_next) {
        error = try_address(one);
        if (!route_text(one->ai_addr, text)) {
            (void)snprintf(text, sizeof text, "an address of its link");
        }
    }
    freeaddrinfo(found);
    if (error != 0) {
        (void)printf(
                "%s (%s) port %s: %s\n", argv[0], text, argv[1], facts_errno(error));
        return CONNECT_EXIT_UNREACHED;
    }
    (void)printf("%s (%s) port %s: connected in %.1f ms\n", argv[0], text, argv[1],
            (double)(clock_ns() - started) / 1e6);
    return CONNECT_EXIT_OK;
}

int connect_listen_main(char *const *argv)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    struct pollfd ready = { .events = POLLIN };
    char text[FACTS_ADDRESS_MAX] = "";
    uint64_t number;
    uint16_t port;

    if (argv[0] == NULL || !facts_number(argv[0], &number) || number > UINT16_MAX) {
        (void)fprintf(stderr, "usage: tuttirun --check-listen PORT\n");
        return CONNECT_EXIT_USAGE;
    }
    port = (uint16_t)number;
    ready.fd = listen_anywhere(&port);
    if (ready.fd < 0) {
        (void)printf("cannot listen at port %s: %s\n", argv[0], facts_errno(errno));
        return CONNECT_EXIT_UNREACHED;
    }
    if (poll(&ready, 1, LISTEN_MS) != 1 ||
            accept4(ready.fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC) < 0) {
        (void)printf("nobody connected to port %s\n", argv[0]);
        return CONNECT_EXIT_UNREACHED;
    }
    (void)route_text((const struct sockaddr *)&from, text);
    (void)printf("port %s: connected from %s\n", argv[0], text);
    return CONNECT_EXIT_OK;
}
