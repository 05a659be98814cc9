/*
 * Tuning of plans, on rank 0 of the world: measures steps, and keeps what was found in a
 * file for later runs. What is searched for, and how: agree/tuner.h, agree/plan_tune.h.
 */
#ifndef TUTTI_RUN_TUNE_H
#define TUTTI_RUN_TUNE_H

#include "agree/plan_tune.h"
#include "base/error.h"

struct batch;
struct context_spec;
struct tutti;

/** Zeroed is valid: nothing is tuned. Engine. */
struct tune {
    struct plan_tuner plan;
    char place[TUNING_PLACE_MAX]; /* what headings of the file begin with */
    struct tuning told; /* what was logged last */
};

/** What the negotiator of a set borrows; NULL: it has no settings to choose. */
struct plan_tuner *tune_of(struct tutti *t, bool is_world);
/**
 * Reads the file, and sets what may be tried; the backends are open.
 * @return TUTTI_OK, TUTTI_ERR_CONFIG (the file is damaged), TUTTI_ERR_SYSTEM,
 *         TUTTI_ERR_NO_MEMORY
 */
tutti_status tune_begin(struct tutti *t, const struct context_spec *spec);
/** The data of a batch of a plan have moved. */
tutti_status tune_finished(struct tutti *t, const struct batch *batch);
void tune_fini(struct tune *tune);

#endif
