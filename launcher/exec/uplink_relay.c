/*
 * A supervisor as a relay: those below.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "launcher/exec/uplink.h"
#include "launcher/session/meet.h"

enum {
    LATE_BEATS = 3, /* after which those below are reported as not heard */
    NS_PER_MS = 1000000,
    ROUTES_MAX = 1 << 20
};

struct link_clock uplink_clock(const struct uplink *uplink)
{
    const struct link_clock *above = &uplink->clock_above;

    if (!uplink->offset.is_known || above->doubt_ns == UINT64_MAX) {
        return (struct link_clock){ .doubt_ns = UINT64_MAX };
    }
    return (struct link_clock){
        .ahead_ns = above->ahead_ns - uplink->offset.ahead_ns,
        .doubt_ns = above->doubt_ns + (uint64_t)uplink->offset.trip_ns / 2,
    };
}

static struct server_link *route_to(const struct uplink *uplink, int rank)
{
    return rank >= 0 && (size_t)rank < uplink->route_capacity ? uplink->routes[rank]
                                                              : NULL;
}

/* Where a rank was heard last. What is not noted is only sent to more than need it. */
static void note_route(struct uplink *uplink, int rank, struct server_link *link)
{
    const size_t before = uplink->route_capacity;

    if (rank < 0 || rank >= ROUTES_MAX ||
            !mem_grow(&uplink->routes, &uplink->route_capacity, (size_t)rank + 1,
                    sizeof(struct server_link *))) {
        return;
    }
    if (uplink->route_capacity > before) {
        memset(uplink->routes + before, 0,
                (uplink->route_capacity - before) * sizeof(struct server_link *));
    }
    uplink->routes[rank] = link;
}

static void put_child(struct uplink *uplink, int rank, bool is_here, int64_t time)
{
    const struct link_message message = {
        .type = LINK_CHILD,
        .child = { .rank = rank, .is_here = is_here, .time = (uint64_t)time },
    };

    link_put(uplink_out(uplink), &message);
}

static void lose_child(struct uplink *uplink, struct server_link *link, int64_t now)
{
    const int rank = link->rank;

    server_note_hangups(&uplink->below, now);
    session_lose(&link->session);
    link->rank = -1; /* its place is free */
    if (rank < 0) {
        return;
    }
    for (size_t i = 0; i < uplink->route_capacity; i++) {
        if (uplink->routes[i] == link) {
            uplink->routes[i] = NULL;
        }
    }
    if (link->last_came != 0) {
        put_child(uplink, rank, false, link->hung_up != 0 ? link->hung_up : now);
    }
}

static void flush(struct uplink *uplink, struct server_link *link, int64_t now)
{
    if (!session_is_lost(&link->session) && !server_flush(link)) {
        lose_child(uplink, link, now);
    }
}

/* Who called before and is still thought to be there: it has left without a word. */
static void forget_other(struct uplink *uplink, const struct server_link *link)
{
    for (size_t i = 0; i < uplink->below.count; i++) {
        struct server_link *other = uplink->below.links[i];

        if (other != link && other->rank == link->rank) {
            session_lose(&other->session);
            other->rank = -1;
        }
    }
}

static void hear_hello(struct server_link *link, struct meet_hello *said)
{
    struct uplink *uplink = link->server->owner;
    struct link_message message;

    if (said == NULL || !link_get_body(&said->in, LINK_HELLO, &message) ||
            message.hello.rank < 0) {
        return;
    }
    link->rank = message.hello.rank;
    forget_other(uplink, link);
    meet_welcome(&link->session, &link_protocol, NULL, 0);
    note_route(uplink, link->rank, link);
}

/* With the first it is here: it may have given up waiting for the welcome. */
static void hear_beat(struct uplink *uplink, struct server_link *link,
        const struct link_beat *beat, int64_t now)
{
    if (link->last_came == 0) {
        put_child(uplink, link->rank, true, now);
    }
    link->last_sent = beat->sent;
    link->last_came = now;
    link->state = beat->state;
    wire_writer_reset(&link->below);
    wire_put_bytes(&link->below, beat->below.text, beat->below.len);
}

static void hear_frame(struct uplink *uplink, struct server_link *link,
        const struct frame *frame, int64_t now)
{
    struct link_message message;

    if (link_read(frame, &message) != TUTTI_OK ||
            (message.type != LINK_BEAT && message.type != LINK_RELAYED)) {
        lose_child(uplink, link, now);
    } else if (message.type == LINK_BEAT) {
        hear_beat(uplink, link, &message.beat, now);
    } else {
        if (route_to(uplink, message.relayed.rank) != link) {
            note_route(uplink, message.relayed.rank, link);
        }
        /* Without a place it is lost here, and will be asked for again. */
        if (!session_is_lost(&uplink->session)) {
            session_put(&uplink->session, frame->type, frame->body, frame->len);
        }
    }
}

