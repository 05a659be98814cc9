/*
 * The futex system call. Not the private form: the word may lie in memory that
 * processes share.
 */
#include "base/futex.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    NS_PER_S = 1000000000
};

void futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec time = { .tv_sec = timeout_ns / NS_PER_S,
        .tv_nsec = timeout_ns % NS_PER_S };

    if (timeout_ns <= 0) {
        return;
    }
    (void)syscall(SYS_futex, word, FUTEX_WAIT, expected,
            timeout_ns == INT64_MAX ? NULL : &time, NULL, 0);
}

void futex_wake(_Atomic uint32_t *word, int n)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}
