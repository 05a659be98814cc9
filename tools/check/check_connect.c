/*
 * One connection, by hand.
 */
#include "tools/check/check_connect.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/session/sockets.h"
#include "tools/check/facts.h"

enum {
    CONNECT_MS = 5000,
    LISTEN_MS = 20000
};

int connect_main(char *const *argv)
{
    struct connect_addresses addresses = { .count = 0 };
    char text[NETWORK_ADDRESS_MAX] = "";
    int64_t started = clock_ns();
    int error;
    int fd;

    if (argv[0] == NULL || argv[1] == NULL) {
        (void)fprintf(stderr, "usage: tuttirun --check-connect HOST PORT\n");
        return CONNECT_EXIT_USAGE;
    }
    error = connect_add(&addresses, argv[0], argv[1], 0);
    if (error != 0) {
        (void)printf("the name %s has no address: %s\n", argv[0], gai_strerror(error));
        return CONNECT_EXIT_UNRESOLVED;
    }
    fd = connect_any(&addresses, started + (int64_t)CONNECT_MS * 1000000);
    error = errno;
    if (!network_address_of(
                (const struct sockaddr *)&addresses.list[addresses.last], text)) {
        (void)snprintf(text, sizeof text, "an address of its link");
    }
    if (fd < 0) {
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
    char text[NETWORK_ADDRESS_MAX] = "";
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
    (void)network_address_of((const struct sockaddr *)&from, text);
    (void)printf("port %s: connected from %s\n", argv[0], text);
    return CONNECT_EXIT_OK;
}
