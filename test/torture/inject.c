/*
 * The wrapped functions.
 */
#include "inject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/inproc.h"

static _Atomic int armed = INJECT_KINDS; /* kind; INJECT_KINDS: none */
static _Atomic uint64_t calls, fatal; /* so far; the one that fails */
static _Atomic(const char *) victim;
static _Atomic long alive;
static _Thread_local bool exempt;

void inject_arm(enum inject_kind kind, uint64_t n)
{
    atomic_store(&calls, 0);
    atomic_store(&fatal, n);
    atomic_store(&victim, NULL);
    atomic_store(&armed, (int)kind);
}

uint64_t inject_disarm(const char **what)
{
    atomic_store(&armed, INJECT_KINDS);
    *what = atomic_load(&victim) == NULL ? "nothing" : atomic_load(&victim);
    return atomic_load(&calls);
}

void inject_exempt(bool is_exempt)
{
    exempt = is_exempt;
}

long inject_alive(void)
{
    return atomic_load(&alive);
}

static bool fails(enum inject_kind kind, const char *what)
{
    if (exempt || atomic_load(&armed) != (int)kind ||
            atomic_fetch_add(&calls, 1) + 1 != atomic_load(&fatal)) {
        return false;
    }
    atomic_store(&victim, what);
    return true;
}

/* WRAP(type, name, parameters): declares the function and what stands in front of it. */
#define WRAP(type, name, parameters) \
    type real_##name parameters __asm__("__real_" #name); \
    type wrap_##name parameters __asm__("__wrap_" #name); \
    type wrap_##name parameters

/* ------------------------------------------------------------------- memory */

static void *counted(void *block)
{
    if (block != NULL) {
        (void)atomic_fetch_add(&alive, 1);
    }
    return block;
}

