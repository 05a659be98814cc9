/*
 * The beginning of a supervisor's link.
 */
#include "launcher/exec/handshake.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/exec/connect.h"
#include "launcher/link/address.h"

enum {
    HOST_BYTES = 256
};

static const int64_t patience_ns = 10000000000;
static const int64_t millisecond = 1000000;

static void say_hello(
        struct channel *channel, const char *token, const struct rank *rank)
{
    char host[HOST_BYTES] = "";
    struct link_hello hello = {
        .version = LINK_VERSION,
        .release = link_text_of(tutti_version()),
        .token = link_text_of(token),
        .rank = rank->rank,
        .size = rank->size,
        .local_rank = rank->local_rank,
        .local_size = rank->local_size,
        .pid = (uint64_t)getpid(),
    };

    (void)gethostname(host, sizeof host - 1);
    hello.host = link_text_of(host);
    link_put_hello(&channel->out, &hello);
}

static bool copy_text(char *to, size_t capacity, struct link_text text)
{
    return snprintf(to, capacity, "%.*s", (int)text.len, text.text) < (int)capacity;
}

static tutti_status take_orders(
        const struct link_message *message, struct orders *orders)
{
    const struct link_welcome *welcome = &message->welcome;

    if (message->type != LINK_WELCOME) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "tuttirun begins with message %d instead of a welcome",
                (int)message->type);
    }
    *orders = (struct orders){
        .beat_ns = (int64_t)welcome->beat_ms * millisecond,
        .silent_ns = (int64_t)welcome->silent_ms * millisecond,
        .kill_ms = welcome->kill_ms,
        .output_rate = welcome->output_rate,
        .forward = welcome->forward,
    };
    if (!copy_text(orders->job, sizeof orders->job, welcome->job) ||
            !copy_text(orders->log_folder, sizeof orders->log_folder,
                    welcome->log_folder)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "the job's name or the path of its logs is too long");
    }
    return TUTTI_OK;
}

static void wait_for_channel(struct channel *channel, int64_t left)
{
    struct pollfd polled = { .fd = channel->fd, .events = POLLIN };

    if (channel_waiting(channel) > 0) {
        polled.events |= POLLOUT;
    }
    (void)poll(&polled, 1, (int)((left + millisecond - 1) / millisecond));
    if ((polled.revents & POLLOUT) != 0) {
        channel_send(channel);
    }
    if ((polled.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        channel_receive(channel);
    }
}

static tutti_status hear_welcome(
        struct channel *channel, int64_t deadline, struct orders *orders)
{
    struct link_message message;
    int64_t left;

    channel_send(channel);
    while (!channel_next(channel, &message)) {
        left = deadline - clock_ns();
        if (channel_is_lost(channel)) {
            return error_set(TUTTI_ERR_PROTOCOL,
                    "tuttirun has closed the connection: is the same version of tutti "
                    "installed on all hosts? (here %s)",
                    tutti_version());
        }
        if (left <= 0) {
            return error_set(
                    TUTTI_ERR_SYSTEM, "tuttirun accepts a connection but says nothing");
        }
        wait_for_channel(channel, left);
    }
    return take_orders(&message, orders);
}

tutti_status handshake(const char *join, const struct rank *rank,
        struct channel *channel, struct orders *orders)
{
    int64_t deadline = clock_deadline(clock_ns(), patience_ns);
    struct link_address address;
    int fd;
    tutti_status status = link_address_parse(&address, join);

    *channel = (struct channel){ .fd = -1 };
    if (status == TUTTI_OK) {
        status = connect_any(&address, deadline, &fd);
    }
    if (status == TUTTI_OK) {
        status = channel_init(channel, fd);
    }
    if (status == TUTTI_OK) {
        say_hello(channel, address.token, rank);
        status = hear_welcome(channel, deadline, orders);
    }
    return status;
}
