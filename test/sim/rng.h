/*
 * The simulator's random numbers: everything a run does follows from its seed.
 */
#ifndef TUTTI_SIM_RNG_H
#define TUTTI_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

struct rng {
    uint64_t state; /* never 0 */
};

static inline struct rng rng_seeded(uint64_t seed)
{
    return (struct rng){ .state = hash_u64(seed, 1) | 1 };
}

/** xorshift64*. */
static inline uint64_t rng_next(struct rng *rng)
{
    rng->state ^= rng->state >> 12;
    rng->state ^= rng->state << 25;
    rng->state ^= rng->state >> 27;
    return rng->state * UINT64_C(0x2545f4914f6cdd1d);
}

/** 0 to n - 1; 0 when n is not positive. */
static inline int rng_below(struct rng *rng, int n)
{
    return n > 0 ? (int)((rng_next(rng) >> 33) % (uint64_t)n) : 0;
}

/** low to high, both included. */
static inline int rng_range(struct rng *rng, int low, int high)
{
    return low + rng_below(rng, high - low + 1);
}

static inline bool rng_chance(struct rng *rng, int percent)
{
    return rng_below(rng, 100) < percent;
}

static inline void rng_shuffle(struct rng *rng, int *items, int count)
{
    for (int i = count - 1; i > 0; i--) {
        const int j = rng_below(rng, i + 1);
        const int item = items[i];

        items[i] = items[j];
        items[j] = item;
    }
}

#endif
