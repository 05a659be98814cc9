/*
 * --top: how the ranks are doing, while they do. On a terminal a table below what they print,
 * which scrolls above it; elsewhere a line now and then.
 */
#ifndef TUTTI_LAUNCHER_JOB_TOP_H
#define TUTTI_LAUNCHER_JOB_TOP_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct link_metrics;
struct rank;

/** What a rank did between its last two words. */
struct top_rates {
    double steps, gb, waits,
            leads; /* per second; the last two are shares of the time */
};

/** Of all ranks together. */
struct top_summary {
    int running;
    double steps, gb, silence; /* of the slowest; of all; the longest            */
    int silent; /* whose that is; -1: none                                       */
    int last; /* for which the others wait: by far the least of the waits; -1: none */
};

/** Zeroed: nobody looks. */
struct top {
    int64_t next; /* when it is drawn, or said; our clock */
    int width; /* of the terminal */
    int height, rows; /* of the terminal; of the table, at its end; 0: there is none */
};

struct top_rates top_rates(const struct rank *rank);
/** Notes as well which ranks are silent, and which are stopped. */
struct top_summary top_summarize(struct job *job);

/** A supervisor has told what its rank has counted. */
void top_take(struct job *job, int rank, const struct link_metrics *metrics);
/** Draws when it is due. */
void top_step(struct job *job);
/** Gives the terminal back. */
void top_end(struct job *job);

#endif
