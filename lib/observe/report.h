/*
 * The report at the end of a context, where the parameter asks for one.
 */
#ifndef TUTTI_OBSERVE_REPORT_H
#define TUTTI_OBSERVE_REPORT_H

#include <stdint.h>

#include <tutti/tutti.h>

/** How long a rank has waited. */
struct report_waits {
    uint64_t
            others_ns; /* it had all of a batch, and waited for other ranks           */
    uint64_t
            callers_ns; /* its threads in calls that wait                              */
};

/** Those of this rank. */
struct report_waits report_waits(const tutti *t);
/** Logs what this rank has done. */
void report_log(const tutti *t);
/** Logs how long each rank has waited; NULL: this one alone is known. */
void report_log_waits(const tutti *t, const struct report_waits *own,
        const struct report_waits *waits);

#endif
