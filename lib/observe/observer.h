/*
 * What observes a rank: the flight recorder, a timeline, metrics, and a profiler that looks. The
 * engine tells it what happens by observe/observe.h.
 */
#ifndef TUTTI_OBSERVE_OBSERVER_H
#define TUTTI_OBSERVE_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "observe/metrics.h"
#include "observe/recorder.h"
#include "observe/timeline.h"
#include "ops/op.h"

/** Zeroed is valid once `metrics` is set. */
struct observer {
    struct recorder
            recorder; /* what this rank did last: any thread, as its header says */
    struct timeline timeline; /* as its header says                                 */
    struct metrics *metrics; /* in the recording, or `own`                         */
    struct metrics own;
    void *profiler; /* NULL: nobody looks; fixed                          */

    /* engine */
    int64_t busy_since_ns; /* a batch is in flight; 0: none is, or nobody counts */
    const struct recorder_mark
            *last; /* of the operations of a lot, the last; may be NULL */
    uint64_t taken; /* of the lot, so many                                */
};

/** Begins to observe. @return TUTTI_OK, TUTTI_ERR_CONFIG (timeline_steps) */
TUTTI_MUST_USE tutti_status observer_open(struct tutti *t, const struct op_link *link);
/** Ends it, when nobody submits, waits or drives any more. */
void observer_close(struct tutti *t);
/** What a backend is given to count and to measure with. */
void observer_attach(
        struct tutti *t, int backend, const char *name, struct op_env *env);

/** Finds a place for a name, as recorder_add_name(). Callers lock, here and below. */
void observer_name(struct observer *observer, struct observed_name *place,
        const char *name, uint32_t set, int collective);
/** As recorder_keep(). */
void observer_keep(
        struct observer *observer, const struct observed_name *place, bool keep);
/** The name goes. */
void observer_release(struct observer *observer, struct observed_name *place);

/** The metrics, with what is counted elsewhere. Any thread. */
struct metrics_source observer_metrics(const struct tutti *t);
/** Fills all but the size. Any thread. */
void observer_stats(const struct tutti *t, tutti_stats *stats);

#endif
