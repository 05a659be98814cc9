#include "launcher/session/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

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

int listen_here(uint16_t *port)
{
    union address four = {
        .four = { .sin_family = AF_INET,
                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                .sin_port = htons(*port) },
    };
    int fd = listen_at(&four, sizeof four.four);

    *port = fd < 0 ? *port : ntohs(four.four.sin_port);
    return fd;
}

int listen_path(const char *path)
{
    union address local = { .local = { .sun_family = AF_UNIX } };

    (void)snprintf(local.local.sun_path, sizeof local.local.sun_path, "%s", path);
    return listen_at(&local, sizeof local.local);
}

int listen_anywhere(uint16_t *port)
{
    union address six = {
        .six = { .sin6_family = AF_INET6, .sin6_port = htons(*port) },
    };
    union address four = {
        .four = { .sin_family = AF_INET, .sin_port = htons(*port) },
    };
    int fd = listen_at(&six, sizeof six.six);

    if (fd >= 0) {
        *port = ntohs(six.six.sin6_port);
        return fd;
    }
    fd = listen_at(&four, sizeof four.four);
    if (fd >= 0) {
        *port = ntohs(four.four.sin_port);
    }
    return fd;
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