/* Takes what has come, unless who is above does not take it. */
static void hear_all(
        struct uplink *uplink, struct server_link *link, bool force, int64_t now)
{
    struct session *session = &link->session;
    struct frame frame;
    bool waits = false;
    int got = 0;

    while (!waits && !session_is_lost(session) && !uplink->is_lost &&
            (got = session_next(session, &frame)) > 0) {
        waits = !force && frame.type == LINK_RELAYED &&
                session_waiting(&uplink->session) > SESSION_FULL / 2;
        if (waits) {
            session_put_back(session);
        } else {
            hear_frame(uplink, link, &frame, now);
        }
    }
    if (got < 0 && !session_is_lost(session)) {
        lose_child(uplink, link, now);
    }
    if (!session_is_lost(session)) {
        session_pause(session, waits);
    }
}

static void on_child(void *context, unsigned ready)
{
    struct server_link *link = context;
    struct uplink *uplink = link->server->owner;
    const int64_t now = clock_ns();
    bool lives;

    if ((ready & ~(unsigned)EPOLLOUT) != 0 && !session_is_lost(&link->session)) {
        lives = session_receive(&link->session);
        link->heard = lives ? now : link->heard;
        hear_all(uplink, link, !lives, now);
        if (!lives && !session_is_lost(&link->session)) {
            lose_child(uplink, link, now);
        }
    }
    flush(uplink, link, now);
}

tutti_status uplink_relay_open(struct uplink *uplink)
{
    struct server *below = &uplink->below;

    below->protocol = &link_protocol;
    below->hello = hear_hello;
    below->call = on_child;
    below->owner = uplink;
    below->awaited = (size_t)uplink->address.fan_out;
    (void)memcpy(below->token, uplink->address.token, sizeof below->token);
    return server_open(below, false);
}

void uplink_relay_begin(struct uplink *uplink)
{
    (void)server_begin(&uplink->below, uplink->loop);
}

void uplink_relay_down(struct uplink *uplink, int rank, const struct frame *frame)
{
    struct server_link *only = route_to(uplink, rank);

    for (size_t i = 0; i < uplink->below.count; i++) {
        struct server_link *link = uplink->below.links[i];

        if (link->rank >= 0 && (only == NULL || only == link)) {
            session_put(&link->session, frame->type, frame->body, frame->len);
            flush(uplink, link, clock_ns());
        }
    }
}

void uplink_relay_beat(struct uplink *uplink, int64_t now)
{
    const struct link_clock clock = uplink_clock(uplink);
    const uint32_t silent_ms = (uint32_t)((now - uplink->heard_tuttirun) / NS_PER_MS);

    for (size_t i = 0; i < uplink->below.count; i++) {
        struct server_link *link = uplink->below.links[i];
        const struct link_message message = {
            .type = LINK_BEAT,
            .beat = { .sent = (uint64_t)now,
                    .echo = link->last_sent,
                    .held = link->last_sent != 0 ? (uint64_t)(now - link->last_came)
                                                 : 0,
                    .clock = clock,
                    .silent_ms = silent_ms },
        };

        if (link->rank >= 0) {
            link_put(&link->session.out, &message);
            flush(uplink, link, now);
        }
    }
}

void uplink_relay_absences(
        const struct uplink *uplink, int64_t now, struct wire_writer *text)
{
    const int64_t late = LATE_BEATS * uplink->orders.beat_ns;

    for (size_t i = 0; i < uplink->below.count; i++) {
        const struct server_link *link = uplink->below.links[i];
        const int64_t silence = link->session.is_paused ? 0 : now - link->heard;

        if (link->rank < 0 || text->len + link->below.len > LINK_BELOW_MAX / 2) {
            continue;
        }
        if (silence > late || link->state == 'T') {
            link_put_absence(text,
                    &(struct link_absence){ .rank = link->rank,
                            .silent_ms = silence > late
                                    ? (uint32_t)(silence / NS_PER_MS)
                                    : 0,
                            .state = link->state });
        }
        if (link->below.len > 0) {
            wire_put_bytes(text, link->below.data, link->below.len);
        }
    }
}

void uplink_relay_step(struct uplink *uplink, int64_t now)
{
    for (size_t i = 0; i < uplink->below.count; i++) {
        struct server_link *link = uplink->below.links[i];

        if (link->session.is_paused &&
                session_waiting(&uplink->session) < SESSION_FULL / 4) {
            hear_all(uplink, link, false, now);
        }
    }
}
