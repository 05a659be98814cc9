/*
 * Printing of the table.
 */
#include "bench/core/columns.h"

#include <inttypes.h>

#include "bench/core/arguments.h"

/* The end of a line of the head: a piece for each comparison that is made. */
static void put_compared_head(FILE *out, int compare, const char *const texts[4])
{
    static const int kinds[4] = { BENCH_WITH_ANY_MPI, BENCH_WITH_LIMIT, BENCH_WITH_SLOW,
        BENCH_WITH_WAIT };

    for (int kind = 0; kind < 4; kind++) {
        (void)fputs((compare & kinds[kind]) != 0 ? texts[kind] : "", out);
    }
    (void)fputc('\n', out);
}

void bench_columns_head(FILE *out, int compare)
{
    static const char *const names[] = { "           raw MPI in-place          ",
        "             limit in-place          ", "        with --slow, in-place",
        "               waited for, in-place" };
    static const char *const fields[] = { "       time   ratio    (min..max)    ",
        "       time   ratio    (min..max)    ", "       time   ratio    (min..max)",
        "           time   ratio    (min..max)" };
    static const char *const units[] = { "       (us)  tutti / MPI             ",
        "       (us)  tutti / limit           ", "       (us)  tutti / slow",
        "                   (us)  tutti / wait" };

    (void)fprintf(out, "#\n#%54s%16s%34s", "", "out-of-place", "in-place");
    put_compared_head(out, compare, names);
    (void)fprintf(
            out, "# %11s %13s %9s %8s %5s", "size", "count", "type", "redop", "root");
    for (int side = 0; side < 2; side++) {
        (void)fprintf(out, " %10s %7s %7s %6s", "time", "algbw", "busbw", "#wrong");
    }
    put_compared_head(out, compare, fields);
    (void)fprintf(out, "# %11s %13s %9s %8s %5s", "(B)", "(elements)", "", "", "");
    for (int side = 0; side < 2; side++) {
        (void)fprintf(out, " %10s %7s %7s %6s", "(us)", "(GB/s)", "(GB/s)", "");
    }
    put_compared_head(out, compare, units);
}

static void put_cells(FILE *out, const struct bench_cells *cells)
{
    if (!cells->measured) {
        (void)fprintf(out, " %10s %7s %7s %6s", "-", "-", "-", "-");
        return;
    }
    (void)fprintf(out, " %10.*f %7.2f %7.2f", cells->time_us < 1e5 ? 2 : 0,
            cells->time_us, cells->algbw, cells->busbw);
    if (cells->wrong < 0) {
        (void)fprintf(out, " %6s", "N/A");
    } else {
        (void)fprintf(out, " %6" PRId64, cells->wrong);
    }
}

static void put_compared(FILE *out, const struct bench_compared *with)
{
    if (with->measured) {
        (void)fprintf(out, " %10.*f %7.2f    (%.2f..%.2f)", with->time_us < 1e5 ? 2 : 0,
                with->time_us, with->ratio, with->ratio_min, with->ratio_max);
    }
}

void bench_columns_row(FILE *out, const struct bench_row *row)
{
    (void)fprintf(out, "  %11" PRIu64 " %13" PRIu64 " %9s %8s %5d", row->bytes,
            row->count, row->type, row->redop, row->root);
    put_cells(out, &row->out_of_place);
    put_cells(out, &row->in_place);
    put_compared(out, &row->mpi);
    put_compared(out, &row->limit);
    put_compared(out, &row->slow);
    put_compared(out, &row->wait);
    (void)fprintf(out, "\n");
}

void bench_columns_osu_head(FILE *out, const char *collective)
{
    (void)fprintf(out, "# %s: latency test\n%-10s%18s%18s%18s%12s\n", collective,
            "# Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)",
            "Iterations");
}

void bench_columns_osu_row(FILE *out, uint64_t size, const struct bench_cells *cells)
{
    (void)fprintf(out, "%-10" PRIu64 "%18.2f%18.2f%18.2f%12" PRId64 "\n", size,
            cells->rank_mean, cells->rank_min, cells->rank_max, cells->iterations);
}

void bench_columns_foot(FILE *out, int64_t wrong, double busbw_mean)
{
    if (wrong < 0) {
        (void)fprintf(out, "# Out of bounds values : not checked\n");
    } else {
        (void)fprintf(out, "# Out of bounds values : %" PRId64 " %s\n", wrong,
                wrong == 0 ? "OK" : "FAILED");
    }
    (void)fprintf(out, "# Avg bus bandwidth    : %g\n#\n", busbw_mean);
}
