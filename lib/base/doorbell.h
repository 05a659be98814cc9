/*
 * A doorbell: one thread sleeps until others ring. Ringing costs one atomic increment
 * unless somebody sleeps. Works between threads, and between processes when it lies in
 * shared memory.
 *
 *   sleeper: seen = doorbell_listen(b); look for work; if none: doorbell_sleep(b, seen)
 *   ringer:  publish work; doorbell_ring(b)
 */
#ifndef TUTTI_BASE_DOORBELL_H
#define TUTTI_BASE_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/shared.h"

/** Zeroed is valid. */
struct doorbell {
    _Atomic uint32_t rings; /* counts rings; the futex word */
    _Atomic uint32_t sleepers; /* threads inside doorbell_sleep() */
};

/** The state to compare with; take it before looking for work. */
uint32_t doorbell_listen(const struct doorbell *bell);
/** Sleeps unless it was rung since `seen`; at most timeout_ns (INT64_MAX: for ever). */
void doorbell_sleep(struct doorbell *bell, uint32_t seen, int64_t timeout_ns);
/** True when a ring would wake somebody, who may just be falling asleep or waking up. */
static inline bool doorbell_has_sleepers(const struct doorbell *bell)
{
    /* A hint: whoever must not be missed is woken by doorbell_ring(), which looks itself. */
    return atomic_load_explicit(&bell->sleepers, memory_order_relaxed) != 0;
}
/** Wakes all sleepers. Any thread. */
void doorbell_ring(struct doorbell *bell) TUTTI_SHARED(doorbell_ring);

#endif
