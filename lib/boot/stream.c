#include "boot/stream.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"

#define RETRY_NS 50000000

void stream_limit(int fd, int seconds)
{
    const struct timeval limit = { .tv_sec = seconds };

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static int prepare(int fd)
{
    const int on = 1;

    if (fd >= 0) {
        stream_limit(fd, BOOT_PATIENCE_S);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
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
    const int64_t now = clock_ns();
    const int64_t until = now + (int64_t)BOOT_PATIENCE_S * 1000000000;
    const int64_t named = now + (int64_t)BOOT_NAME_PATIENCE_S * 1000000000;
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
    const int64_t until = clock_ns() + (int64_t)BOOT_PATIENCE_S * 1000000000;
    struct pollfd polled = { .fd = listening, .events = POLLIN };
    int64_t left;
    int fd = -1;

    do { /* again after a signal, and when who called has gone */
        left = until - clock_ns();
        if (left > 0 && poll(&polled, 1, (int)(left / 1000000 + 1)) > 0) {
            fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        }
    } while (fd < 0 && left > 0 && (errno == EINTR || errno == ECONNABORTED));
    return prepare(fd);
}

bool stream_read(int fd, void *bytes, size_t len)
{
    uint8_t *at = bytes;

    while (len > 0) {
        const ssize_t got = recv(fd, at, len, 0);

        if (got == 0) {
            errno = 0;
            return false;
        }
        if (got < 0 && errno != EINTR) {
            return false;
        }
        at += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

bool stream_write(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        const ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            return false;
        }
        at += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}
