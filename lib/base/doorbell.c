/*
 * The doorbell. No ring is lost:
 *
 *   sleeper                        ringer
 *   S1 sleepers++                  R1 rings++
 *   S2 sleep if rings == seen      R2 wake if sleepers != 0
 *
 * All four are in one total order (sequential consistency; the kernel's look at the
 * word in S2 is a full barrier). If R2 misses S1, then R1 came before S2, which
 * therefore does not sleep.
 */
#include "base/doorbell.h"

#include <limits.h>

#include "base/futex.h"

uint32_t doorbell_listen(const struct doorbell *bell)
{
    /* pairs with the increment in doorbell_ring(): work published before it is seen */
    return atomic_load_explicit(&bell->rings, memory_order_acquire);
}

void doorbell_sleep(struct doorbell *bell, uint32_t seen, int64_t timeout_ns)
{
    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_seq_cst);
    futex_wait(&bell->rings, seen, timeout_ns);
    atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_relaxed);
}

void doorbell_ring(struct doorbell *bell)
{
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&bell->sleepers, memory_order_seq_cst) != 0) {
        futex_wake(&bell->rings, INT_MAX);
    }
}
