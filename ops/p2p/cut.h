/*
 * How the parts of several runs that go from one rank to another are cut into messages.
 *
 * Neighbouring small parts travel in one message, packed; a large part, or a small one
 * alone, goes from where it lies to where it belongs. Sender and receiver both compute
 * the cut, from the sizes alone: the n-th message of one is the n-th of the other.
 */
#ifndef TUTTI_OPS_P2P_CUT_H
#define TUTTI_OPS_P2P_CUT_H

#include <stddef.h>

#include "base/mem.h"
#include "ops/op.h"

/**
 * Largest packed message. Beyond it a message costs less than the two copies; measured
 * with two ranks, where 8 KiB make runs of 4 KiB 1.7 times slower.
 */
#define CUT_PACK_BYTES ((size_t)32 << 10)

enum cut_direction {
    CUT_SENDS, /* what this rank sends to the other */
    CUT_RECVS /* what it gets from it */
};

/** What is not yet cut of the parts of a peer. Zeroed: all. */
struct cut {
    size_t run;
    size_t offset; /* within the run's part */
};

/** A message. Zeroed: none. */
struct cut_piece {
    size_t run; /* the first */
    size_t runs; /* 1: a range of one part; more: all of several parts, packed */
    size_t offset; /* within the part of a single run */
    size_t bytes;
};

static inline struct op_part cut_part(const struct op_batch *batch,
        enum cut_direction direction, int peer, size_t run)
{
    return direction == CUT_SENDS ? batch->runs[run].sends[peer]
                                  : batch->runs[run].recvs[peer];
}

/** The next message, of at most `most` bytes (CUT_PACK_BYTES or more); none at the end. */
static inline struct cut_piece cut_next(struct cut *cut, const struct op_batch *batch,
        enum cut_direction direction, int peer, size_t most)
{
    struct cut_piece piece = { 0 };

    for (; cut->run < batch->run_count; cut->run++) {
        const size_t bytes = cut_part(batch, direction, peer, cut->run).bytes;

        if (piece.bytes == 0 && bytes > CUT_PACK_BYTES && cut->offset < bytes) {
            piece = (struct cut_piece){ .run = cut->run,
                .runs = 1,
                .offset = cut->offset,
                .bytes = size_min(bytes - cut->offset, most) };
            cut->offset += piece.bytes;
            return piece;
        }
        if (cut->offset > 0) {
            cut->offset = 0; /* all of this one is cut */
            continue;
        }
        if (piece.bytes + bytes > CUT_PACK_BYTES) {
            break;
        }
        if (bytes > 0) {
            piece.run = piece.bytes == 0 ? cut->run : piece.run;
            piece.runs = cut->run - piece.run + 1;
            piece.bytes += bytes;
        }
    }
    return piece;
}

#endif
