/*
 * From agreement to the dispatcher: what one message of a set's log decided fails, is
 * completed at once (barriers, empty tensors, process sets) or is put into batches.
 * Engine only.
 */
#ifndef TUTTI_RUN_OUTCOMES_H
#define TUTTI_RUN_OUTCOMES_H

#include <stddef.h>

#include <tutti/tutti.h>

#include "agree/planner.h"

struct batch;
struct process_set;
struct tutti;

/** Outcomes of one log message on their way to batches: scratch, owned by the engine. */
struct forming {
    struct planner_limits limits; /* fixed                                            */
    struct planner planner;
    struct batch **batches; /* as the planner numbers them                           */
    size_t count, capacity; /* of batches                                            */
};

/** Takes the outcomes of the set's negotiator. Errors fail the context. */
tutti_status outcomes_take(struct tutti *t, struct process_set *set);

/** Frees the scratch. */
void forming_fini(struct forming *forming);

#endif
