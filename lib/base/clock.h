/*
 * Time: monotonic nanoseconds.
 */
#ifndef TUTTI_BASE_CLOCK_H
#define TUTTI_BASE_CLOCK_H

#include <stdint.h>

#include "base/shared.h"

/** Monotonic time in nanoseconds. */
int64_t clock_ns(void) TUTTI_SHARED(clock_ns);
/** Sleeps about this long; the kernel adds its timer slack. */
void clock_sleep_ns(int64_t ns);
/** Between two polls of a wait since `since_ns`: yields at first, then sleeps for nap_ns. */
void clock_pause(int64_t since_ns, int64_t nap_ns) TUTTI_SHARED(clock_pause);
/** now + relative, saturating at INT64_MAX (TUTTI_FOREVER). */
int64_t clock_deadline(int64_t now_ns, int64_t relative_ns);

#endif
