/*
 * Exchanges with known results for the tests of backends: batches of allgather, alltoall,
 * gather or scatter whose parts are of random sizes, many of them empty, and whose bytes
 * tell sender, receiver, run and place. Knows neither MPI nor a test framework.
 */
#ifndef TUTTI_TEST_TRADE_H
#define TUTTI_TEST_TRADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/op.h"

enum {
    TRADE_RANKS_MAX = 40,
    TRADE_RUNS_MAX = 12
};

/** Memory that other members can address. */
struct trade_store {
    void *(*alloc)(void *user, size_t bytes);
    void (*free)(void *user, void *memory);
    void *user;
};

/** What is to be moved; equal on all members but for set->rank and store. */
struct trade_order {
    const struct op_set *set;
    uint64_t sequence;
    uint32_t lane;
    tutti_collective collective;
    int root;
    size_t run_count;
    size_t most; /* bytes of the largest parts */
    bool sizes_known;
    bool in_place; /* the own part is where it belongs; only if sizes_known */
    const struct trade_store *store; /* of every second run; NULL: of none */
};

/** Memory of a run: parts between gaps that nobody may write. */
struct trade_run {
    struct op_part sends[TRADE_RANKS_MAX];
    struct op_part recvs[TRADE_RANKS_MAX];
    uint8_t *input; /* sends, and recvs if the sizes were known; owned */
    size_t input_bytes;
    uint8_t *output; /* recvs, when place() made it; owned */
    size_t output_bytes;
};

/** One member's batch. */
struct trade {
    struct op_batch batch; /* first: place() finds the trade by it */
    struct trade_order order;
    struct op_run runs[TRADE_RUNS_MAX];
    struct trade_run memory[TRADE_RUNS_MAX];
    size_t placed; /* calls of place() */
    size_t fail_place_at; /* the call that runs out of memory; 0: none */
    void *task; /* owned */
};

void trade_make(
        struct trade *trade, const struct trade_order *order, size_t task_bytes);
/** What is wrong with a finished one; NULL: nothing. */
const char *trade_error(const struct trade *trade);
void trade_free(struct trade *trade);

#endif
