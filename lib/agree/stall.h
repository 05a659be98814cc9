/*
 * Stall reports: stall.c.
 */
#ifndef TUTTI_AGREE_STALL_H
#define TUTTI_AGREE_STALL_H

#include "agree/negotiator.h"

/** The text of a stall report, built piece by piece; what does not fit is cut. */
struct stall_report {
    char text[4096];
    size_t len;
    int names; /* in the list of tensors that is being written */
};

/** "stalled for 2 s: " */
void stall_report_begin(const struct negotiator *negotiator, int64_t since_ns,
        struct stall_report *report);
void stall_report_add(struct stall_report *report, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/** Adds a tensor to a list, of which only the first few are named. */
void stall_report_name(struct stall_report *report, const struct tensor_state *tensor);
/** " and 3 more", if there are; returns how many are in the list. */
int stall_report_end_names(struct stall_report *report);

/** Fails with TUTTI_ERR_TIMEOUT when a submission has waited for stall_fail_ns. */
tutti_status stalls_fail(struct negotiator *negotiator);
/** Reports what is stalled; the coordinator says that it waits. */
tutti_status stalls_report(struct negotiator *negotiator);
/** The parent says that the coordinator waits. */
tutti_status stalls_receive(struct negotiator *negotiator);

#endif
