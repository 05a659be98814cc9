/*
 * Two timelines compared, part by part.
 *
 * Steps that follow one another are alike, so the error of a mean is taken from the means of up to ten
 * blocks of steps. A part has changed when the means differ by more than three errors, and by a
 * hundredth of the step.
 */
#include <math.h>

#include "tools/trace/trace.h"

enum {
    BLOCKS = 10,
    ERRORS = 3,
    NAME_WIDTH = 10
};

#define MS 1e6
#define SHARE_MIN 0.01

/* A mean, and how far off it may be. */
struct estimate {
    double mean, error;
};

/* The part of a step; PARTS: all of it. */
static double value_of(const struct account *account, int part)
{
    return part == PARTS ? account->total : account->parts[part];
}

static double mean_of(
        const struct accounts *accounts, int part, size_t begin, size_t end)
{
    double sum = 0;

    for (size_t s = begin; s < end; s++) {
        sum += value_of(&accounts->steps[s], part);
    }
    return end > begin ? sum / (double)(end - begin) : 0;
}

static struct estimate estimate(const struct accounts *accounts, int part)
{
    const size_t blocks = accounts->count < BLOCKS ? accounts->count : BLOCKS;
    struct estimate result = { .mean = mean_of(accounts, part, 0, accounts->count),
        .error = INFINITY };
    double squares = 0;

    for (size_t b = 0; b < blocks; b++) {
        const double off = mean_of(accounts, part, b * accounts->count / blocks,
                                   (b + 1) * accounts->count / blocks) -
                result.mean;

        squares += off * off;
    }
    if (blocks >= 2) {
        result.error = sqrt(squares / (double)(blocks - 1) / (double)blocks);
    }
    return result;
}

bool trace_diff(FILE *file, const struct accounts *a, const struct accounts *b)
{
    bool has_changed = false;

    (void)fprintf(file,
            "%zu steps against %zu, means of the ranks, ms\n\n%-*s %18s %18s "
            "%10s\n",
            a->count, b->count, NAME_WIDTH, "", "a", "b", "b - a");
    for (int part = 0; part <= PARTS; part++) {
        const struct estimate x = estimate(a, part);
        const struct estimate y = estimate(b, part);
        const double change = y.mean - x.mean;
        const bool counts = fabs(change) > ERRORS * hypot(x.error, y.error) &&
                fabs(change) > SHARE_MIN * a->mean.total;

        (void)fprintf(file, "%-*s %10.3f ± %5.3f %10.3f ± %5.3f %+10.3f  %s\n",
                NAME_WIDTH, part == PARTS ? "total" : part_name((enum part)part),
                x.mean / MS, x.error / MS, y.mean / MS, y.error / MS, change / MS,
                !counts              ? "no change"
                        : change > 0 ? "slower"
                                     : "faster");
        has_changed = has_changed || (part == PARTS && counts);
    }
    if (a->count < 2 || b->count < 2) {
        (void)fprintf(file, "\nOne step says nothing about noise: record more.\n");
    }
    return has_changed;
}
