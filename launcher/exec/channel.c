/*
 * A supervisor's end of the link.
 */
#include "launcher/exec/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

enum {
    IN_BYTES = LINK_MESSAGE_MAX + 4 /* the longest message with its length */
};

tutti_status channel_init(struct channel *channel, int fd)
{
    *channel = (struct channel){ .fd = fd, .in = mem_alloc(IN_BYTES) };
    if (channel->in == NULL) {
        channel_fini(channel);
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the link");
    }
    return TUTTI_OK;
}

void channel_fini(struct channel *channel)
{
    channel_lose(channel);
    wire_writer_fini(&channel->out);
    mem_free(channel->in);
    *channel = (struct channel){ .fd = -1 };
}

void channel_lose(struct channel *channel)
{
    if (channel->fd >= 0) {
        (void)close(channel->fd);
    }
    channel->fd = -1;
    channel->sent = 0;
    wire_writer_reset(&channel->out);
}

/* What was sent goes, when it is all, or much. */
static void forget_sent(struct channel *channel)
{
    struct wire_writer *out = &channel->out;

    if (channel->sent == out->len || channel->sent >= CHANNEL_FULL / 2) {
        memmove(out->data, out->data + channel->sent, out->len - channel->sent);
        out->len -= channel->sent;
        channel->sent = 0;
    }
}

/* Sends once; false when no more can be sent now. */
static bool send_some(struct channel *channel)
{
    ssize_t count = send(channel->fd, channel->out.data + channel->sent,
            channel_waiting(channel), MSG_NOSIGNAL | MSG_DONTWAIT);

    if (count >= 0) {
        channel->sent += (size_t)count;
        return true;
    }
    if (errno != EAGAIN && errno != EINTR) {
        channel_lose(channel);
    }
    return errno == EINTR;
}

void channel_send(struct channel *channel)
{
    if (channel->out.failed || channel->fd < 0) {
        channel_lose(channel);
        return;
    }
    while (channel_waiting(channel) > 0 && send_some(channel)) {
        /* as much as the socket takes */
    }
    if (channel->sent > 0) {
        forget_sent(channel);
    }
}

void channel_receive(struct channel *channel)
{
    ssize_t count;

    if (channel->fd < 0 || channel->in_len == IN_BYTES) {
        return;
    }
    count = recv(channel->fd, channel->in + channel->in_len, IN_BYTES - channel->in_len,
            MSG_DONTWAIT);
    if (count > 0) {
        channel->in_len += (size_t)count;
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        channel_lose(channel);
    }
}

bool channel_next(struct channel *channel, struct link_message *message)
{
    memmove(channel->in, channel->in + channel->used, channel->in_len - channel->used);
    channel->in_len -= channel->used;
    channel->used = 0;
    if (link_take(channel->in, channel->in_len, message, &channel->used) != TUTTI_OK) {
        channel_lose(channel);
        channel->in_len = 0;
        channel->used = 0;
        return false;
    }
    return channel->used > 0;
}
