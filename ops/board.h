/*
 * The board: words and log messages that ranks of a node show each other (docs/design/
 * negotiation.md). An interface like op.h: a backend whose ranks see each other's memory brings
 * it, and the core writes and reads it.
 *
 * For each process set a rank has words, which any member may read, and a ring of log messages,
 * which its children in the tree of the agreement read, each all of them and in order. All
 * functions are called by the thread that drives the engine of the rank; other ranks call theirs
 * at the same time. None blocks, and none wakes anybody.
 */
#ifndef TUTTI_OPS_BOARD_H
#define TUTTI_OPS_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/op.h"

/** Words of a rank in a set. */
#define BOARD_WORDS 62
/** Longest log message in the ring. */
#define BOARD_MESSAGE_BYTES 120

/** Zeroed: there is none. */
struct board {
    void *state; /* NULL: there is none; outlives it */

    /* True when a rank of the world and this one see each other's words. */
    bool (*sees)(const void *state, int world_rank);

    /*
     * Begins to show words of a set, all 0, and no log message. What this rank showed for a
     * former set of the same index is gone. Errors: TUTTI_ERR_NO_MEMORY, nothing changed.
     */
    tutti_status (*open)(void *state, const struct op_set *set);

    /* Shows a word. A rank that sees it sees all that this rank wrote before, anywhere. */
    void (*show)(void *state, const struct op_set *set, size_t index, uint64_t word);

    /*
     * Reads `count` words of a member, from the first.
     * @return false: it has not opened its board for this very set (by id)
     */
    bool (*shown)(const void *state, const struct op_set *set, int member,
            uint64_t *words, size_t count);

    /*
     * Adds message number `sequence` to the ring for some members.
     * @return false: it is too long, or one of them has yet to read what it would replace
     */
    bool (*write)(void *state, const struct op_set *set, const int *members,
            int member_count, uint64_t sequence, const void *bytes, size_t len);

    /*
     * Reads message number `sequence` of a member's ring; then it is replaced. This rank has
     * all before it, also those that were not in the ring.
     * @param bytes  [BOARD_MESSAGE_BYTES]
     * @return its length; 0: it is not there (yet)
     */
    size_t (*read)(void *state, const struct op_set *set, int member, uint64_t sequence,
            void *bytes);

    /*
     * Beside all that: a rank of the world shows that its application waits just now, over
     * and over, and reads how often the others have done so; it wraps around. Says nothing
     * about ranks whose words cannot be read.
     */
    void (*wait)(void *state, int rank);
    uint64_t (*waits)(const void *state, int rank);
};

#endif
