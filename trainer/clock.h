/*
 * Time.
 */
#ifndef TUTTI_TRAINER_CLOCK_H
#define TUTTI_TRAINER_CLOCK_H

#include <stdint.h>
#include <time.h>

/** Nanoseconds of CLOCK_MONOTONIC, or since 1970 of CLOCK_REALTIME. */
static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
