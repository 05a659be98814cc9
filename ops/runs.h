/*
 * A walk over the runs of a batch as if their elements lay behind one another: all
 * elements, or for a REDUCESCATTER those of a member's parts.
 */
#ifndef TUTTI_OPS_RUNS_H
#define TUTTI_OPS_RUNS_H

#include <stddef.h>

#include "base/mem.h"
#include "ops/op.h"

/** A range of the elements of a batch that is still to be visited. */
struct runs_cursor {
    int member; /* whose parts, in a REDUCESCATTER */
    size_t run; /* index of the run of the next element */
    size_t offset; /* of the next element within its run, or part */
    size_t left; /* elements of the range, the next included */
};

/** The elements of a run that the walk visits. */
static inline size_t runs_length(const struct op_batch *batch, int member, size_t run)
{
    if (batch->collective == TUTTI_REDUCESCATTER) {
        return batch->runs[run].sends[member].bytes / tutti_dtype_size(batch->dtype);
    }
    return batch->runs[run].count;
}

/** Bytes in front of the first visited element of a run's input. */
static inline size_t runs_begin(const struct op_batch *batch, int member, size_t run)
{
    return batch->collective == TUTTI_REDUCESCATTER
            ? batch->runs[run].sends[member].offset
            : 0;
}

/** The visited elements of all runs. */
static inline size_t runs_total(const struct op_batch *batch, int member)
{
    size_t total = 0;

    for (size_t run = 0; run < batch->run_count; run++) {
        total += runs_length(batch, member, run);
    }
    return total;
}

/** The `count` elements from element `first` on. */
static inline struct runs_cursor runs_range(
        const struct op_batch *batch, int member, size_t first, size_t count)
{
    struct runs_cursor cursor = { .member = member, .offset = first, .left = count };

    while (cursor.left > 0 && cursor.offset >= runs_length(batch, member, cursor.run)) {
        cursor.offset -= runs_length(batch, member, cursor.run);
        cursor.run++;
    }
    return cursor;
}

/** Elements at the cursor that lie in one run, at most `most`; at least 1 if any left. */
static inline size_t runs_piece(
        const struct runs_cursor *cursor, const struct op_batch *batch, size_t most)
{
    size_t in_run;

    if (cursor->left == 0) {
        return 0;
    }
    in_run = runs_length(batch, cursor->member, cursor->run) - cursor->offset;
    return size_min(size_min(in_run, cursor->left), most);
}

/** Moves on by a piece, past the runs that are used up. */
static inline void runs_advance(
        struct runs_cursor *cursor, const struct op_batch *batch, size_t piece)
{
    cursor->offset += piece;
    cursor->left -= piece;
    while (cursor->left > 0 &&
            cursor->offset == runs_length(batch, cursor->member, cursor->run)) {
        cursor->offset = 0;
        cursor->run++;
    }
}

#endif
