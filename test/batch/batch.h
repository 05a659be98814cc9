/*
 * Operations (operation.h) as batches for a backend: one member's memory, in which parts lie
 * between gaps that nobody may write, and what every byte of it must be when the batch is
 * final. Knows neither MPI nor a test framework.
 */
#ifndef TUTTI_TEST_BATCH_BATCH_H
#define TUTTI_TEST_BATCH_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/op.h"
#include "test/batch/operation.h"

enum {
    BATCH_RANKS_MAX = 64,
    BATCH_RUNS_MAX = 12
};

/** Memory that other members can address. */
struct batch_store {
    void *(*alloc)(void *user, size_t bytes);
    void (*free)(void *user, void *memory);
    void *user;
};

struct batch;

/** What is to be done; equal on all members but for set->rank and store. */
struct batch_order {
    const struct op_set *set; /* borrowed, as is the store */
    uint64_t sequence;
    /* Of all runs but for the count; rows are elements. FORM_UNKNOWN: the backend tells the sizes
       and has the output made. Scales of 0 are 1. Contents and sizes follow from the salt, or, if
       that is 0, from set and sequence. */
    struct operation operation;
    size_t run_count; /* 0: one run of operation.count */
    int64_t counts[BATCH_RUNS_MAX]; /* operation.count of each run */
    const struct batch_store *store; /* of some blocks; NULL: of none */
    /* What a run gives this member; NULL: operation_expect(). */
    void (*expect)(const struct batch *batch, size_t run, void *output);
};

/** A block of memory, all of whose bytes are known. */
struct batch_block {
    uint8_t *memory; /* owned */
    size_t bytes;
    const struct batch_store *store;
};

struct batch_run {
    struct operation operation;
    struct op_part sends[BATCH_RANKS_MAX];
    struct op_part recvs[BATCH_RANKS_MAX];
    struct batch_block input;
    struct batch_block output; /* of no bytes in place */
    bool is_in_place;
};

/** One member's batch. */
struct batch {
    struct op_batch op; /* first: place() finds the batch by it */
    struct batch_order order;
    struct op_run runs[BATCH_RUNS_MAX];
    struct batch_run *memory; /* [op.run_count] owned */
    size_t placed; /* calls of place() */
    size_t fail_place_at; /* the call that runs out of memory; 0: none */
    void *task; /* owned */
};

void batch_make(
        struct batch *batch, const struct batch_order *order, size_t task_bytes);
/** What is wrong with a finished one, with which test; NULL: nothing. Of the calling thread. */
const char *batch_error(const struct batch *batch);
/** Likewise, of one that has not begun to write. */
const char *batch_touched(const struct batch *batch);
/** The process set of the order, as operations have it. */
struct crew batch_crew(const struct batch *batch);
/** Overwrites the memory, which no other member may look at any more, and frees it. */
void batch_free(struct batch *batch);

/** Any order, without its set, from a well mixed number. */
struct batch_order batch_order_random(int size, uint64_t number);

#endif
