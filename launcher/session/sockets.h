/*
 * Sockets: where connections are taken, and how they are made. To a host with several addresses all are
 * tried nearly at once, for one that leads nowhere would otherwise take a minute to fail.
 */
#ifndef TUTTI_LAUNCHER_SESSION_SOCKETS_H
#define TUTTI_LAUNCHER_SESSION_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "launcher/session/loop.h"

/*
 * All return a socket that does not block and is not inherited by programs that are
 * started; -1 with errno. A port of 0 asks for any free one, which is written back.
 */

/** Takes connections over IPv6 and IPv4, or over IPv4 where that is all there is. */
int listen_anywhere(uint16_t *port);
/** Takes connections of this machine alone, over IPv4. */
int listen_here(uint16_t *port);
/** Takes connections over a Unix socket with this path. */
int listen_path(const char *path);
/** Takes connections at this address. */
int listen_address(const struct sockaddr *address, socklen_t len);

/**
 * A listening socket in a loop. Where descriptors run out, those who call wait in the kernel's
 * queue, and the loop is not kept busy.
 */
struct listener {
    struct loop *loop; /* borrowed; NULL: nobody is taken yet                     */
    struct loop_watch watch; /* of fd                                             */
    int fd; /* owned; -1: not listening                                  */
    void (*take)(
            void *owner, int fd); /* a connection, which does not block; it owns it */
    void *owner; /* for it                                               */
};

/** From now on who calls is taken. False: it cannot be waited for. */
bool listener_begin(struct listener *listener, struct loop *loop,
        void (*take)(void *owner, int fd), void *owner);
/** Nobody is taken for so long. */
void listener_pause(struct listener *listener, int ms);
void listener_close(struct listener *listener);

enum {
    CONNECT_ADDRESSES_MAX = 16
};

/** Where to connect to; zeroed there is nothing. */
struct connect_addresses {
    struct sockaddr_storage list[CONNECT_ADDRESSES_MAX];
    socklen_t len[CONNECT_ADDRESSES_MAX];
    size_t count;
    size_t last; /* the one that answered, or of which the errno is */
};

/**
 * Adds the addresses of a name; what there is no room for is left out.
 * @param flags  of getaddrinfo(): AI_NUMERICHOST asks nobody
 * @return as getaddrinfo()
 */
int connect_add(struct connect_addresses *addresses, const char *host, const char *port,
        int flags);
/** Begins to connect to an address, without waiting. @return the socket; -1 with errno */
int connect_begin(const struct sockaddr_storage *address, socklen_t len);
/**
 * Tries all addresses, the next one 100 ms after the one before or as soon as that one has
 * failed; the first that answers counts.
 * @param deadline  monotonic, ns
 * @return a TCP socket that does not block; -1 with errno when none answers
 */
int connect_any(struct connect_addresses *addresses, int64_t deadline);

#endif
