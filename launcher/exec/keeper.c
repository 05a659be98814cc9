/*
 * A keeper. It is asked over a Unix socket with an abstract name, which vanishes with it, and
 * answers each connection of its own user with the descriptor of its memory. What connects it to
 * tuttirun says nothing, and is there to end.
 */
#include "launcher/exec/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/passing.h"
#include "launcher/arguments.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/uplink.h"
#include "launcher/session/loop.h"
#include "trainer/elastic/control.h"

enum {
    PAUSE_NS = 2000000, /* between looks for a keeper that begins           */
    PROBES = 6 /* signs of life without an answer: tuttirun's host is lost */
};

const struct meet_protocol keeper_protocol = { .name = "keeper" };

static const int64_t patience_ns = 5000000000;

static socklen_t name_socket(const char *job, struct sockaddr_un *name)
{
    int len;

    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    len = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "tutti-keeper.%u.%s",
            (unsigned)geteuid(), job);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

/* Anybody may use an abstract name. */
static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
            peer.uid == geteuid();
}

/* ------------------------------------------------------------------ the keeper */

static void answer(int listener, int memory)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    char mark = 'm';

    if (fd >= 0 && is_ours(fd)) {
        (void)passing_send(fd, NULL, 0, &mark, 1, memory);
    }
    if (fd >= 0) {
        (void)close(fd);
    } else if (errno != EAGAIN) {
        clock_sleep_ns(PAUSE_NS); /* no descriptor is left: not at once again */
    }
}

static struct session call_tuttirun(const struct uplink *uplink)
{
    /* Not before tuttirun would give up hosts. */
    const int every_s = (int)(uplink->orders.silent_ns / 1000000000 / PROBES) + 1;
    const int probe[] = { 1, every_s, every_s, PROBES };
    const struct handshake_offer offer = { .protocol = &keeper_protocol };
    struct link_address address = uplink->address;
    struct session session;
    struct frame frame;
    int fd;

    address.port = uplink->orders.keeper_port;
    if (handshake_meet(&address, &offer, clock_ns() + patience_ns, &session, &frame) !=
            MEET_OK) {
        session_fini(&session);
    }
    fd = session.fd;
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &probe[0], sizeof(int));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe[1], sizeof(int));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe[2], sizeof(int));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probe[3], sizeof(int));
    }
    return session;
}

static void keep(const struct uplink *uplink)
{
    struct sockaddr_un name;
    const socklen_t len = name_socket(uplink->orders.job, &name);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int memory = memfd_create("tutti-state", MFD_CLOEXEC);
    struct session tuttirun;
    struct pollfd polled[] = { { .fd = listener, .events = POLLIN },
        { .fd = -1, .events = POLLIN } };

    /* Of several that begin at once, one gets the name. It waits to be heard from then on. */
    if (listener < 0 || memory < 0 || ftruncate(memory, ELASTIC_CONTROL_BYTES) != 0 ||
            bind(listener, (const struct sockaddr *)&name, len) != 0 ||
            listen(listener, SOMAXCONN) != 0) {
        return;
    }
    tuttirun = call_tuttirun(uplink);
    polled[1].fd = tuttirun.fd;
    while (polled[1].fd >= 0 && polled[1].revents == 0) {
        (void)poll(polled, 2, -1);
        if (polled[0].revents != 0) {
            answer(listener, memory);
        }
    }
}

static _Noreturn void become_keeper(const struct uplink *uplink)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, KEEPER_NAME);
    /* MPI launchers wait until all ends of a rank's output are closed. */
    closefrom(STDIN_FILENO);
    if (chdir("/") == 0) {
        keep(uplink);
    }
    _exit(EXIT_SUCCESS);
}

/* --------------------------------------------------------------- its supervisors */

static int take(int fd)
{
    const struct timeval limit = { .tv_sec = 5 };
    int memory;
    char byte;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)passing_receive(fd, &byte, sizeof byte, 0, &memory, NULL);
    return memory;
}

/* -1 with errno: ECONNREFUSED when there is no keeper. */
static int ask(const struct sockaddr_un *name, socklen_t len)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int memory = -1;

    if (fd < 0) {
        return -1;
    }
    if (connect(fd, (const struct sockaddr *)name, len) == 0) {
        errno = EPERM;
        memory = is_ours(fd) ? take(fd) : -1;
    }
    if (memory < 0) {
        const int reason = errno;

        (void)close(fd);
        errno = reason;
        return -1;
    }
    (void)close(fd);
    return memory;
}

static tutti_status get_memory(const struct uplink *uplink, int *fd)
{
    const int64_t deadline = clock_ns() + patience_ns;
    struct sockaddr_un name;
    const socklen_t len = name_socket(uplink->orders.job, &name);
    bool was_started = false;

    while ((*fd = ask(&name, len)) < 0 && errno == ECONNREFUSED &&
            clock_ns() < deadline) {
        if (!was_started && fork_apart() == 0) {
            become_keeper(uplink);
        }
        was_started = true;
        clock_sleep_ns(PAUSE_NS);
    }
    return *fd >= 0 ? TUTTI_OK
                    : error_set_errno(TUTTI_ERR_SYSTEM,
                              "there is no keeper of committed state on this host");
}

/* -------------------------------------------- What a supervisor sees of it */

static tutti_status map(struct keep *keep)
{
    void *page;

    if (fcntl(keep->fd, F_SETFD, 0) != 0) { /* the program inherits it */
        return error_set_errno(TUTTI_ERR_SYSTEM, "hand out committed state");
    }
    page = mmap(NULL, ELASTIC_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
            keep->fd, 0);
    if (page == MAP_FAILED) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "map committed state");
    }
    keep->control = page;
    return TUTTI_OK;
}

tutti_status keep_open(
        struct keep *keep, const struct uplink *uplink, struct arguments *environment)
{
    char text[64];
    tutti_status status;

    if (uplink->rank.local_rank < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "the engine does not tell the place of the rank on its host");
    }
    keep->generation = uplink->orders.generation;
    status = get_memory(uplink, &keep->fd);
    if (status == TUTTI_OK) {
        status = map(keep);
    }
    if (status != TUTTI_OK) {
        keep_fini(keep);
        return status;
    }
    (void)snprintf(text, sizeof text, "%d %u %d %d", keep->fd, keep->generation,
            uplink->rank.local_rank, uplink->rank.local_size);
    arguments_set(environment, ELASTIC_VARIABLE, text);
    return TUTTI_OK;
}

void keep_fini(struct keep *keep)
{
    if (keep->control != NULL) {
        (void)munmap(keep->control, ELASTIC_CONTROL_BYTES);
        keep->control = NULL;
    }
    fd_close(&keep->fd);
}

void keep_notice(struct keep *keep, uint32_t notice)
{
    if (keep->control != NULL) {
        atomic_store_explicit(&keep->control->notice,
                elastic_notice(keep->generation, notice), memory_order_relaxed);
    }
}

uint64_t keep_committed(const struct keep *keep)
{
    return keep->control == NULL
            ? 0
            : atomic_load_explicit(&keep->control->committed, memory_order_relaxed);
}
