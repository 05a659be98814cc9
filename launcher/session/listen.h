/*
 * Listening for connections.
 */
#ifndef TUTTI_LAUNCHER_SESSION_LISTEN_H
#define TUTTI_LAUNCHER_SESSION_LISTEN_H

#include <stdint.h>

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

#endif
