/*
 * Settings of plans at the coordinator of a set: those that were found in an earlier run, or
 * those that the search (agree/tuner.h) wants tried. They go out with the PLAN entry, so all
 * ranks have them for the same batches. To change them the coordinator leaves the plan;
 * after an iteration that is negotiated it is entered with others. Pure.
 *
 * One plan is searched for, that with the most bytes.
 */
#ifndef TUTTI_AGREE_PLAN_TUNE_H
#define TUTTI_AGREE_PLAN_TUNE_H

#include "agree/tuner.h"

struct plan_tuner {
    struct tuner tuner; /* its knobs, and tuner.block: set by the caller */
    int steps; /* of all searches together; 0: none. Set by the caller */
    struct tuning_record
            *records; /* of earlier runs; set by the caller, and owned by it */
    size_t record_count;

    uint32_t lane; /* of the plan that is tuned; 0: none yet */
    struct workload workload; /* of that plan */
};

#endif
