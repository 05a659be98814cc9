/*
 * Mail: messages in one buffer, in the order of arrival, each with its sender.
 */
#ifndef TUTTI_TRANSPORT_MAIL_H
#define TUTTI_TRANSPORT_MAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/wire.h"
#include "transport/transport.h"

/** Appends a message; false, the mail unchanged, when out of memory. */
bool mail_put(struct wire_writer *mail, int from, const void *bytes, size_t len);
/** Delivers all messages, oldest first, and empties the mail; it keeps its memory. */
void mail_deliver(struct wire_writer *mail, transport_deliver deliver, void *user);

#endif
