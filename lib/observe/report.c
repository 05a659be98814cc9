/*
 * The report at the end of a context: a table of rank 0's batches, and the waits of all ranks.
 *
 * Bytes, batches and steps are much the same on all ranks, and what is not is in each rank's
 * own metrics. Waits differ, and say which rank is slow.
 */
#include "observe/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "run/context.h"

enum {
    TELL_ALL = 16, /* ranks of which each is told; of more, the extremes      */
    TELL_SOME = 4,
    LINE_BYTES = 512
};

/* Asked for by name: it is logged at any level but that of its lines. */
static void say(const tutti *t, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

static void say(const tutti *t, const char *format, ...)
{
    struct log log = t->log;
    char line[LINE_BYTES];
    va_list args;

    log.level = log.level < TUTTI_LOG_INFO ? TUTTI_LOG_INFO : log.level;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log_info(&log, "report: %s", line);
}

static double seconds_of(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* "4 MiB": powers of two are whole. */
static const char *size_text(uint64_t bytes, char text[32])
{
    double value = (double)bytes;
    const char *unit = text_byte_unit(&value);

    (void)snprintf(text, 32, "%.4g %s", value, unit);
    return text;
}

static void say_rows(const tutti *t)
{
    struct metrics_total total;
    char size[32];
    char bytes[32];

    say(t, "%-13s %-6s %9s %10s %9s %10s %9s %8s", "collective", "by", "up to",
            "operations", "batches", "bytes", "seconds", "GB/s");
    for (int i = 0; i < METRICS_ROWS; i++) {
        if (metrics_read_row(t->observer.metrics, i, &total)) {
            say(t, "%-13s %-6s %9s %10llu %9llu %10s %9.3f %8.3f", total.collective,
                    total.backend, size_text(total.size, size),
                    (unsigned long long)total.operations,
                    (unsigned long long)total.batches, size_text(total.bytes, bytes),
                    seconds_of(total.time_ns),
                    total.time_ns == 0 ? 0
                                       : (double)total.bytes / (double)total.time_ns);
        }
    }
}

static void say_rest(const tutti *t)
{
    const struct metrics_source source = observer_metrics(t);
    const struct metrics *metrics = source.metrics;
    const uint64_t elapsed = (uint64_t)clock_ns() - counter_get(&metrics->started_ns);
    char size[32];

    say(t, "a batch was in flight for %.3f of %.3f s",
            seconds_of(counter_get(&metrics->busy_ns)), seconds_of(elapsed));
    say(t, "steps: %llu", (unsigned long long)counter_get(&metrics->steps));
    for (int i = 0; i < METRICS_SETS; i++) {
        const struct metrics_set *set = &metrics->sets[i];
        const uint32_t id = atomic_load_explicit(&set->id, memory_order_relaxed);

        if (id != 0) {
            say(t, "process set %u: fusion buffers of at most %s", id - 1,
                    size_text(counter_get(&set->peak), size));
        }
    }
}

static void say_waits_of(const tutti *t, const struct report_waits *waits, int rank)
{
    say(t, "rank %d waited %.3f s for other ranks, its callers %.3f s", rank,
            seconds_of(waits[rank].others_ns), seconds_of(waits[rank].callers_ns));
}

/* The least wait that is above `floor`; UINT64_MAX: there is none. */
static uint64_t next_wait(
        const tutti *t, const struct report_waits *waits, uint64_t floor)
{
    uint64_t next = UINT64_MAX;

    for (int r = 0; r < t->size; r++) {
        next = waits[r].others_ns > floor && waits[r].others_ns < next
                ? waits[r].others_ns
                : next;
    }
    return next;
}

/* Ranks with this wait, at most so many. @return how many there were */
static int say_equals(
        const tutti *t, const struct report_waits *waits, uint64_t wait, int most)
{
    int told = 0;

    for (int r = 0; r < t->size && told < most; r++) {
        if (waits[r].others_ns == wait) {
            say_waits_of(t, waits, r);
            told++;
        }
    }
    return told;
}

/* Of many those that waited least, from the least on: they came last. */
static void say_waits(const tutti *t, const struct report_waits *waits)
{
    uint64_t wait = 0;
    int told = 0;

    for (int r = 0; r < t->size && t->size <= TELL_ALL; r++) {
        say_waits_of(t, waits, r);
    }
    while (t->size > TELL_ALL && told < TELL_SOME && wait != UINT64_MAX) {
        told += say_equals(t, waits, wait, TELL_SOME - told);
        wait = next_wait(t, waits, wait);
    }
    if (told > 0) {
        say(t, "the other %d ranks waited longer for others", t->size - told);
    }
}

struct report_waits report_waits(const tutti *t)
{
    return (struct report_waits){ .others_ns =
                                          counter_get(&t->observer.metrics->lead_ns),
        .callers_ns = counter_get(&t->observer.metrics->wait_ns) };
}

void report_log(const tutti *t)
{
    say_rows(t);
    say_rest(t);
}

void report_log_waits(const tutti *t, const struct report_waits *own,
        const struct report_waits *waits)
{
    if (waits != NULL) {
        say_waits(t, waits);
    } else {
        say(t, "this rank waited %.3f s for other ranks, its callers %.3f s",
                seconds_of(own->others_ns), seconds_of(own->callers_ns));
    }
}
