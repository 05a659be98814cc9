/*
 * How far a supervisor's clock is ahead of ours, from beats that go both ways:
 *
 *     ours    ---- a ------------------- d ---->     a: echo        d: now
 *     theirs  --------- b ------ c ------------>     b: sent-held   c: sent
 *
 * The way there and back took (d - a) - (c - b); the shortest one tells most, since the
 * offset is wrong by half of it at most. Processes of one machine have one clock, and nothing
 * is measured between them.
 */
#ifndef TUTTI_LAUNCHER_SESSION_OFFSET_H
#define TUTTI_LAUNCHER_SESSION_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/session/link.h"

/** Zeroed: nothing was measured. */
struct offset {
    bool is_ours; /* it is our clock: a process of this machine   */
    bool is_known; /* a beat has come back                          */
    int64_t ahead_ns; /* their clock minus ours                        */
    int64_t trip_ns; /* of the shortest round trip                    */
    int64_t measured; /* our clock when that was; clocks drift         */
};

/** Learns from a beat that arrived at `now` of our clock. */
void offset_learn(struct offset *offset, const struct link_beat *beat, int64_t now);
/**
 * A time of their clock in ours, never later than `now`; `now` where the clock is another
 * and nothing was measured.
 * @param[out] doubt  how far off it may be, in ns
 */
int64_t offset_ours(
        const struct offset *offset, uint64_t theirs, int64_t now, int64_t *doubt);

#endif