/* WRAP_ALLOC(name, parameters, arguments): a function that returns a new block. */
#define WRAP_ALLOC(name, parameters, arguments) \
    WRAP(void *, name, parameters) \
    { \
        return fails(INJECT_MEMORY, #name) ? NULL : counted(real_##name arguments); \
    }

WRAP_ALLOC(malloc, (size_t size), (size))
WRAP_ALLOC(calloc, (size_t count, size_t size), (count, size))
WRAP_ALLOC(aligned_alloc, (size_t align, size_t size), (align, size))
WRAP_ALLOC(strdup, (const char *text), (text))

/* WRAP_RESIZE(...): one that returns its first argument, `old`, resized, or a new block. */
#define WRAP_RESIZE(name, parameters, arguments) \
    WRAP(void *, name, parameters) \
    { \
        if (fails(INJECT_MEMORY, #name)) { \
            return NULL; \
        } \
        return old == NULL ? counted(real_##name arguments) : real_##name arguments; \
    }

WRAP_RESIZE(realloc, (void *old, size_t size), (old, size))
WRAP_RESIZE(reallocarray, (void *old, size_t count, size_t size), (old, count, size))

WRAP(void, free, (void *block))
{
    if (block != NULL) {
        (void)atomic_fetch_sub(&alive, 1);
    }
    real_free(block);
}

/* Of JSON the trainer's, which is another library's memory. */
__attribute__((constructor)) static void wrap_json(void)
{
    json_set_alloc_funcs(wrap_malloc, wrap_free);
}

/* ------------------------------------------------------------- system calls */

/* WRAP_CALL(type, name, parameters, arguments, failure, error) */
#define WRAP_CALL(type, name, parameters, arguments, failure, error) \
    WRAP(type, name, parameters) \
    { \
        if (fails(INJECT_SYSTEM, #name)) { \
            errno = (error); \
            return failure; \
        } \
        return real_##name arguments; \
    }

WRAP_CALL(
        FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
WRAP_CALL(DIR *, opendir, (const char *path), (path), NULL, EMFILE)
WRAP_CALL(int, ftruncate, (int fd, off_t size), (fd, size), -1, ENOSPC)
WRAP_CALL(int, fallocate, (int fd, int mode, off_t from, off_t size),
        (fd, mode, from, size), -1, ENOSPC)
WRAP_CALL(int, eventfd, (unsigned count, int flags), (count, flags), -1, EMFILE)
WRAP_CALL(int, epoll_create1, (int flags), (flags), -1, EMFILE)
WRAP_CALL(int, epoll_ctl, (int fd, int op, int of, struct epoll_event *event),
        (fd, op, of, event), -1, ENOMEM)
WRAP_CALL(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1,
        EMFILE)
WRAP_CALL(void *, mmap,
        (void *at, size_t bytes, int access, int flags, int fd, off_t from),
        (at, bytes, access, flags, fd, from), MAP_FAILED, ENOMEM)
WRAP_CALL(int, madvise, (void *at, size_t bytes, int advice), (at, bytes, advice), -1,
        ENOMEM)
WRAP_CALL(int, fsync, (int fd), (fd), -1, EIO)
WRAP_CALL(int, rename, (const char *from, const char *to), (from, to), -1, EIO)
WRAP_CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, ENOSPC)
WRAP_CALL(int, fstat, (int fd, struct stat *facts), (fd, facts), -1, EIO)
WRAP_CALL(ssize_t, read, (int fd, void *to, size_t bytes), (fd, to, bytes), -1, EIO)
WRAP_CALL(ssize_t, write, (int fd, const void *from, size_t bytes), (fd, from, bytes),
        -1, ENOSPC)
WRAP_CALL(ssize_t, pread, (int fd, void *to, size_t bytes, off_t at),
        (fd, to, bytes, at), -1, EIO)
WRAP_CALL(ssize_t, pwrite, (int fd, const void *from, size_t bytes, off_t at),
        (fd, from, bytes, at), -1, ENOSPC)
WRAP_CALL(int, pthread_create,
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *),
                void *argument),
        (thread, attributes, run, argument), EAGAIN, EAGAIN)

/* The list and its entries are the C library's; the caller frees them. */
WRAP(int, scandir,
        (const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                int (*compare)(const struct dirent **, const struct dirent **)))
{
    int entries = -1;

    if (fails(INJECT_SYSTEM, "scandir")) {
        errno = ENOMEM;
        return -1;
    }
    entries = real_scandir(path, list, filter, compare);
    (void)atomic_fetch_add(&alive, entries + 1);
    return entries;
}

/* WRAP_OPEN(name, parameters, arguments): one that may have a mode. */
#define WRAP_OPEN(name, parameters, arguments) \
    WRAP(int, name, parameters) \
    { \
        va_list list; \
        mode_t mode = 0; \
        va_start(list, flags); \
        if ((flags & (O_CREAT | O_TMPFILE)) != 0) { \
            mode = va_arg(list, mode_t); \
        } \
        va_end(list); \
        if (fails(INJECT_SYSTEM, #name)) { \
            errno = EMFILE; \
            return -1; \
        } \
        return real_##name arguments; \
    }

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))

/* ----------------------------------------------------------------- messages */

/* The transport's, but that a message may fail. */
static const struct transport_ops *real_ops;
static struct transport_ops ops;

static tutti_status send(void *state, int to, const void *bytes, size_t len)
{
    return fails(INJECT_MESSAGE, "send")
            ? tutti_set_last_error(TUTTI_ERR_MPI, "message to rank %d is not sent", to)
            : real_ops->send(state, to, bytes, len);
}

WRAP(tutti_status, transport_inproc_open,
        (int n, struct doorbell *bells, struct transport *ends))
{
    const tutti_status status = real_transport_inproc_open(n, bells, ends);

    for (int i = 0; i < n && status == TUTTI_OK; i++) {
        real_ops = ends[i].ops;
        ops = *real_ops;
        ops.send = send;
        ends[i].ops = &ops;
    }
    return status;
}
