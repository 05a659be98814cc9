/*
 * Edges, not levels: a connection whose bytes MPI leaves unread does not keep waking us. An
 * edge of bytes that have been read meanwhile costs one look.
 */
#include "base/sockets.h"

#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* MPI connects when two ranks first talk. */
#define LOOK_NS INT64_C(1000000000)
#define EDGES_MAX 64

static bool is_connection(int fd)
{
    struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

/* Adds what is new; the kernel takes out what is closed. */
static void look(struct sockets *sockets, int64_t now)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;

    sockets->looked_ns = now;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is read by one thread */
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const int fd = (int)strtol(entry->d_name, NULL, 10);
        struct epoll_event edge = { .events = EPOLLIN | EPOLLOUT | EPOLLET };

        if (entry->d_name[0] != '.' && is_connection(fd)) {
            (void)epoll_ctl(sockets->epoll, EPOLL_CTL_ADD, fd, &edge);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

static bool open_both(struct sockets *sockets)
{
    if (sockets->is_open || sockets->has_failed) {
        return sockets->is_open;
    }
    sockets->epoll = epoll_create1(EPOLL_CLOEXEC);
    sockets->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sockets->is_open = sockets->epoll >= 0 && sockets->event >= 0;
    sockets->has_failed = !sockets->is_open;
    if (sockets->has_failed) {
        (void)close(sockets->epoll);
        (void)close(sockets->event);
    }
    return sockets->is_open;
}

/* Takes the edges; true when there were any. */
static bool take_edges(const struct sockets *sockets)
{
    struct epoll_event edges[EDGES_MAX];

    return epoll_wait(sockets->epoll, edges, EDGES_MAX, 0) > 0;
}

/* Until a ring, an edge, or the end of the time. */
static bool sleep_on_both(struct sockets *sockets, struct doorbell *bell, uint32_t seen,
        int64_t timeout_ns)
{
    struct pollfd two[2] = { { .fd = sockets->epoll, .events = POLLIN },
        { .fd = sockets->event, .events = POLLIN } };
    const struct timespec time = { .tv_sec = (time_t)(timeout_ns / 1000000000),
        .tv_nsec = (long)(timeout_ns % 1000000000) };
    const int64_t now = clock_ns();
    eventfd_t rings;
    bool heard;

    if (sockets->looked_ns == 0 || now - sockets->looked_ns >= LOOK_NS) {
        look(sockets, now);
    }
    if (doorbell_begin(bell, seen, sockets->event)) {
        (void)ppoll(two, 2, &time, NULL);
    }
    doorbell_end(bell);
    heard = take_edges(sockets) || doorbell_listen(bell) != seen;
    if (two[1].revents != 0) {
        (void)eventfd_read(sockets->event, &rings);
    }
    return heard;
}

/* Where nothing but the bell is heard. */
static bool sleep_deaf(struct doorbell *bell, uint32_t seen, int64_t timeout_ns)
{
    doorbell_sleep(
            bell, seen, timeout_ns < SOCKETS_DEAF_NS ? timeout_ns : SOCKETS_DEAF_NS);
    return doorbell_listen(bell) != seen;
}

bool sockets_sleep(struct sockets *sockets, struct doorbell *bell, uint32_t seen,
        int64_t timeout_ns)
{
    bool heard;

    /* Acquire and release: what the last sleeper has left is here. */
    if (atomic_exchange_explicit(&sockets->is_taken, true, memory_order_acquire)) {
        return sleep_deaf(bell, seen, timeout_ns);
    }
    heard = open_both(sockets) ? sleep_on_both(sockets, bell, seen, timeout_ns)
                               : sleep_deaf(bell, seen, timeout_ns);
    atomic_store_explicit(&sockets->is_taken, false, memory_order_release);
    return heard;
}

void sockets_close(struct sockets *sockets)
{
    if (sockets->is_open) {
        (void)close(sockets->epoll);
        (void)close(sockets->event);
    }
    sockets->is_open = false;
}
