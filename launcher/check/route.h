/*
 * Numeric network addresses: as text, in ranges, and which of ours leads to another.
 */
#ifndef TUTTI_LAUNCHER_CHECK_ROUTE_H
#define TUTTI_LAUNCHER_CHECK_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "launcher/check/facts.h"

/** An IPv4 or IPv6 address as text; false for others and for those of one link only. */
bool route_text(const struct sockaddr *address, char text[FACTS_ADDRESS_MAX]);
/** The address of a numeric text and a port; its length, 0 when the text is none. */
socklen_t route_address(
        struct sockaddr_storage *address, const char *text, uint16_t port);
/**
 * Our address on the route to another. No packet is sent.
 * @return false when there is no route; text is then ""
 */
bool route_source(const char *to, char text[FACTS_ADDRESS_MAX]);
/**
 * The first address of a host inside ranges "10.0.0.0/8,fd00::/64".
 * @return false when there is none; text is then ""
 */
bool route_inside(
        const struct facts *facts, const char *ranges, char text[FACTS_ADDRESS_MAX]);

#endif
