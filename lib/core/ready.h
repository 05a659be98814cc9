/*
 * From the log to the dispatcher: what one turn of a set's log decided is failed,
 * completed at once (barriers, empty tensors, process sets) or planned into batches.
 * Engine only.
 */
#ifndef TUTTI_CORE_READY_H
#define TUTTI_CORE_READY_H

#include <tutti/tutti.h>

struct tutti;
struct process_set;
struct action;
struct plan;
struct work;
struct bitset;

/** A tensor of the turn that is being taken. */
struct ready_work {
    struct work *work; /* NULL: this rank has joined and only counts the batch   */
    const struct bitset *absent; /* members that have joined; NULL: none           */
};

/** Takes the outcomes of the set's negotiator. Errors fail the context. */
tutti_status ready_take(struct tutti *t, struct process_set *set);

/** Begins a batch of a plan that rides: of the works that are the cookies of an action. */
tutti_status ready_begin(
        struct tutti *t, struct process_set *set, const struct action *action);
/** negotiator_config.rides: a backend lets each batch of the plan ride. `user` is the set. */
bool ready_plan_rides(void *user, const struct plan *plan);

#endif
