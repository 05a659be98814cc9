/*
 * A connection from a supervisor to tuttirun: all addresses nearly at once, for one that
 * leads nowhere would otherwise take a minute to fail.
 */
#include "launcher/exec/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

static const int64_t stagger_ns = 100000000;
static const int64_t millisecond = 1000000;

/* Attempts that are under way. */
struct attempts {
    struct pollfd polled[LINK_ADDRESSES_MAX]; /* fd -1: failed */
    size_t count; /* begun                            */
    size_t pending; /* of them, not failed              */
    int reason; /* errno of the last that failed    */
    int64_t next; /* when the next one is begun, ns   */
};

/* A socket on its way to a numeric address; -1 with errno. */
static int begin_connect(const char *host, const char *port)
{
    const struct addrinfo hints = {
        .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found;
    int one = 1;
    int fd;

    if (getaddrinfo(host, port, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(fd, found->ai_addr, found->ai_addrlen) != 0 &&
                errno != EINPROGRESS) {
            int reason = errno;

            (void)close(fd);
            errno = reason;
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static void begin_next(struct attempts *attempts, const struct link_address *address)
{
    char port[16];
    int fd;

    (void)snprintf(port, sizeof port, "%d", address->port);
    fd = begin_connect(address->addresses[attempts->count], port);
    attempts->reason = fd < 0 ? errno : attempts->reason;
    attempts->pending += fd < 0 ? 0 : 1;
    attempts->polled[attempts->count++] =
            (struct pollfd){ .fd = fd, .events = POLLOUT };
}

/* The attempt that has succeeded, -1 when there is none yet. Failed ones are closed. */
static int take_connected(struct attempts *attempts)
{
    for (size_t i = 0; i < attempts->count; i++) {
        struct pollfd *polled = &attempts->polled[i];
        int reason = 0;
        socklen_t len = sizeof reason;

        if (polled->fd < 0 || polled->revents == 0) {
            continue;
        }
        if (getsockopt(polled->fd, SOL_SOCKET, SO_ERROR, &reason, &len) == 0 &&
                reason == 0) {
            int fd = polled->fd;

            polled->fd = -1;
            return fd;
        }
        (void)close(polled->fd);
        polled->fd = -1;
        attempts->pending--;
        attempts->reason = reason;
    }
    return -1;
}

static void wait_for_any(struct attempts *attempts, int64_t until)
{
    int64_t left = until - clock_ns();

    for (size_t i = 0; i < attempts->count; i++) {
        attempts->polled[i].revents = 0;
    }
    (void)poll(attempts->polled, (nfds_t)attempts->count,
            left <= 0 ? 0 : (int)((left + millisecond - 1) / millisecond));
}

static tutti_status fail(const struct link_address *address, int reason)
{
    char list[LINK_JOIN_MAX] = "";
    size_t len = 0;

    for (size_t i = 0; i < address->count && len < sizeof list; i++) {
        int added = snprintf(list + len, sizeof list - len, "%s%s", i == 0 ? "" : ", ",
                address->addresses[i]);

        len += added < 0 ? 0 : (size_t)added;
    }
    errno = reason;
    return error_set_errno(TUTTI_ERR_SYSTEM,
            "cannot reach tuttirun at %s, port %d (choose a network that all hosts "
            "share with --nic)",
            list, address->port);
}

/* Begins the next attempt when its time has come; returns when to look again. */
static int64_t begin_when_due(struct attempts *attempts,
        const struct link_address *address, int64_t now, int64_t deadline)
{
    if (attempts->count < address->count &&
            (attempts->pending == 0 || now >= attempts->next)) {
        begin_next(attempts, address);
        attempts->next = now + stagger_ns;
    }
    return attempts->count < address->count && attempts->next < deadline
            ? attempts->next
            : deadline;
}

static void close_all(struct attempts *attempts)
{
    for (size_t i = 0; i < attempts->count; i++) {
        if (attempts->polled[i].fd >= 0) {
            (void)close(attempts->polled[i].fd);
        }
    }
}

tutti_status connect_any(const struct link_address *address, int64_t deadline, int *fd)
{
    struct attempts attempts = { .reason = ETIMEDOUT };
    int connected = -1;
    int64_t now;

    while (connected < 0 && (now = clock_ns()) < deadline &&
            (attempts.count < address->count || attempts.pending > 0)) {
        int64_t until = begin_when_due(&attempts, address, now, deadline);

        if (attempts.pending > 0) {
            wait_for_any(&attempts, until);
            connected = take_connected(&attempts);
        }
    }
    close_all(&attempts);
    if (connected < 0) {
        return fail(address, attempts.pending > 0 ? ETIMEDOUT : attempts.reason);
    }
    *fd = connected;
    return TUTTI_OK;
}
