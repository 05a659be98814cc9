/*
 * The sessions of supervisors, and the listening socket that they call: tuttirun has one, and
 * each relay (exec/uplink.h). A stranger, who does
 * not begin with a proof that he knows the secret of the job, is dropped without a word.
 */
#ifndef TUTTI_LAUNCHER_SESSION_SERVER_H
#define TUTTI_LAUNCHER_SESSION_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/session/link_address.h"
#include "launcher/session/offset.h"
#include "launcher/session/session.h"

enum {
    SERVER_STRANGER_MS = 10000 /* that a connection has to say hello */
};

/** What a rank is suspected of, which ends the job only when it lasts. */
enum doubt {
    DOUBT_NONE,
    DOUBT_SILENT, /* its supervisor is not heard      */
    DOUBT_STOPPED /* its program is stopped (SIGSTOP) */
};

/** One connection. */
struct server_link {
    struct session session; /* with the supervisor; paused: its output waits for the
                               console; lost: it has ended */
    struct server *server; /* it is one of                                           */
    size_t index; /* in the links of the server                             */
    int rank; /* whose supervisor it is; -1: no hello yet               */
    enum doubt doubt; /* what was said of it                                    */
    int64_t opened; /* when, our clock                                        */
    int64_t heard; /* when bytes last came                                    */
    int64_t hung_up; /* when its other end was closed; 0: it is open, or unseen */
    int64_t stopped; /* since when the program is seen stopped; 0: it is not   */
    int64_t doubt_since; /* since when, where it is not DOUBT_NONE                 */
    uint64_t last_sent; /* `sent` of the last beat that came; 0: none             */
    int64_t last_came; /* when it came                                           */
    bool has_exited; /* EXITED came: the program has ended                     */
    uint8_t state; /* of the program, by the last beat of it; 0: not known    */
    struct offset offset; /* of its clock                                          */

    /* At a relay. */
    struct wire_writer below; /* what that said of those below it                */

    /* At tuttirun, in a tree of supervisors (job/job_tree.c). */
    struct server_link
            *above; /* over which it is reached; NULL: it is connected here */
    bool is_below; /* it was given a relay: it needs no connection here       */
    bool is_awaited; /* that relay has not said that it is there                */
    bool has_returned; /* it had another place: some of what it said may be lost */
    int64_t quiet; /* since when its relay does not hear it, or it is awaited; 0 */
    uint64_t pid; /* of the supervisor, on its host                         */
    uint16_t port; /* where it listens as a relay; 0: it does not             */
    char address[LINK_ADDRESS_MAX]; /* by which it is called there              */
    bool has_absences; /* its last beat named some that it does not hear         */
    uint64_t received, acknowledged; /* bytes of its frames; how many it knows of */
};

/** Zeroed with listener and hangups -1 is valid input for server_fini(). */
struct server {
    struct loop *loop; /* borrowed                                              */
    void (*call)(void *link, unsigned ready); /* when something has come of a link */
    void *owner; /* of the server, for it                                 */
    int hangups; /* epoll: links whose other end was closed, in that order */
    struct loop_watch watch; /* of the listener; set by the owner                */
    int listener; /* -1: not listening                                    */
    uint16_t port; /* of the listener                                       */
    bool is_local; /* only processes of this machine can connect             */
    char token[LINK_TOKEN_BYTES + 1]; /* the secret                            */
    struct server_link **links; /* owned, each is owned                       */
    size_t count; /* entries of links                                     */
    size_t capacity; /* allocated                                             */
};

/**
 * Listens on a port that is free, for this machine alone or for all. What is set of the
 * server is its owner and what it calls.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status server_init(
        struct server *server, struct loop *loop, bool only_local);
/** The same with the token that the server has. */
TUTTI_MUST_USE tutti_status server_open(
        struct server *server, struct loop *loop, bool only_local);
void server_fini(struct server *server);

/** No more supervisors are expected. */
void server_stop_listening(struct server *server);

/** Accepts all that wait; `limit` connections at most are held. */
void server_accept(struct server *server, size_t limit, int64_t now);
/** Has server_note_hangups() look at a link; server_accept() does that itself. */
TUTTI_MUST_USE bool server_watch_end(
        const struct server *server, const struct server_link *link);
/**
 * Notes which supervisors have closed their end, the first with the earliest time. What
 * else is known of links tells nothing of that order: one that had sent a beat before is
 * looked at before one that had not.
 */
void server_note_hangups(struct server *server, int64_t now);
/**
 * Makes the connection of `from`, which has no other use, that of a link whose own is lost.
 * @return false when it cannot be waited for
 */
TUTTI_MUST_USE bool server_move(struct server_link *link, struct server_link *from);
/** Sends what waits; false when the connection has ended or is stuck. */
bool server_flush(struct server_link *link);

#endif
