/*
 * The connection of a supervisor to tuttirun.
 */
#include "launcher/exec/uplink.h"

#include "base/clock.h"

static const int64_t patience_ns = 10000000000;

const struct uplink uplink_none = { .session.fd = -1, .beat_due = INT64_MAX };

tutti_status uplink_join(
        struct uplink *uplink, const char *join, const struct rank *rank)
{
    tutti_status status;

    *uplink = uplink_none;
    uplink->rank = *rank;
    status = link_address_parse(&uplink->address, join);
    if (status != TUTTI_OK) {
        return status;
    }
    status = handshake(&uplink->address, rank, clock_ns() + patience_ns,
            &uplink->session, &uplink->orders);
    uplink->session.exchange.secret = NULL; /* it was borrowed */
    return status;
}

bool uplink_is_full(const struct uplink *uplink)
{
    return session_waiting(&uplink->session) > SESSION_FULL;
}

void uplink_lose(struct uplink *uplink)
{
    session_lose(&uplink->session);
    uplink->beat_due = INT64_MAX;
}

void uplink_fini(struct uplink *uplink)
{
    session_fini(&uplink->session);
}

/* Returns false where tuttirun sends what it should not. */
static bool take(struct uplink *uplink, const struct frame *frame, int64_t now)
{
    struct link_message message;

    if (link_read(frame, &message) != TUTTI_OK) {
        return false;
    }
    if (message.type == LINK_BEAT) {
        uplink->heard = now;
        uplink->echo = message.beat.sent;
    }
    uplink->obey(uplink->owner, &message, now);
    return true;
}

/* Called by the loop. */
static void receive(void *context, unsigned ready)
{
    struct uplink *uplink = context;
    const int64_t now = clock_ns();
    struct frame frame;
    bool lives;
    int got;

    if ((ready & ~(unsigned)EPOLLOUT) == 0) {
        return; /* uplink_step() sends */
    }
    lives = session_receive(&uplink->session);
    while ((got = session_next(&uplink->session, &frame)) > 0) {
        if (!take(uplink, &frame, now)) {
            got = -1;
            break;
        }
    }
    if (!lives || got < 0) {
        uplink_lose(uplink);
    }
}

void uplink_begin(struct uplink *uplink, struct loop *loop, int64_t now)
{
    uplink->heard = now;
    uplink->beat_due = now;
    if (!session_attach(&uplink->session, loop, receive, uplink)) {
        uplink_lose(uplink);
        return;
    }
    /* What came right after the welcome has been received with it. */
    receive(uplink, EPOLLIN);
}

static void beat(struct uplink *uplink, int64_t now, uint8_t state)
{
    const struct link_message message = {
        .type = LINK_BEAT,
        .beat = { .sent = (uint64_t)now,
                .echo = uplink->echo,
                .held = uplink->echo != 0 ? (uint64_t)(now - uplink->heard) : 0,
                .state = state },
    };

    link_put(uplink_out(uplink), &message);
    uplink->beat_due = now + uplink->orders.beat_ns;
}

void uplink_step(
        struct uplink *uplink, int64_t now, uint8_t (*state)(const void *owner))
{
    if (uplink_is_lost(uplink)) {
        uplink_lose(uplink); /* forgets what was put since */
        return;
    }
    if (now >= uplink->beat_due) {
        beat(uplink, now, state(uplink->owner));
    }
    if (!session_send(&uplink->session)) {
        uplink_lose(uplink);
    }
}
