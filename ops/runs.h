/*
 * A walk over the runs of a batch as if their elements lay behind one another.
 */
#ifndef TUTTI_OPS_RUNS_H
#define TUTTI_OPS_RUNS_H

#include <stddef.h>

#include "base/mem.h"
#include "ops/op.h"

/** A range of the elements of a batch that is still to be visited. */
struct runs_cursor {
    size_t run; /* index of the run of the next element */
    size_t offset; /* of the next element within its run */
    size_t left; /* elements of the range, the next included */
};

/** The `count` elements from element `first` on. */
static inline struct runs_cursor runs_range(
        const struct op_batch *batch, size_t first, size_t count)
{
    struct runs_cursor cursor = { .run = 0, .offset = first, .left = count };

    while (cursor.left > 0 && cursor.offset >= batch->runs[cursor.run].count) {
        cursor.offset -= batch->runs[cursor.run].count;
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
    in_run = batch->runs[cursor->run].count - cursor->offset;
    return size_min(size_min(in_run, cursor->left), most);
}

/** Moves on by a piece, past the runs that are used up. */
static inline void runs_advance(
        struct runs_cursor *cursor, const struct op_batch *batch, size_t piece)
{
    cursor->offset += piece;
    cursor->left -= piece;
    while (cursor->left > 0 && cursor->offset == batch->runs[cursor->run].count) {
        cursor->offset = 0;
        cursor->run++;
    }
}

#endif
