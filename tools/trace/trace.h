/*
 * tutti-trace: what it makes of the timelines of a job.
 */
#ifndef TUTTI_TOOLS_TRACE_TRACE_H
#define TUTTI_TOOLS_TRACE_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/recordings/account.h"

/** What of a trace is written as JSON. */
struct merge_choice {
    uint64_t first, last; /* steps, also in part; 0 and UINT64_MAX: all there is  */
    bool has_tensors; /* a row for each tensor                                   */
};

/**
 * Writes JSON in Chrome's Trace Event Format. `file` may be in error then.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status trace_merge(
        FILE *file, const struct trace *trace, const struct merge_choice *choice);
/** A file to write, compressed when its name ends in .gz; NULL: the error says why. */
FILE *trace_open_output(const char *path);

/** In words. */
void trace_summary(
        FILE *file, const struct trace *trace, const struct accounts *accounts);
/** As JSON. @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status trace_summary_json(
        FILE *file, const struct trace *trace, const struct accounts *accounts);
/** What takes longer or less long in b than in a. @return true when the steps do */
bool trace_diff(FILE *file, const struct accounts *a, const struct accounts *b);
/** A step as SVG. @return TUTTI_OK, TUTTI_ERR_INVALID (no rank has recorded it) */
TUTTI_MUST_USE tutti_status trace_draw_step(
        FILE *file, const struct trace *trace, uint64_t number);

#endif
