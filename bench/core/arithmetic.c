/*
 * Independent chains of multiply-adds that converge to 1, so that no value becomes
 * subnormal or infinite, however long they run.
 */
#include "bench/core/arithmetic.h"

#include <time.h>

enum {
    CHAINS = 8,
    STEPS_PER_UNIT = 400
};

static void run_unit(double chain[CHAINS])
{
    for (int s = 0; s < STEPS_PER_UNIT; s++) {
        for (int c = 0; c < CHAINS; c++) {
            chain[c] = chain[c] * 0.75 + 0.25;
        }
    }
}

double bench_arithmetic(uint64_t units)
{
    double chain[CHAINS];
    double sum = 0;

    for (int c = 0; c < CHAINS; c++) {
        chain[c] = c;
    }
    for (uint64_t u = 0; u < units; u++) {
        run_unit(chain);
    }
    for (int c = 0; c < CHAINS; c++) {
        sum += chain[c];
    }
    return sum;
}

double bench_now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double bench_arithmetic_rate(void)
{
    const uint64_t units = 2000;
    double best_us = 0;

    for (int run = 0; run < 9; run++) {
        double start = bench_now_us();
        double result = bench_arithmetic(units);
        double took = bench_now_us() - start;

        if (result > 0 && took > 0 && (best_us <= 0 || took < best_us)) {
            best_us = took;
        }
    }
    return best_us > 0 ? 1e3 * (double)units / best_us : 1;
}
