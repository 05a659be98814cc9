/*
 * The text of a stall report, built piece by piece; what does not fit is cut. Internal to
 * lib/agree/stall.c and plan_stall.c.
 */
#ifndef TUTTI_AGREE_STALL_REPORT_H
#define TUTTI_AGREE_STALL_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "agree/negotiator.h"

/** Tensors that a list names. */
#define STALL_NAMES_MAX 5

/** Zeroed is an empty one. */
struct stall_report {
    char text[4096];
    size_t len;
};

void stall_report_add(struct stall_report *report, const char *text);
/** "stalled for 2 s: " */
void stall_report_begin(struct stall_report *report, int64_t stalled_ns);
/** A tensor in a list, at a position counted from 0; not beyond STALL_NAMES_MAX. */
void stall_report_name(
        struct stall_report *report, const struct tensor_state *tensor, int position);
/** " and 3 more", behind a list of so many. */
void stall_report_more(struct stall_report *report, int count, int named_max);

#endif
