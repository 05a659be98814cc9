/*
 * What a supervisor says to tuttirun and hears of it.
 */
#include "launcher/exec/uplink.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

static bool is_tree(const struct uplink *uplink)
{
    return uplink->address.fan_out > 0;
}

bool uplink_is_full(const struct uplink *uplink)
{
    return is_tree(uplink) ? uplink->own.len > SESSION_FULL
                           : session_waiting(&uplink->session) > SESSION_FULL;
}

void uplink_lose(struct uplink *uplink)
{
    session_lose(&uplink->session);
    uplink->is_lost = true;
    uplink->beat_due = INT64_MAX;
    /* Those below are to know at once. */
    server_fini(&uplink->below);
    mem_free(uplink->routes);
    uplink->routes = NULL;
    uplink->route_capacity = 0;
}

void uplink_fini(struct uplink *uplink)
{
    uplink_lose(uplink);
    session_fini(&uplink->session);
    wire_writer_fini(&uplink->own);
}

/* What has come need not be kept; some of what was sent may have been lost. */
static void resume(struct uplink *uplink, const struct link_resume *resume)
{
    const uint64_t gone = resume->position - uplink->own_start;
    struct wire_writer *own = &uplink->own;

    if (resume->position < uplink->own_start || gone > own->len) {
        return; /* of an earlier place */
    }
    if (gone > 0) {
        memmove(own->data, own->data + gone, own->len - gone);
        own->len -= gone;
        uplink->own_start = resume->position;
    }
    uplink->own_sent =
            resume->again || gone > uplink->own_sent ? 0 : uplink->own_sent - gone;
}

static void take_frame(struct uplink *uplink, const struct frame *frame, int64_t now)
{
    struct link_message message;

    if (link_read(frame, &message) != TUTTI_OK) {
        return;
    }
    if (message.type == LINK_RESUME) {
        resume(uplink, &message.resume);
    } else {
        uplink->is_released |= message.type == LINK_RELEASE;
        uplink->obey(uplink->owner, &message, now);
    }
}

static void take_beat(struct uplink *uplink, const struct link_beat *beat, int64_t now)
{
    uplink->heard = now;
    uplink->heard_tuttirun = now - (int64_t)beat->silent_ms * 1000000;
    uplink->echo = beat->sent;
    uplink->clock_above = beat->clock;
    offset_learn(&uplink->offset, beat, now);
}

/* Returns false where who is above says what it should not. */
static bool take(struct uplink *uplink, const struct frame *frame, int64_t now)
{
    struct link_message message;

    if (link_read(frame, &message) != TUTTI_OK) {
        return false;
    }
    if (message.type == LINK_RELAYED) {
        const struct frame inner = link_relayed_frame(&message.relayed);
        const int rank = message.relayed.rank;

        if (rank != uplink->rank.rank) {
            uplink_relay_down(uplink, rank, frame);
        }
        if (rank == LINK_ALL || rank == uplink->rank.rank) {
            take_frame(uplink, &inner, now);
        }
        return true;
    }
    if (message.type == LINK_BEAT) {
        take_beat(uplink, &message.beat, now);
    }
    take_frame(uplink, frame, now);
    return true;
}

/* In a tree another place is looked for; without it there is none. */
static void lose_session(struct uplink *uplink)
{
    session_lose(&uplink->session);
    if (uplink->is_direct) {
        uplink_lose(uplink);
    }
}

void uplink_hear(void *context, unsigned ready)
{
    struct uplink *uplink = context;
    struct session *session = &uplink->session;
    const int64_t now = clock_ns();
    struct frame frame;
    bool lives;
    int got = 0;

    if ((ready & ~(unsigned)EPOLLOUT) == 0) {
        return; /* uplink_step() sends */
    }
    lives = session_receive(session);
    while (!uplink->is_lost && (got = session_next(session, &frame)) > 0) {
        if (!take(uplink, &frame, now)) {
            got = -1;
            break;
        }
    }
    if (!lives || got < 0) {
        lose_session(uplink);
    }
}

