/*
 * The offset of a supervisor's clock.
 */
#include "launcher/session/offset.h"

enum {
    OFFSET_GOOD_S =
            60 /* seconds after which a longer round trip replaces the shortest */
};

void offset_learn(struct offset *offset, const struct link_beat *beat, int64_t now)
{
    int64_t echo = (int64_t)beat->echo;
    int64_t held = (int64_t)beat->held;
    int64_t sent = (int64_t)beat->sent;
    bool is_old = now - offset->measured > (int64_t)OFFSET_GOOD_S * 1000000000;
    int64_t trip;

    /* What no honest supervisor sends: an echo of the future, or held for too long. */
    if (echo <= 0 || echo > now || held < 0 || held > now - echo || sent < 0) {
        return;
    }
    trip = now - echo - held;
    if (offset->is_ours || (offset->is_known && trip > offset->trip_ns && !is_old)) {
        return;
    }
    *offset = (struct offset){
        .is_known = true,
        .ahead_ns = sent - now + trip / 2,
        .trip_ns = trip,
        .measured = now,
    };
}

int64_t offset_ours(
        const struct offset *offset, uint64_t theirs, int64_t now, int64_t *doubt)
{
    int64_t ours;

    if (!offset->is_known && !offset->is_ours) {
        *doubt = 0;
        return now;
    }
    *doubt = offset->trip_ns / 2;
    /* What is not between 0 and now no honest supervisor sends. */
    if (theirs > INT64_MAX ||
            __builtin_sub_overflow((int64_t)theirs, offset->ahead_ns, &ours) ||
            ours > now) {
        return now;
    }
    return ours < 0 ? 0 : ours;
}
