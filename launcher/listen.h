/*
 * Listening on all of this machine's addresses.
 */
#ifndef TUTTI_LAUNCHER_LISTEN_H
#define TUTTI_LAUNCHER_LISTEN_H

#include <stdint.h>

/**
 * A socket that takes connections over IPv6 and IPv4, or over IPv4 where that is all there
 * is. It does not block, and programs that are started do not inherit it.
 * @param[in,out] port  0: one that is free, which is put there
 * @return the descriptor; -1 with errno when it cannot
 */
int listen_anywhere(uint16_t *port);

#endif
