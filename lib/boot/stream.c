#include "boot/stream.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"

#define RETRY_NS 50000000

static int64_t after(int seconds)
{
    return clock_ns() + (int64_t)seconds * 1000000000;
}

/* Whatever signals come meanwhile. False: too late, and errno is EAGAIN. */
static bool await(int fd, short events, int64_t until)
{
    struct pollfd polled = { .fd = fd, .events = events };
    int64_t left = until - clock_ns();
    int ready = 0;

    while (ready <= 0 && left > 0) {
        ready = poll(&polled, 1, (int)(left / 1000000 + 1));
        left = until - clock_ns();
    }
    errno = EAGAIN;
    return ready > 0;
}

static int prepare(int fd)
{
    const int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int try_all(const struct addrinfo *found)
{
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            return prepare(fd);
        }
        if (fd >= 0) {
            const int why = errno;

            (void)close(fd);
            errno = why;
        }
    }
    return -1;
}

int stream_connect(const char *host, const char *port)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const int64_t until = after(BOOT_PATIENCE_S);
    const int64_t named = after(BOOT_NAME_PATIENCE_S);
    int fd = -1;

    while (fd < 0 && clock_ns() < until) {
        struct addrinfo *found = NULL;
        const int code = getaddrinfo(host, port, &hints, &found);

        if (code != 0 && clock_ns() >= named) {
            errno = 0;
            return -1;
        }
        fd = try_all(found);
        if (found != NULL) {
            const int why = errno;

            freeaddrinfo(found);
            errno = why;
        }
        if (fd < 0) {
            clock_sleep_ns(RETRY_NS);
        }
    }
    return fd;
}

int stream_listen(const char *port, int backlog)
{
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int family = fd < 0 ? AF_INET : AF_INET6;
    const int any = fd < 0 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : fd;
    const uint16_t number = htons((uint16_t)strtoul(port, NULL, 10));
    const struct sockaddr_in6 all = { .sin6_family = AF_INET6, .sin6_port = number };
    const struct sockaddr_in old = { .sin_family = AF_INET, .sin_port = number };
    const int on = 1;
    const int off = 0;
    int why;

    (void)setsockopt(any, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(any, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (any >= 0 &&
            bind(any,
                    family == AF_INET6 ? (const struct sockaddr *)&all
                                       : (const struct sockaddr *)&old,
                    family == AF_INET6 ? sizeof all : sizeof old) == 0 &&
            listen(any, backlog) == 0) {
        return any;
    }
    why = errno;
    if (any >= 0) {
        (void)close(any);
    }
    errno = why;
    return -1;
}

int stream_accept(int listening)
{
    const int64_t until = after(BOOT_PATIENCE_S);

    while (await(listening, POLLIN, until)) {
        const int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0) {
            return prepare(fd);
        }
        if (errno != EINTR && errno != ECONNABORTED) {
            break;
        }
    }
    return -1;
}

bool stream_read(int fd, void *bytes, size_t len, int seconds)
{
    const int64_t until = after(seconds);
    uint8_t *at = bytes;

    while (len > 0) {
        const ssize_t got =
                await(fd, POLLIN, until) ? recv(fd, at, len, MSG_DONTWAIT) : -1;

        if (got <= 0) {
            errno = got == 0 ? 0 : errno;
            return false;
        }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

bool stream_write(int fd, const void *bytes, size_t len)
{
    const int64_t until = after(BOOT_PATIENCE_S);
    const uint8_t *at = bytes;

    while (len > 0) {
        const ssize_t sent = await(fd, POLLOUT, until)
                ? send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT)
                : -1;

        if (sent < 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}
