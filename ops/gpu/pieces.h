/*
 * The pieces of a stretch of memory: which bytes are given out. Pure bookkeeping, since the
 * memory itself is the device's. What is given out one after the other lies side by side.
 */
#ifndef TUTTI_OPS_GPU_PIECES_H
#define TUTTI_OPS_GPU_PIECES_H

#include <stdbool.h>
#include <stddef.h>

/** Pieces begin and end at such offsets. */
#define PIECE_ALIGNMENT ((size_t)256)

enum piece_state {
    PIECE_FREE,
    PIECE_USED,
    PIECE_PARTED, /* given back, but commands that are issued may use it       */
    PIECE_LEAVING /* likewise, and there are events that tell                   */
};

struct piece {
    size_t offset;
    size_t bytes;
    size_t asked; /* USED: so many were asked for; the rest belongs to nobody */
    enum piece_state state;
};

/** All of the stretch, by offset; two free pieces are never neighbours. */
struct pieces {
    struct piece *list; /* owned */
    size_t count, capacity;
};

/** One free piece. False: no memory. */
bool pieces_init(struct pieces *pieces, size_t bytes);
void pieces_fini(struct pieces *pieces);

/** Takes a piece at the lowest offset where there is room; false: nowhere, or no memory. */
bool pieces_take(struct pieces *pieces, size_t bytes, size_t *offset);
/** The piece that has this byte of the stretch. */
struct piece *pieces_at(const struct pieces *pieces, size_t offset);
/** Makes all pieces of a state those of another. */
void pieces_turn(struct pieces *pieces, enum piece_state from, enum piece_state to);

#endif
