/*
 * Where tuttirun is: the text of LINK_VARIABLE, "TOKEN ADDRESS,ADDRESS,... PORT". It
 * travels in the environment, which only the same user can read, never in arguments.
 */
#ifndef TUTTI_LAUNCHER_SESSION_LINK_ADDRESS_H
#define TUTTI_LAUNCHER_SESSION_LINK_ADDRESS_H

#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/session/link.h"

enum {
    LINK_ADDRESSES_MAX = 16, /* numeric addresses of one tuttirun                */
    LINK_ADDRESS_MAX = 64, /* bytes of one with its zero, IPv6 with scope included */
    LINK_JOIN_MAX = 1280 /* bytes of the variable's value with its zero         */
};

struct link_address {
    char token[LINK_TOKEN_BYTES + 1];
    char addresses[LINK_ADDRESSES_MAX][LINK_ADDRESS_MAX]; /* numeric, best first */
    size_t count; /* at least 1 */
    int port;
};

/** Writes the variable's value; its length never exceeds LINK_JOIN_MAX. */
void link_address_format(const struct link_address *address, char text[LINK_JOIN_MAX]);
/** @return TUTTI_OK, TUTTI_ERR_INVALID (does not show the token) */
TUTTI_MUST_USE tutti_status link_address_parse(
        struct link_address *address, const char *text);

#endif
