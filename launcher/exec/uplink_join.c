/*
 * The way to tuttirun: first, and again when a relay is lost.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/exec/uplink.h"

static const int64_t patience_ns = 10000000000;
static const int64_t relay_patience_ns = 3000000000; /* one that starts its program */
static const int64_t millisecond = 1000000;

/* Time for one look for a place, during which nothing else is done; and between two. */
enum {
    SEEK_MS = 500,
    SEEK_PAUSE_MS = 200
};

const struct uplink uplink_none = {
    .session.fd = -1,
    .below = { .listener.fd = -1, .hangups = -1 },
    .clock_above.doubt_ns = UINT64_MAX,
    .release_due = INT64_MAX,
    .is_direct = true,
};

/*
 * Calls tuttirun, and the relay that it names; several times before `deadline` where
 * relays cannot be reached. The session is whole or lost afterwards.
 */
static tutti_status find_place(struct uplink *uplink, int64_t relay_ns,
        int64_t deadline, struct session *session)
{
    tutti_status status;

    do {
        struct link_address relay;
        const struct handshake_self self = {
            .rank = &uplink->rank,
            .port = uplink->below.port,
        };

        status = handshake(&uplink->address, &self, deadline, session, &uplink->orders);
        uplink->is_between |= status == TUTTI_OK || !session_is_lost(session);
        uplink->is_refused = status == TUTTI_ERR_PROTOCOL ||
                (status != TUTTI_OK && errno == ECONNREFUSED);
        uplink->is_direct = uplink->orders.relay[0] == '\0';
        if (status != TUTTI_OK || uplink->is_direct) {
            break;
        }
        relay = uplink->address;
        session_fini(session);
        status = handshake_relay_address(uplink->orders.relay, &relay);
        if (status == TUTTI_OK) {
            status = handshake(&relay, &self,
                    clock_ns() + relay_ns < deadline ? clock_ns() + relay_ns : deadline,
                    session, NULL);
        }
    } while (status != TUTTI_OK && clock_ns() < deadline);
    if (status == TUTTI_OK) {
        uplink->is_between = false;
        session->exchange.secret = NULL; /* it was borrowed */
    } else {
        session_fini(session);
    }
    return status;
}

tutti_status uplink_join(
        struct uplink *uplink, const char *join, const struct rank *rank)
{
    tutti_status status;

    *uplink = uplink_none;
    uplink->rank = *rank;
    status = link_address_parse(&uplink->address, join);
    if (status == TUTTI_OK && uplink->address.fan_out > 0) {
        status = uplink_relay_open(uplink);
    }
    if (status == TUTTI_OK) {
        status = find_place(
                uplink, relay_patience_ns, clock_ns() + patience_ns, &uplink->session);
    }
    return status;
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool needs_place(const struct uplink *uplink, int64_t looked)
{
    const int64_t silence =
            shorter(LINK_SUSPECT_MS / 2 * millisecond, uplink->orders.silent_ns / 4) +
            2 * uplink->orders.beat_ns;

    /* Who has called tuttirun has another place, whatever is heard at the old one. */
    return !uplink->is_released &&
            (session_is_lost(&uplink->session) || uplink->is_between ||
                    (!uplink->is_direct && looked - uplink->heard > silence));
}

/*
 * The old session is kept until tuttirun has been told of another place: when the relay saw
 * it end before, it would say that this supervisor was lost.
 */
int uplink_find_again(
        struct uplink *uplink, int64_t looked, int64_t now, struct session *session)
{
    const int64_t limit = shorter(SEEK_MS * millisecond, uplink->orders.silent_ns / 8);

    if (now < uplink->next_try || !needs_place(uplink, looked)) {
        return 0;
    }
    if (find_place(uplink, limit, now + limit, session) == TUTTI_OK) {
        return 1;
    }
    uplink->next_try = clock_ns() + SEEK_PAUSE_MS * millisecond;
    return uplink->is_refused || now - uplink->heard_tuttirun > uplink->orders.silent_ns
            ? -1
            : 0;
}
