/*
 * Datagrams with a descriptor each. Nothing blocks for ever: both directions are tried in
 * turn until all is done or the time is up.
 */
#include "ops/shm/handover.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/passing.h"

/* How long to wait for a message before trying to send again, in milliseconds. */
#define LISTEN_MS 2

/** What a message says. */
struct greeting {
    int32_t party;
    uint8_t secret[HANDOVER_NAME_BYTES];
};

/** The address of a socket: a leading zero byte makes it abstract. */
static socklen_t address_of(const uint8_t *name, struct sockaddr_un *address)
{
    static const char prefix[6] = { 't', 'u', 't', 't', 'i', '-' };
    static const char hex[] = "0123456789abcdef";
    char *to = address->sun_path + 1;

    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(to, prefix, sizeof prefix);
    to += sizeof prefix;
    for (int i = 0; i < HANDOVER_NAME_BYTES; i++) {
        *to++ = hex[name[i] >> 4];
        *to++ = hex[name[i] & 15];
    }
    return (socklen_t)(to - (char *)address);
}

tutti_status handover_open(struct handover *handover)
{
    struct sockaddr_un address;
    const int on = 1;
    socklen_t length;

    handover->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (handover->socket < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot make a Unix socket");
    }
    if (getrandom(handover->name, sizeof handover->name, 0) !=
            (ssize_t)sizeof handover->name) {
        goto err_close;
    }
    length = address_of(handover->name, &address);
    if (setsockopt(handover->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
            bind(handover->socket, (const struct sockaddr *)&address, length) != 0) {
        goto err_close;
    }
    return TUTTI_OK;

err_close:
    (void)close(handover->socket);
    handover->socket = -1;
    return error_set_errno(TUTTI_ERR_SYSTEM, "cannot set up a Unix socket");
}

void handover_close(struct handover *handover)
{
    if (handover->socket >= 0) {
        (void)close(handover->socket);
        handover->socket = -1;
    }
}

/** Sends a descriptor. @return TUTTI_OK, TUTTI_AGAIN (its queue is full), or an error */
static tutti_status send_to(const struct handover *handover, int fd,
        const struct handover_party *parties, int to, int me)
{
    struct greeting greeting = { .party = me };
    struct sockaddr_un address;
    const socklen_t len = address_of(parties[to].name, &address);

    memcpy(greeting.secret, parties[me].secret, sizeof greeting.secret);
    if (passing_send(handover->socket, (struct sockaddr *)&address, len, &greeting,
                sizeof greeting, fd) >= 0) {
        return TUTTI_OK;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS ||
            errno == ETOOMANYREFS) {
        return TUTTI_AGAIN;
    }
    return error_set_errno(TUTTI_ERR_SYSTEM,
            "cannot reach the socket of rank %d (is it in another network namespace?)",
            parties[to].rank);
}

/** Who a greeting is from; -1: a stranger, or one that we have heard. */
static int party_of(const struct handover_party *parties, int count, int me,
        const struct greeting *greeting)
{
    const int party = greeting->party;

    if (party < 0 || party >= count || party == me || parties[party].received ||
            memcmp(parties[party].secret, greeting->secret, sizeof greeting->secret) !=
                    0) {
        return -1;
    }
    return party;
}

/** Takes one message in. @return TUTTI_OK, TUTTI_AGAIN (there is none), or an error */
static tutti_status receive(const struct handover *handover,
        struct handover_party *parties, int count, int me, handover_take take,
        void *user)
{
    struct greeting greeting;
    struct ucred sender;
    int fd;
    const ssize_t bytes = passing_receive(
            handover->socket, &greeting, sizeof greeting, MSG_DONTWAIT, &fd, &sender);
    tutti_status status = TUTTI_OK;
    int party;

    if (bytes < 0) {
        return errno == EAGAIN || errno == EINTR
                ? TUTTI_AGAIN
                : error_set_errno(
                          TUTTI_ERR_SYSTEM, "cannot receive from a Unix socket");
    }
    party = bytes == (ssize_t)sizeof greeting ? party_of(parties, count, me, &greeting)
                                              : -1;
    if (party >= 0 && fd < 0) {
        return error_set(TUTTI_ERR_SYSTEM,
                "rank %d passed its memory, but no file descriptor is free for it (see "
                "ulimit -n)",
                parties[party].rank);
    }
    if (party >= 0) {
        parties[party].received = true;
        status = take(user, party, fd, sender.pid);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/** Sends to all parties that can be sent to just now. */
static tutti_status send_to_all(const struct handover *handover, int fd,
        struct handover_party *parties, int count, int me)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < count && (status == TUTTI_OK || status == TUTTI_AGAIN); i++) {
        if (i != me && !parties[i].sent) {
            status = send_to(handover, fd, parties, i, me);
            parties[i].sent = status == TUTTI_OK;
        }
    }
    return status == TUTTI_AGAIN ? TUTTI_OK : status;
}

static bool is_over(const struct handover_party *parties, int count, int me)
{
    for (int i = 0; i < count; i++) {
        if (i != me && !(parties[i].sent && parties[i].received)) {
            return false;
        }
    }
    return true;
}

/**
 * One try in each direction; first out, so that the others need not wait for a party that
 * fails to take.
 */
static tutti_status try_all(struct handover *handover, int fd,
        struct handover_party *parties, int count, int me, handover_take take,
        void *user)
{
    tutti_status status = send_to_all(handover, fd, parties, count, me);

    while (status == TUTTI_OK) {
        status = receive(handover, parties, count, me, take, user);
    }
    return status == TUTTI_AGAIN ? TUTTI_OK : status;
}

tutti_status handover_exchange(struct handover *handover, int fd,
        struct handover_party *parties, int count, int me, int64_t deadline_ns,
        handover_take take, void *user)
{
    for (;;) {
        struct pollfd heard = { .fd = handover->socket, .events = POLLIN };
        const tutti_status status =
                try_all(handover, fd, parties, count, me, take, user);

        if (status != TUTTI_OK || is_over(parties, count, me)) {
            return status;
        }
        if (clock_ns() >= deadline_ns) {
            return error_set(TUTTI_ERR_SYSTEM,
                    "in time not all ranks of this node have passed their memory");
        }
        (void)poll(&heard, 1, LISTEN_MS);
    }
}
