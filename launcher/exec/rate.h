/*
 * How much of a rank's output reaches the console: so many bytes per second; the rest is
 * counted. Pure.
 */
#ifndef TUTTI_LAUNCHER_EXEC_RATE_H
#define TUTTI_LAUNCHER_EXEC_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A bucket that holds one second's worth. */
struct rate {
    uint64_t per_second; /* bytes; 0: no limit                              */
    int64_t credit; /* bytes that may pass now; below 0 after a long line */
    int64_t filled; /* when credit was last added, ns                  */
    int64_t dropping; /* when the first of dropped was dropped, ns       */
    uint64_t dropped; /* lines since rate_told()                         */
};

void rate_init(struct rate *rate, uint64_t per_second, int64_t now);
/** True: the line may be shown. False: it was counted. */
bool rate_take(struct rate *rate, size_t bytes, int64_t now);
/** When what was dropped should be told; INT64_MAX: nothing was. */
int64_t rate_due(const struct rate *rate);
/** Lines dropped since the last call. */
uint64_t rate_told(struct rate *rate);

#endif
