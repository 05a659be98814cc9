/*
 * The control plane's transport: ordered messages between the ranks of a job. Carries
 * negotiation and bootstrap, never tensor data. Two implementations: messages of a
 * fabric (transport/fabric.c) and mailboxes within a process (transport/inproc.c).
 *
 * All slots are called by one thread at a time: the one that runs the engine.
 */
#ifndef TUTTI_TRANSPORT_CONTROL_H
#define TUTTI_TRANSPORT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/doorbell.h"
#include "base/wire.h"

/** Takes one whole message; the bytes are valid during the call only. */
typedef void (*transport_deliver)(void *user, int from, const void *bytes, size_t len);

struct transport_ops {
    const char *name; /* "fabric", "inproc" */

    /*
     * True: an arriving message rings the rank's doorbell, so the engine may sleep on
     * it without a timeout. False: messages are only seen when polled.
     */
    bool wakes;

    /*
     * Queues a copy of the message; never blocks; messages between two ranks keep their
     * order. Any length up to 1 GiB. to == own rank is not allowed.
     * Errors: TUTTI_ERR_NO_MEMORY, TUTTI_ERR_MPI (the peer is lost).
     */
    tutti_status (*send)(void *state, int to, const void *bytes, size_t len);

    /*
     * Moves messages along and delivers every one that has arrived whole, oldest first.
     * The callback must not call poll.
     * Returns TUTTI_OK (something was delivered), TUTTI_AGAIN, or an error.
     */
    tutti_status (*poll)(void *state, transport_deliver deliver, void *user);

    /* True when every message sent has left this rank's memory. */
    bool (*flushed)(void *state);

    /* Rings the doorbell of another rank, where `wakes`; nothing otherwise. */
    void (*wake)(void *state, int rank);

    /*
     * Both NULL: it rings by itself, or not at all. Else: which bell is to ring, and, before
     * each sleep, that it is to. arm() returning false: there may be messages already.
     */
    void (*listen)(void *state, struct doorbell *bell);
    bool (*arm)(void *state);

    /* Releases everything, outstanding receives cancelled. State is freed. */
    void (*close)(void *state);
};

/** One rank's end of the transport. */
struct transport {
    const struct transport_ops *ops;
    void *state; /* of the implementation; owned, released by ops->close() */
    int rank;
    int size;
    struct wire_writer early; /* mail that came before the engine; owned */
};

/** Delivers messages that came before the engine. */
tutti_status transport_deliver_early(
        struct transport *transport, transport_deliver deliver, void *user);
/** As ops->poll(), but messages that came before the engine are delivered first. */
static inline tutti_status transport_poll(
        struct transport *transport, transport_deliver deliver, void *user)
{
    return transport->early.len == 0
            ? transport->ops->poll(transport->state, deliver, user)
            : transport_deliver_early(transport, deliver, user);
}
/** Releases everything. */
void transport_close(struct transport *transport);

/** Ranks that meet, at least one: all of them give the same. */
struct transport_group {
    const int *ranks; /* [size] ascending; NULL: the first of the job */
    int size;
    int me; /* this rank's place */
};

/**
 * How what ranks say becomes what they know. Each rank starts from what it says itself, and
 * takes in what its children say, whose ranks come after all that it has taken in before.
 */
struct transport_merge {
    /* An error fails the meeting on all ranks. */
    tutti_status (*take)(void *user, const uint8_t *bytes, size_t len);
    /* Writes what was taken in, for another rank; or, where that is of all, the result. */
    tutti_status (*put)(void *user, bool is_all, struct wire_writer *out);
    void *user;
};

/**
 * Merges what the ranks of a group say, and gives the result to all of them. Collective in
 * the group, also for a rank that has failed; returns when the result is here, with pauses
 * between polls. Only before the engine starts. Messages of ranks whose engine runs already
 * are kept for the next transport_poll().
 * @param group  NULL: all ranks
 * @param mine   this rank's status; when it is an error, the meeting fails on all
 * @param[out] result  owned; unchanged on failure
 * @return TUTTI_OK, `mine`, TUTTI_ERR_NO_MEMORY, errors of send, poll and of `merge`;
 *         TUTTI_ERR_PROTOCOL: another rank has failed
 */
tutti_status transport_meet(struct transport *transport,
        const struct transport_group *group, tutti_status mine,
        const struct transport_merge *merge, struct wire_writer *result);
/**
 * As transport_meet(): the result has the blocks of all ranks, ascending, as mail; but of a
 * rank whose block is empty nothing. A rank without memory for its block has failed.
 */
tutti_status transport_collect(struct transport *transport,
        const struct transport_group *group, tutti_status mine,
        const struct wire_writer *block, struct wire_writer *result);

#endif
