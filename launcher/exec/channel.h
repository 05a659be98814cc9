/*
 * A supervisor's end of the link: a socket that never blocks, with what is not sent yet
 * and what is not read yet.
 */
#ifndef TUTTI_LAUNCHER_EXEC_CHANNEL_H
#define TUTTI_LAUNCHER_EXEC_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/wire.h"
#include "launcher/link/message.h"

enum {
    CHANNEL_FULL = 1 << 20 /* bytes not sent; with more, nothing more is read of the
                              program until tuttirun takes some */
};

/** Zeroed is valid input for channel_fini(). */
struct channel {
    int fd; /* -1: lost                                            */
    struct wire_writer out; /* messages; link_put_...() add to it      */
    size_t sent; /* bytes of out that are gone                          */
    uint8_t *in; /* room for the longest message; owned                 */
    size_t in_len; /* bytes there                                         */
    size_t used; /* bytes at the front that the last message took       */
};

/** Takes the socket, also when it fails. @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status channel_init(struct channel *channel, int fd);
void channel_fini(struct channel *channel);

static inline bool channel_is_lost(const struct channel *channel)
{
    return channel->fd < 0;
}
/** Bytes that wait to be sent. */
static inline size_t channel_waiting(const struct channel *channel)
{
    return channel->out.len - channel->sent;
}
/** Sends what the socket takes; loses the channel when it is broken. */
void channel_send(struct channel *channel);
/** Reads what there is; loses the channel at its end. */
void channel_receive(struct channel *channel);
/**
 * The next message that was received; valid until the next call. A malformed one loses
 * the channel.
 */
bool channel_next(struct channel *channel, struct link_message *message);
/** Gives it up: closes the socket and forgets what waits. */
void channel_lose(struct channel *channel);

#endif
