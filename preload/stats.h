/*
 * What went through tutti and what through MPI: TUTTI_MPI_STATS.
 */
#ifndef TUTTI_PRELOAD_STATS_H
#define TUTTI_PRELOAD_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/preload.h"

/** Counts a collective of this rank. Any thread. */
void stats_add(enum preload_call call, bool by_tutti, size_t bytes, int64_t ns);
/** Writes a table of this rank to stderr. */
void stats_print(void);

#endif