void uplink_begin(struct uplink *uplink, struct loop *loop, int64_t now)
{
    uplink->loop = loop;
    uplink->heard = now;
    uplink->heard_tuttirun = now;
    uplink->beat_due = now;
    if (!session_attach(&uplink->session, uplink->loop, uplink_hear, uplink)) {
        uplink_lose(uplink);
        return;
    }
    if (is_tree(uplink)) {
        uplink_relay_begin(uplink);
    }
    /* What came right after the welcome has been received with it. */
    uplink_hear(uplink, EPOLLIN);
}

static void beat(struct uplink *uplink, int64_t now, uint8_t state)
{
    struct wire_writer below = { .data = NULL };
    struct link_message message = {
        .type = LINK_BEAT,
        .beat = { .sent = (uint64_t)now,
                .echo = uplink->echo,
                .held = uplink->echo != 0 ? (uint64_t)(now - uplink->heard) : 0,
                .state = state },
    };

    uplink_relay_absences(uplink, now, &below);
    message.beat.below =
            (struct link_text){ .text = (char *)below.data, .len = below.len };
    link_put(&uplink->session.out, &message);
    wire_writer_fini(&below);
    uplink_relay_beat(uplink, now);
    uplink->beat_due = now + uplink->orders.beat_ns;
}

/* Puts own frames into envelopes, as far as there is room on the way. */
static void wrap(struct uplink *uplink)
{
    const struct link_clock clock = uplink_clock(uplink);
    struct wire_writer *own = &uplink->own;
    struct frame frame;
    size_t used = 1;

    while (used > 0 && uplink->own_sent < own->len &&
            session_waiting(&uplink->session) < SESSION_FULL / 2) {
        const uint8_t *at = own->data + uplink->own_sent;

        if (frame_take(at, own->len - uplink->own_sent, NULL, &frame, &used) !=
                TUTTI_OK) {
            return;
        }
        link_put_relayed(&uplink->session.out, uplink->rank.rank,
                uplink->own_start + uplink->own_sent, &clock, at, used);
        uplink->own_sent += used;
    }
}

bool uplink_is_needed(const struct uplink *uplink, int64_t now)
{
    bool is_needed = false;

    for (size_t i = 0; i < uplink->below.count; i++) {
        is_needed |= uplink->below.links[i]->rank >= 0;
    }
    return is_needed && now < uplink->release_due;
}

static void seek_place(struct uplink *uplink, int64_t looked, int64_t now)
{
    struct session session;
    const int found = uplink_find_again(uplink, looked, now, &session);

    if (found > 0) {
        session_fini(&uplink->session);
        uplink->session = session;
        uplink->offset = (struct offset){ .is_known = false };
        uplink->echo = 0;
        uplink_begin(uplink, uplink->loop, clock_ns());
    } else if (found < 0) {
        uplink_lose(uplink);
    }
}

void uplink_step(struct uplink *uplink, int64_t looked, int64_t now,
        uint8_t (*state)(const void *owner))
{
    static const int64_t patience_ns = 10000000000; /* as tuttirun has with mpirun */

    if (is_tree(uplink) && !uplink->is_lost) {
        uplink_relay_step(uplink, now);
        seek_place(uplink, looked, now);
        uplink->release_due = uplink->is_released && uplink->release_due == INT64_MAX
                ? now + patience_ns
                : uplink->release_due;
    }
    if (uplink->is_lost) {
        session_lose(&uplink->session); /* what was said to nobody since */
        wire_writer_reset(&uplink->own);
        return;
    }
    if (now >= uplink->beat_due) {
        beat(uplink, now, state(uplink->owner));
    }
    if (session_is_lost(&uplink->session)) {
        session_lose(&uplink->session); /* what was said to nobody */
        return;
    }
    wrap(uplink);
    if (uplink->own.failed) {
        uplink_lose(uplink); /* out of memory */
        return;
    }
    if (!session_send(&uplink->session)) {
        lose_session(uplink);
    }
}
