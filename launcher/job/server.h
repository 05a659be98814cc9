/*
 * The connections of supervisors: a listening socket, and for each supervisor the bytes
 * that came and the bytes that wait to go. A stranger, who does not begin with the
 * secret of the job, is dropped without a word.
 */
#ifndef TUTTI_LAUNCHER_JOB_SERVER_H
#define TUTTI_LAUNCHER_JOB_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/job/offset.h"
#include "launcher/link/address.h"

enum {
    SERVER_STRANGER_MS =
            10000, /* that a connection has to say hello                   */
    SERVER_OUT_MAX = 1 << 20 /* bytes that wait to go to one supervisor, at most     */
};

/** One connection. */
struct server_link {
    int fd; /* -1: it has ended                                       */
    size_t index; /* in the links of the server                             */
    int rank; /* whose supervisor it is; -1: no hello yet               */
    int64_t opened; /* when, our clock                                        */
    int64_t heard; /* when bytes last came                                    */
    int64_t hung_up; /* when its other end was closed; 0: it is open, or unseen */
    int64_t stopped; /* since when the program is seen stopped; 0: it is not   */
    uint64_t last_sent; /* `sent` of the last beat that came; 0: none             */
    int64_t last_came; /* when it came                                           */
    bool is_parked; /* output waits in `in` for the console; not read         */
    unsigned events; /* that epoll reports now                                */
    bool has_exited; /* EXITED came: the program has ended                     */
    struct offset offset; /* of its clock                                          */
    uint8_t *in; /* bytes that came and are not yet whole; owned           */
    size_t in_len; /* of them                                                */
    size_t in_capacity; /* allocated                                              */
    struct wire_writer out; /* bytes that wait to go                                  */
    size_t out_sent; /* of them                                                */
};

/** Zeroed with listener and hangups -1 is valid input for server_fini(). */
struct server {
    int epoll; /* borrowed: events of links carry their index + base    */
    int hangups; /* epoll: links whose other end was closed, in that order */
    uint64_t base; /* added to the index of a link in epoll's data         */
    int listener; /* -1: not listening                                    */
    int port; /* of the listener                                       */
    bool is_local; /* only processes of this machine can connect             */
    char token[LINK_TOKEN_BYTES + 1]; /* the secret                            */
    struct server_link **links; /* owned, each is owned                       */
    size_t count; /* entries of links                                     */
    size_t capacity; /* allocated                                             */
};

/**
 * Listens on a port that is free, for this machine alone or for all.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status server_init(
        struct server *server, int epoll, uint64_t base, bool only_local);
void server_fini(struct server *server);
/** No more supervisors are expected. */
void server_stop_listening(struct server *server);

/** Accepts all that wait; `limit` connections at most are held. */
void server_accept(struct server *server, size_t limit, int64_t now);
/** True when two secrets are equal; takes as long for all that are not. */
bool server_token_is(const struct server *server, const char *text, size_t len);

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
 * Reads what has come.
 * @return true while the connection lives
 */
bool server_read(struct server_link *link, int64_t now);
/** Forgets the first bytes that came: of messages that were taken. */
void server_drop(struct server_link *link, size_t used);
/** Sends what waits in link->out; false when the connection has ended or is stuck. */
bool server_flush(const struct server *server, struct server_link *link);
/** Sets what epoll reports of a link: reading unless parked, writing when bytes wait. */
void server_watch(const struct server *server, struct server_link *link);
void server_close(struct server_link *link);

#endif
