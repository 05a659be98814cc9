/*
 * A small HTTP server within a loop: answers GET with texts made on the spot. For numbers and a
 * page, on the loopback address unless told otherwise.
 *
 * It never waits, and clients cannot make it: there are few of them at a time, their requests are
 * short, and one that is slow to ask or to read is dropped, or has to go when one more comes. On the
 * loopback address it answers under names of this machine alone, so that no page of another site
 * reads what it says.
 */
#ifndef TUTTI_LAUNCHER_SESSION_HTTP_H
#define TUTTI_LAUNCHER_SESSION_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/session/sockets.h"

enum {
    HTTP_CLIENTS = 16, /* at a time                                         */
    HTTP_REQUEST_MAX = 4096, /* bytes of a request with its headers           */
    HTTP_PATH_MAX = 256, /* of its path with the zero                         */
    HTTP_HOST_MAX = 256, /* of the host that it is for, likewise; "": not said */
    HTTP_ASK_MS = 10000, /* from a connection to the end of the request; more than
                          * a client on a busy machine needs                  */
    HTTP_PATIENCE_MS = 30000 /* from there to the end of the answer           */
};

/** How a request is answered: 0 not yet, for it is not whole; else a status of HTTP. */
enum http_verdict {
    HTTP_MORE = 0,
    HTTP_OK = 200,
    HTTP_BAD = 400,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_NO_METHOD = 405,
    HTTP_TOO_LONG = 431
};

/** What was asked for. */
struct http_request {
    char path[HTTP_PATH_MAX]; /* without what is behind '?'       */
    char host[HTTP_HOST_MAX]; /* without the port                 */
    bool has_host; /* it is said, if only as ""                  */
    bool head; /* HEAD: the answer has no body                    */
};

/** Reads a request; pure. OK: it is whole, and what is asked for is in `request`. */
enum http_verdict http_parse(
        const char *bytes, size_t len, struct http_request *request);

/** An answer that is being made. */
struct http_answer {
    const char *type; /* Content-Type; static                    */
    const char *policy; /* Content-Security-Policy, likewise; NULL: none is said */
    struct wire_writer *body; /* appended to                             */
};

struct http_client {
    struct http_server *server;
    struct loop_watch watch;
    int fd; /* -1: none                                          */
    size_t len; /* of the request, so far                            */
    char request[HTTP_REQUEST_MAX];
    struct wire_writer reply; /* once there is one; owned                 */
    size_t sent; /* of it                                             */
};

/** Zeroed with listener.fd -1 is valid input for http_close(). */
struct http_server {
    struct listener listener;
    const char *address; /* where it listens, in numbers; borrowed        */
    bool is_local; /* it listens on the loopback address                   */
    /* Makes the answer of a path; false: there is none. */
    bool (*answer)(void *owner, const char *path, struct http_answer *answer);
    void *owner;
    struct http_client clients[HTTP_CLIENTS];
};

/**
 * Listens. `answer` and `owner` are set.
 * @param address  in numbers; borrowed until it is closed
 * @param port     0: any that is free
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (the error says which port, and why)
 */
TUTTI_MUST_USE tutti_status http_open(
        struct http_server *server, struct loop *loop, const char *address, int port);
/** The port where it listens; 0: none. */
int http_port(const struct http_server *server);
void http_close(struct http_server *server);
#endif
