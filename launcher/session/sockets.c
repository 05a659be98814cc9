#include "launcher/session/sockets.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/session/loop.h"

enum {
    PAUSE_MS = 100, /* where descriptors have run out */
    BURST = 64 /* accepted before others have their turn */
};

/* Ports have the same place in both. */
union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un local;
};

static int listen_at(union address *address, socklen_t len)
{
    const int family = address->any.sa_family;
    const int on = 1;
    const int off = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* Some machines have it the other way round. */
    if ((family != AF_INET6 ||
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
            bind(fd, &address->any, len) == 0 && listen(fd, SOMAXCONN) == 0 &&
            getsockname(fd, &address->any, &len) == 0) {
        return fd;
    }
    error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

static int listen_port(union address *address, socklen_t len, uint16_t *port)
{
    const int fd = listen_at(address, len);

    *port = fd < 0 ? *port : ntohs(address->four.sin_port);
    return fd;
}

int listen_here(uint16_t *port)
{
    union address four = { .four = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(*port) } };

    return listen_port(&four, sizeof four.four, port);
}

int listen_path(const char *path)
{
    union address local = { .local = { .sun_family = AF_UNIX } };

    (void)snprintf(local.local.sun_path, sizeof local.local.sun_path, "%s", path);
    return listen_at(&local, sizeof local.local);
}

int listen_anywhere(uint16_t *port)
{
    union address six = { .six = { .sin6_family = AF_INET6,
                                  .sin6_port = htons(*port) } };
    union address four = { .four = {
                                   .sin_family = AF_INET, .sin_port = htons(*port) } };
    const int fd = listen_port(&six, sizeof six.six, port);

    return fd >= 0 ? fd : listen_port(&four, sizeof four.four, port);
}

int listen_address(const struct sockaddr *address, socklen_t len)
{
    union address copy;

    memcpy(&copy, address, len < sizeof copy ? len : sizeof copy);
    return listen_at(&copy, len);
}

static void take_all(void *context, unsigned ready)
{
    struct listener *listener = context;

    if (ready == 0) { /* the pause is over */
        (void)loop_set(listener->loop, &listener->watch, listener->fd, EPOLLIN);
        return;
    }
    for (int i = 0; i < BURST && listener->watch.events != 0; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            listener->take(listener->owner, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                errno == ENOMEM) {
            listener_pause(listener, PAUSE_MS);
        } else {
            return;
        }
    }
}

bool listener_begin(struct listener *listener, struct loop *loop,
        void (*take)(void *owner, int fd), void *owner)
{
    listener->loop = loop;
    listener->take = take;
    listener->owner = owner;
    listener->watch = (struct loop_watch){ .call = take_all, .context = listener };
    return loop_set(loop, &listener->watch, listener->fd, EPOLLIN);
}

void listener_pause(struct listener *listener, int ms)
{
    (void)loop_set(listener->loop, &listener->watch, listener->fd, 0);
    loop_set_due(listener->loop, &listener->watch, clock_ns() + (int64_t)ms * 1000000);
}

void listener_close(struct listener *listener)
{
    loop_close(listener->loop, &listener->watch, &listener->fd);
}

static const int64_t stagger_ns = 100000000;

/* Attempts that are under way. */
struct attempts {
    struct pollfd polled[CONNECT_ADDRESSES_MAX]; /* fd -1: failed */
    size_t count; /* begun                            */
    size_t pending; /* of them, not failed              */
    int reason; /* errno of the last that failed    */
    int64_t next; /* when the next one is begun, ns   */
};

int connect_add(struct connect_addresses *addresses, const char *host, const char *port,
        int flags)
{
    const struct addrinfo hints = {
        .ai_flags = flags,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found;
    int error = getaddrinfo(host, port, &hints, &found);

    if (error != 0) {
        return error;
    }
    for (const struct addrinfo *one = found;
            one != NULL && addresses->count < CONNECT_ADDRESSES_MAX;
            one = one->ai_next) {
        memcpy(&addresses->list[addresses->count], one->ai_addr, one->ai_addrlen);
        addresses->len[addresses->count++] = one->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

int connect_begin(const struct sockaddr_storage *address, socklen_t len)
{
    int one = 1;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (const struct sockaddr *)address, len) != 0 &&
            errno != EINPROGRESS) {
        int reason = errno;

        (void)close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

/* The attempt that has succeeded, -1 when there is none yet. Failed ones are closed. */
static int take_connected(struct attempts *attempts, size_t *last)
{
    for (size_t i = 0; i < attempts->count; i++) {
        struct pollfd *polled = &attempts->polled[i];
        int reason = 0;
        socklen_t len = sizeof reason;
        int fd = polled->fd;

        if (fd < 0 || polled->revents == 0) {
            continue;
        }
        *last = i;
        polled->fd = -1;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &len) == 0 && reason == 0) {
            return fd;
        }
        (void)close(fd);
        attempts->pending--;
        attempts->reason = reason;
    }
    return -1;
}

/* Begins the next attempt when its time has come; returns when to look again. */
static int64_t begin_when_due(struct attempts *attempts,
        struct connect_addresses *addresses, int64_t now, int64_t deadline)
{
    if (attempts->count < addresses->count &&
            (attempts->pending == 0 || now >= attempts->next)) {
        const size_t i = attempts->count++;
        int fd = connect_begin(&addresses->list[i], addresses->len[i]);

        addresses->last = i;
        attempts->reason = fd < 0 ? errno : attempts->reason;
        attempts->pending += fd < 0 ? 0 : 1;
        attempts->polled[i] = (struct pollfd){ .fd = fd, .events = POLLOUT };
        attempts->next = now + stagger_ns;
    }
    return attempts->count < addresses->count && attempts->next < deadline
            ? attempts->next
            : deadline;
}

int connect_any(struct connect_addresses *addresses, int64_t deadline)
{
    struct attempts attempts = { .reason = ETIMEDOUT };
    int connected = -1;
    int64_t now;

    while (connected < 0 && (now = clock_ns()) < deadline &&
            (attempts.count < addresses->count || attempts.pending > 0)) {
        int64_t until = begin_when_due(&attempts, addresses, now, deadline);

        if (attempts.pending > 0) {
            (void)poll(attempts.polled, (nfds_t)attempts.count, loop_ms_until(until));
            connected = take_connected(&attempts, &addresses->last);
        }
    }
    for (size_t i = 0; i < attempts.count; i++) {
        fd_close(&attempts.polled[i].fd);
    }
    errno = attempts.pending > 0 ? ETIMEDOUT : attempts.reason;
    return connected;
}
