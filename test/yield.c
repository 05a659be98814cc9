/*
 * sched_yield() of all test programs and of what they load, MPI included. Beside busy threads the
 * kernel gives slices to them first: with two of them per core a yield took 8 ms (Linux 6.18), and
 * ranks or threads that wait for each other need thousands. A sleeping thread gets its core when it
 * wakes up, so naps take the place of dear yields.
 */
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEAR_NS 2000000
#define NAP_NS 20000
/* Dear yields take at most this part of the time. */
#define SHARE 16

/* Not clock_ns(), which may be a test's. */
static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

__attribute__((visibility("default"))) int sched_yield(void)
{
    static _Thread_local int64_t naps_until_ns;
    const int64_t begin_ns = now_ns();
    int64_t took_ns;

    if (begin_ns < naps_until_ns) {
        (void)nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
        return 0;
    }
    (void)syscall(SYS_sched_yield);
    took_ns = now_ns() - begin_ns;
    if (took_ns > DEAR_NS) {
        naps_until_ns = begin_ns + took_ns * SHARE;
    }
    return 0;
}
