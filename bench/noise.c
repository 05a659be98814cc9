/*
 * Processor time from /proc/stat, less that of the ranks.
 */
#include "bench/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/core/arithmetic.h"

/* Ticks are told apart from nothing when there are many of them. */
static const double shortest_us = 300000;

/* What all processors of this host have done so far; NaN if the kernel does not say. */
static double busy_us(void)
{
    /* user, nice, system, idle, waiting, interrupts, soft interrupts, stolen */
    unsigned long long ticks[8] = { 0 };
    FILE *file = fopen("/proc/stat", "re");
    char line[256] = "";
    char *at = line;

    if (file == NULL) {
        return NAN;
    }
    if (fgets(line, sizeof line, file) == NULL || strncmp(line, "cpu ", 4) != 0) {
        line[0] = '\0';
    }
    (void)fclose(file);
    at += strcspn(line, " ");
    for (int i = 0; i < 8; i++) {
        const char *before = at;

        ticks[i] = strtoull(before, &at, 10);
        if (at == before) {
            return NAN;
        }
    }
    return (double)(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]) *
            1e6 / (double)sysconf(_SC_CLK_TCK);
}

static double own_us(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

void noise_start(struct noise *noise)
{
    *noise = (struct noise){
        .start_us = bench_now_us(), .busy_us = busy_us(), .own_us = own_us()
    };
}

void noise_end(struct noise *noise, const struct job *job)
{
    const double elapsed_us = bench_now_us() - noise->start_us;
    /* a host counts once: each of its ranks has its share */
    double figures[] = {
        (busy_us() - noise->busy_us) / tutti_local_size(job->t),
        own_us() - noise->own_us,
        elapsed_us / job->size,
    };

    job_sum(figures, 3);
    noise->cores = (figures[0] - figures[1]) / figures[2];
    if (figures[2] < shortest_us) {
        noise->cores = NAN;
    } else if (noise->cores < 0) {
        noise->cores = 0;
    }
}
