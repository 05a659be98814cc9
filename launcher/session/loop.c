#include "launcher/session/loop.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

enum {
    NS_PER_MS = 1000000
};

tutti_status loop_init(struct loop *loop)
{
    *loop = (struct loop){ .epoll = epoll_create1(EPOLL_CLOEXEC) };
    return loop->epoll >= 0 ? TUTTI_OK : error_set_errno(TUTTI_ERR_SYSTEM, "epoll");
}

void loop_fini(struct loop *loop)
{
    while (loop->first != NULL) {
        loop_set_due(loop, loop->first, 0);
    }
    fd_close(&loop->epoll);
    *loop = (struct loop){ .epoll = -1 };
}

/* Its owner may be gone when the rest of what is ready is called. */
static void forget(struct loop *loop, struct loop_watch *watch)
{
    if (loop->file == watch) {
        loop->file = NULL;
    } else {
        (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    }
    for (int i = 0; i < loop->count; i++) {
        if (loop->ready[i].data.ptr == watch) {
            loop->ready[i].data.ptr = NULL;
        }
    }
    watch->events = 0;
    watch->ready = 0;
}

static void remove_timed(struct loop *loop, const struct loop_watch *watch)
{
    *(watch->before != NULL ? &watch->before->after : &loop->first) = watch->after;
    *(watch->after != NULL ? &watch->after->before : &loop->last) = watch->before;
}

/* From the end: of thousands that wait equally long, the latest is due last. */
static void insert_timed(struct loop *loop, struct loop_watch *watch)
{
    struct loop_watch *before = loop->last;

    while (before != NULL && before->due > watch->due) {
        before = before->before;
    }
    watch->before = before;
    watch->after = before != NULL ? before->after : loop->first;
    *(before != NULL ? &before->after : &loop->first) = watch;
    *(watch->after != NULL ? &watch->after->before : &loop->last) = watch;
}

void loop_set_due(struct loop *loop, struct loop_watch *watch, int64_t due_ns)
{
    if (watch->due != 0) {
        remove_timed(loop, watch);
    }
    watch->due = due_ns;
    if (due_ns != 0) {
        insert_timed(loop, watch);
    }
}

bool loop_set(struct loop *loop, struct loop_watch *watch, int fd, unsigned events)
{
    struct epoll_event event = { .data.ptr = watch };

    events = fd < 0 ? 0 : events;
    event.events = events;
    if (loop != NULL && events == 0 && watch->due != 0) {
        loop_set_due(loop, watch, 0);
    }
    if (loop == NULL || loop->epoll < 0 ||
            (watch->events == events && (events == 0 || watch->fd == fd))) {
        return true;
    }
    if (watch->events != 0 && (events == 0 || watch->fd != fd)) {
        forget(loop, watch);
    }
    if (events == 0) {
        return true;
    }
    if (epoll_ctl(loop->epoll, watch->events != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd,
                &event) != 0) {
        if (errno != EPERM) {
            return false;
        }
        loop->file = watch; /* a file, or /dev/null */
    }
    watch->fd = fd;
    watch->events = events;
    return true;
}

void loop_close(struct loop *loop, struct loop_watch *watch, int *fd)
{
    (void)loop_set(loop, watch, *fd, 0);
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

uint64_t loop_raise_limit(uint64_t need)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return UINT64_MAX;
    }
    if (limit.rlim_cur < need) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_max;
}

int loop_ms_until(int64_t until_ns)
{
    int64_t left;

    if (until_ns == INT64_MAX) {
        return -1;
    }
    left = until_ns - clock_ns();
    left = left <= 0 ? 0 : left / NS_PER_MS + (left % NS_PER_MS != 0 ? 1 : 0);
    return left < INT_MAX ? (int)left : INT_MAX;
}

int loop_wait(struct loop *loop, int64_t until_ns)
{
    const struct loop_watch *first = loop->first;

    if (first != NULL && first->due < until_ns) {
        until_ns = first->due;
    }
    for (int i = 0; i < loop->count; i++) {
        struct loop_watch *watch = loop->ready[i].data.ptr;

        if (watch != NULL) {
            watch->ready = 0;
        }
    }
    loop->next = 0;
    loop->count = epoll_wait(loop->epoll, loop->ready,
            LOOP_READY_MAX - (loop->file != NULL ? 1 : 0),
            loop->file != NULL ? 0 : loop_ms_until(until_ns));
    loop->count = loop->count < 0 ? 0 : loop->count;
    if (loop->file != NULL) {
        loop->ready[loop->count++] = (struct epoll_event){ .events = loop->file->events,
            .data.ptr = loop->file };
    }
    for (int i = 0; i < loop->count; i++) {
        ((struct loop_watch *)loop->ready[i].data.ptr)->ready = loop->ready[i].events;
    }
    return loop->count;
}

struct loop_watch *loop_next(struct loop *loop)
{
    struct loop_watch *watch;

    while (loop->next < loop->count) {
        watch = loop->ready[loop->next++].data.ptr;
        if (watch != NULL) {
            return watch;
        }
    }
    watch = loop->first;
    if (watch == NULL || watch->due > clock_ns()) {
        return NULL;
    }
    loop_set_due(loop, watch, 0);
    watch->ready = 0;
    return watch;
}

int loop_turn(struct loop *loop, int64_t until_ns)
{
    int count = loop_wait(loop, until_ns);
    struct loop_watch *watch;

    while ((watch = loop_next(loop)) != NULL) {
        watch->call(watch->context, watch->ready);
    }
    return count;
}
