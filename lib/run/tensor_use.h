/*
 * What this rank's threads know of the names of a process set: which are in flight, and which
 * are registered. The table is the negotiator's (agree/names.h). All calls with the context's
 * lock held, which guards this.
 */
#ifndef TUTTI_RUN_TENSOR_USE_H
#define TUTTI_RUN_TENSOR_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "observe/name.h"
#include "run/submit.h"

struct operation;
struct process_set;
struct tensor_state;

/** A registered tensor. */
struct registration {
    struct operation *own; /* in flight or not: see run/persistent.h                  */
    struct submission all; /* what is the same each time                              */
    int64_t lists[]; /* of `all`: rows_of, recv_rows, dims                            */
};

/** A name that is, or was, in use: tensor_state.user. */
struct tensor_use {
    bool in_flight; /* with an operation of the pool                                  */
    struct registration *registration; /* owned; NULL: none                           */
    struct observed_name record; /* see tensor_use_record()                          */
};

/** Finds or adds a name, and holds it (names_hold()); NULL: no memory. */
struct tensor_state *tensor_use_hold(
        struct process_set *set, int collective, const char *name);
/** The name goes in flight with an operation of the pool; false when it is in flight. */
bool tensor_use_begin(struct tensor_use *use);
/** It no longer is, and is let go. */
void tensor_use_end(struct process_set *set, struct tensor_state *tensor);
/** Where it is recorded. Asked for at each use. */
struct observed_name tensor_use_record(
        const struct process_set *set, struct tensor_state *tensor);
/** For the negotiator of a set: its name goes. */
void tensor_use_forget(void *set, void *use);

#endif
