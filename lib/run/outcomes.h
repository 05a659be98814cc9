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
struct bitset;
struct process_set;
struct tutti;
struct operation;

/** A tensor of the log message that is being taken. */
struct ready_operation {
    struct operation
            *operation; /* NULL: this rank has joined and only counts the batch   */
    const struct bitset *absent; /* members that have joined; NULL: none           */
};

/** Outcomes of one log message on their way to batches: scratch, owned by the engine. */
struct forming {
    struct planner_limits limits; /* fixed                                            */
    struct planner planner;
    struct planner_item *items;
    struct ready_operation
            *ready; /* the operations of `items`                                 */
    size_t count; /* of items and ready                                              */
    struct batch **batches;
    size_t item_capacity, ready_capacity, batch_capacity;
};

/** Takes the outcomes of the set's negotiator. Errors fail the context. */
tutti_status outcomes_take(struct tutti *t, struct process_set *set);

/** Frees the scratch. */
void forming_fini(struct forming *forming);

#endif
