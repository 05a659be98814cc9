/*
 * Completion: the last step of an operation. Engine only.
 */
#ifndef TUTTI_RUN_COMPLETE_H
#define TUTTI_RUN_COMPLETE_H

#include "run/operation.h"

struct tutti;

/**
 * Ends operations (a list over next) whose status and error are set: frees their names, wakes
 * those who wait, runs callbacks with no lock held.
 */
void complete_list(struct tutti *t, struct operation *operations);

/** Lock held: an operation is over for the device's queues, and its name can be used again. */
void complete_release(struct tutti *t, struct operation *operation);
/** Lock held: ends operations that were issued; returns those with callbacks, for the next. */
struct operation *complete_publish(struct tutti *t, struct operation *operations);
/** Runs the callbacks of what that returned. No lock held. */
void complete_call_back(struct tutti *t, struct operation *operations);

/** One that has a graph_end is consumed: no stream will wait for that. Any thread. */
void complete_forget_graph(const struct tutti *t, struct operation *operation);

/** Ends one operation. */
void complete_one(struct tutti *t, struct operation *operation, tutti_status status,
        struct error *error);

/** Ends one operation with an error in words. */
void complete_failed(struct tutti *t, struct operation *operation, tutti_status status,
        const char *text);

/** Ends every operation that is not final, or of one set when that is not NULL. */
void complete_drain(struct tutti *t, const struct process_set *set,
        enum operation_state last, const struct error *error);

#endif
