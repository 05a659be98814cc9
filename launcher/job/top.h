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

/** Zeroed: nobody looks. */
struct top {
    int64_t next; /* when it is drawn, or said; our clock */
    int height, rows; /* of the terminal; of the table, at its end; 0: there is none */
};

/** A supervisor has told what its rank has counted. */
void top_hear(struct job *job, int rank, const struct link_metrics *metrics);
/** Draws when it is due. */
void top_step(struct job *job);
/** Gives the terminal back. */
void top_end(struct job *job);

#endif
