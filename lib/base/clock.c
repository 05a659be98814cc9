/*
 * Time from CLOCK_MONOTONIC.
 */
#include "base/clock.h"

#include <sched.h>
#include <time.h>

enum {
    NS_PER_S = 1000000000,
    /* A time, not a number of yields: beside busy threads each may take milliseconds. */
    YIELD_NS = 200000
};

int64_t clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void clock_sleep_ns(int64_t ns)
{
    struct timespec time;

    if (ns <= 0) {
        return;
    }
    time = (struct timespec){ .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };
    /* A signal may cut it short: callers look again at what they wait for anyway. */
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

void clock_pause(int64_t since_ns, int64_t nap_ns)
{
    if (clock_ns() - since_ns < YIELD_NS) {
        (void)sched_yield();
    } else {
        clock_sleep_ns(nap_ns);
    }
}

int64_t clock_deadline(int64_t now_ns, int64_t relative_ns)
{
    int64_t deadline;

    if (__builtin_add_overflow(now_ns, relative_ns, &deadline)) {
        return INT64_MAX;
    }
    return deadline;
}
