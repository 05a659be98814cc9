/*
 * The sessions of those who call, and the socket where they do: tuttirun has one for supervisors,
 * an elastic job one for keepers, and the first of the hosts that join one for the others.
 *
 * Who calls is a stranger until he has proven that he knows the secret. He has a second for that, and
 * there are few of them at a time beside those that are awaited: for one more, the one that has been
 * there longest is dropped, without a word. So whoever is dropped before he could prove himself calls
 * again, and strangers take no place and no descriptor of those who have.
 */
#ifndef TUTTI_LAUNCHER_SESSION_SERVER_H
#define TUTTI_LAUNCHER_SESSION_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/session/link.h"
#include "launcher/session/meet.h"
#include "launcher/session/session.h"
#include "launcher/session/sockets.h"

enum {
    SERVER_STRANGER_MS = 1000, /* for a HELLO                        */
    SERVER_STRANGERS = 64, /* at a time, beside those that are awaited */
    SERVER_GRACE_MS = 100, /* in which it is not dropped for another   */
    SERVER_PAUSE_MS = 10 /* between two that are too many              */
};

/** What a rank is suspected of, which ends the job only when it lasts. */
enum doubt {
    DOUBT_NONE,
    DOUBT_SILENT, /* nothing comes of its supervisor   */
    DOUBT_STOPPED /* its program is stopped (SIGSTOP) */
};

/** One connection. */
struct server_link {
    struct session session; /* with the supervisor; paused: its output waits for the
                               console; lost: it has ended */
    struct server *server; /* it is one of                                           */
    size_t index; /* in the links of the server                             */
    int rank; /* whose supervisor it is; -1: it is a stranger's         */
    enum doubt doubt; /* what was reported of it                                */
    int64_t opened; /* when, our clock                                        */
    int64_t heard; /* when bytes last came                                    */
    int64_t hung_up; /* when its other end was closed; 0: it is open, or unseen */
    int64_t stopped; /* since when the program is seen stopped; 0: it is not   */
    int64_t doubt_since; /* since when, where it is not DOUBT_NONE                 */
    uint64_t last_sent; /* `sent` of the last beat that came; 0: none             */
    int64_t last_came; /* when it came                                           */
    bool has_exited; /* EXITED came: the program has ended                     */
    struct offset offset; /* of its clock                                          */
};

/** Zeroed with listener.fd and hangups -1 is valid input for server_fini(). */
struct server {
    const struct meet_protocol *protocol; /* by which they meet                 */
    /*
     * A HELLO has come: with its proof, or where `said` is NULL with a wrong one. One whose rank is not
     * set then is dropped.
     */
    void (*hello)(struct server_link *link, struct meet_hello *said);
    void (*call)(
            void *link, unsigned ready); /* what has come of one that is no stranger */
    void *owner; /* of the server, for them                               */
    int hangups; /* epoll: links whose other end was closed, in that order */
    struct listener listener;
    size_t strangers; /* that are connected                                   */
    bool has_gone; /* links of strangers that are not any more: free places    */
    size_t awaited; /* friends that have not come: so many more may be strangers */
    uint16_t port; /* of the listener                                       */
    bool is_local; /* only processes of this machine can connect             */
    const void *secret; /* borrowed; NULL: the token                           */
    size_t secret_len;
    char token[LINK_TOKEN_BYTES + 1];
    struct server_link **links; /* owned, each is owned                       */
    size_t count; /* entries of links                                     */
    size_t capacity; /* allocated                                             */
};

/**
 * Allows a connection for each rank: the soft limit of open files becomes the hard one where that takes
 * more.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (the hard limit is less; the error names both, and what to do)
 */
TUTTI_MUST_USE tutti_status server_raise_limit(int ranks);
/** A new token. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status server_make_token(struct server *server);
/**
 * Listens on a port, for this machine alone or for all; 0: one that is free, which is set. What is set
 * of the server before is its protocol, its secret, its owner and what it calls.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (with errno)
 */
TUTTI_MUST_USE tutti_status server_open(struct server *server, bool only_local);
/** From now on connections are accepted; may be called again. False: they cannot be. */
bool server_begin(struct server *server, struct loop *loop);
void server_fini(struct server *server);

/** Nobody else is expected. */
void server_stop_listening(struct server *server);
/** Has server_note_hangups() look at a link, as at each that calls. */
TUTTI_MUST_USE bool server_watch_end(
        const struct server *server, const struct server_link *link);
/**
 * Notes which supervisors have closed their end, the first with the earliest time. What
 * else is known of links tells nothing of that order: one that had sent a beat before is
 * looked at before one that had not.
 */
void server_note_hangups(struct server *server, int64_t now);
/** Sends what waits; false when the connection has ended or is stuck. */
bool server_flush(struct server_link *link);

#endif
