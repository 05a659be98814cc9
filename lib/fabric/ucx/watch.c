/*
 * One epoll set. All in it is there for one event (EPOLLONESHOT): messages until the next
 * watch_arm(), which costs a system call and no switch of threads, so that traffic while
 * nobody sleeps wakes the thread once at most; a process for the one event of its life.
 */
#include "fabric/ucx/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

/* `about` comes back with the event: a member of the watch, or what becomes true. */
static int set_change(
        const struct watch *watch, int change, int fd, uint32_t events, void *about)
{
    struct epoll_event event = { .events = events | EPOLLONESHOT, .data.ptr = about };

    return epoll_ctl(watch->epoll, change, fd, &event);
}

void watch_ring(struct watch *watch)
{
    struct doorbell *bell = atomic_load_explicit(&watch->bell, memory_order_acquire);

    if (bell != NULL) {
        doorbell_ring(bell);
    }
}

static void *watch_main(void *user)
{
    struct watch *watch = user;
    struct epoll_event event = { .data.ptr = NULL };

    while (event.data.ptr != &watch->stop) {
        if (epoll_wait(watch->epoll, &event, 1, -1) < 1) {
            continue; /* a debugger's signal */
        }
        if (event.data.ptr != &watch->messages && event.data.ptr != &watch->stop) {
            struct watched *process = event.data.ptr;

            atomic_store_explicit(&process->has_ended, true, memory_order_relaxed);
            /* pairs with the acquire of who looks for ends */
            (void)atomic_fetch_add_explicit(&watch->ends, 1, memory_order_release);
        }
        watch_ring(watch);
    }
    return NULL;
}

/* The program's signals are not for this thread. */
static int start_thread(struct watch *watch)
{
    sigset_t all;
    sigset_t before;
    int code;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&watch->thread, NULL, watch_main, watch);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) {
        (void)pthread_setname_np(watch->thread, "tutti-watch");
    }
    return code;
}

tutti_status watch_init(struct watch *watch, int messages)
{
    *watch = (struct watch){ .messages = messages,
        .epoll = epoll_create1(EPOLL_CLOEXEC),
        .stop = eventfd(0, EFD_CLOEXEC) };
    if (watch->epoll >= 0 && watch->stop >= 0 &&
            set_change(watch, EPOLL_CTL_ADD, watch->stop, EPOLLIN, &watch->stop) == 0 &&
            set_change(watch, EPOLL_CTL_ADD, messages, 0, &watch->messages) == 0 &&
            start_thread(watch) == 0) {
        return TUTTI_OK;
    }
    (void)close(watch->epoll);
    (void)close(watch->stop);
    return error_set(TUTTI_ERR_SYSTEM,
            "no descriptors or no thread to wait for messages with; raise ulimit -n "
            "or -u");
}

void watch_fini(struct watch *watch)
{
    const uint64_t once = 1;

    while (write(watch->stop, &once, sizeof once) < 0) {
        ; /* a signal */
    }
    (void)pthread_join(watch->thread, NULL);
    (void)close(watch->epoll);
    (void)close(watch->stop);
}

void watch_listen(struct watch *watch, struct doorbell *bell)
{
    /* pairs with the acquire in watch_ring() */
    atomic_store_explicit(&watch->bell, bell, memory_order_release);
}

bool watch_arm(struct watch *watch)
{
    struct pollfd messages = { .fd = watch->messages, .events = POLLIN };

    return poll(&messages, 1, 0) == 0 &&
            set_change(watch, EPOLL_CTL_MOD, watch->messages, EPOLLIN,
                    &watch->messages) == 0;
}

bool watch_can_watch(void)
{
    const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    return fd >= 0 && close(fd) == 0;
}

int watch_process(struct watch *watch, int pid, struct watched *process)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd >= 0 && set_change(watch, EPOLL_CTL_ADD, fd, EPOLLIN, process) != 0) {
        const int why = errno;

        (void)close(fd);
        errno = why;
        return -1;
    }
    return fd;
}
