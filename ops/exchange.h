/*
 * What backends share about the collectives that move bytes from each rank to each
 * (op_is_exchange() in op.h).
 */
#ifndef TUTTI_OPS_EXCHANGE_H
#define TUTTI_OPS_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "ops/op.h"

/** True when a member may get something from another in such a batch. */
static inline bool exchange_flows(const struct op_batch *batch, int from, int to)
{
    if (batch->collective == TUTTI_GATHER) {
        return to == batch->root;
    }
    return batch->collective != TUTTI_SCATTER || from == batch->root;
}

/** True when this rank may get something at all, and so has place() called. */
static inline bool exchange_receives(const struct op_batch *batch)
{
    return batch->collective != TUTTI_GATHER || batch->set->rank == batch->root;
}

/** Lays out the outputs of all runs, whose recvs[].bytes are filled. */
static inline tutti_status exchange_place(const struct op_batch *batch)
{
    tutti_status status = TUTTI_OK;

    for (size_t run = 0; run < batch->run_count && status == TUTTI_OK; run++) {
        status = batch->place(batch, run);
    }
    return status;
}

/** The next byte to copy of what comes from one member. Zeroed: the first. */
struct exchange_cursor {
    size_t run;
    size_t offset; /* within the part */
};

/**
 * Bytes at the cursor, at most `most` and of one run; it skips what is finished.
 * @return 0 at the end
 */
static inline size_t exchange_piece(
        const struct op_batch *batch, int from, struct exchange_cursor *at, size_t most)
{
    while (at->run < batch->run_count &&
            at->offset == batch->runs[at->run].recvs[from].bytes) {
        at->run++;
        at->offset = 0;
    }
    if (at->run == batch->run_count) {
        return 0;
    }
    return size_min(most, batch->runs[at->run].recvs[from].bytes - at->offset);
}

/** Copies a piece from the part of the input that it comes from, unless it is there. */
static inline void exchange_copy(const struct op_batch *batch, int from,
        struct exchange_cursor *at, const void *part, size_t bytes)
{
    const struct op_run *run = &batch->runs[at->run];
    char *to = (char *)run->output + run->recvs[from].offset + at->offset;
    const char *source = (const char *)part + at->offset;

    if (to != source) {
        mem_copy(to, source, bytes);
    }
    at->offset += bytes;
}

/** Copies about `budget` bytes of this rank's own parts. @return true when all are. */
static inline bool exchange_copy_own(
        const struct op_batch *batch, struct exchange_cursor *at, size_t budget)
{
    const int me = batch->set->rank;
    size_t bytes = exchange_piece(batch, me, at, budget);

    while (bytes > 0) {
        const struct op_run *run = &batch->runs[at->run];

        exchange_copy(
                batch, me, at, (const char *)run->input + run->sends[me].offset, bytes);
        budget -= bytes;
        bytes = budget > 0 ? exchange_piece(batch, me, at, budget) : 0;
    }
    return exchange_piece(batch, me, at, 1) == 0;
}

#endif
