/*
 * Counts of this process.
 */
#include "preload/stats.h"

#include <stdatomic.h>
#include <stdio.h>

struct count {
    _Atomic uint64_t calls, bytes, ns;
};

/* By call, and then: 0 through MPI, 1 through tutti. */
static struct count counts[CALL_COUNT][2];

static const char *const names[] = {
#define PRELOAD_CALL_NAME(symbol, name, two, more) [symbol] = (name),
    PRELOAD_CALL_MAP(PRELOAD_CALL_NAME)
#undef PRELOAD_CALL_NAME
};

void stats_add(enum preload_call call, bool by_tutti, size_t bytes, int64_t ns)
{
    struct count *count = &counts[call][by_tutti ? 1 : 0];

    atomic_fetch_add_explicit(&count->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->ns, (uint64_t)ns, memory_order_relaxed);
}

static uint64_t value_of(_Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void print_side(struct count *count)
{
    (void)fprintf(stderr, " %10llu %14llu %10.3f",
            (unsigned long long)value_of(&count->calls),
            (unsigned long long)value_of(&count->bytes),
            1e-9 * (double)value_of(&count->ns));
}

void stats_print(void)
{
    (void)fprintf(stderr,
            "tutti: MPI's collectives of rank 0     through tutti              "
            "           through MPI\n"
            "tutti:                           calls          bytes    seconds      "
            "calls          bytes    seconds\n");
    for (int call = 0; call < CALL_COUNT; call++) {
        if (value_of(&counts[call][0].calls) + value_of(&counts[call][1].calls) > 0) {
            (void)fprintf(stderr, "tutti: %-20s", names[call]);
            print_side(&counts[call][1]);
            print_side(&counts[call][0]);
            (void)fprintf(stderr, "\n");
        }
    }
}
