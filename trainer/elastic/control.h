/*
 * The memory of a host that outlives generations of an elastic job: how tuttirun's
 * supervisors hand it to ranks, and its first page, which both write. What is behind that
 * page, region.h knows.
 */
#ifndef TUTTI_TRAINER_ELASTIC_CONTROL_H
#define TUTTI_TRAINER_ELASTIC_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

/** Variable of a rank: "FD GENERATION LOCAL_RANK LOCAL_SIZE", FD being inherited. */
#define ELASTIC_VARIABLE "TUTTI_INTERNAL_STATE"

enum {
    ELASTIC_CONTROL_BYTES = 4096, /* of the first page */
    ELASTIC_LOCAL_MAX = 4096 /* ranks of a host    */
};

/** Zeroed: nothing was said. */
struct elastic_control {
    /* Supervisors: what elastic_notice() makes; 0: nothing. */
    _Atomic uint64_t notice;
    /* Ranks: number of the newest commit that is complete; 0: none. */
    _Atomic uint64_t committed;
};

/** A number of a commit: those of a later generation are greater. */
static inline uint64_t elastic_number(uint32_t generation, uint32_t count)
{
    return (uint64_t)generation << 32 | count;
}

static inline uint32_t elastic_generation(uint64_t number)
{
    return (uint32_t)(number >> 32);
}

/** A notice (tutti_notice) for the ranks of a generation; others do not see it. */
static inline uint64_t elastic_notice(uint32_t generation, uint32_t what)
{
    return (uint64_t)generation << 32 | what;
}

#endif
