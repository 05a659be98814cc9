/*
 * Connections to a host with several addresses: all are tried nearly at once, for one that
 * leads nowhere would otherwise take a minute to fail.
 */
#ifndef TUTTI_LAUNCHER_SESSION_CONNECT_H
#define TUTTI_LAUNCHER_SESSION_CONNECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

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
