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
#include <stdint.h>

/** Zeroed is valid. */
struct doorbell {
    _Atomic uint32_t rings; /* counts rings; the futex word */
    _Atomic uint32_t sleepers; /* threads inside doorbell_sleep() */
};

/** The state to compare with; take it before looking for work. */
uint32_t doorbell_listen(const struct doorbell *bell);
/** Sleeps unless it was rung since `seen`; at most timeout_ns (INT64_MAX: for ever). */
void doorbell_sleep(struct doorbell *bell, uint32_t seen, int64_t timeout_ns);
/** Wakes all sleepers. Any thread. */
void doorbell_ring(struct doorbell *bell);

#endif
