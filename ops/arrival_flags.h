/*
 * Words that the ranks of a set show each other: what each has contributed to the plans of
 * the set (docs/design/plan.md). An interface like op.h: a backend whose ranks see each
 * other's memory brings them, and the core writes and reads it.
 *
 * A rank writes its own cells of a set, and reads those of all members. A word has 63 bits
 * and goes with a detail of 64, about which the words say nothing. All functions are called
 * by the thread that drives the engine of the rank; other ranks call theirs at the same
 * time. None blocks, and none wakes anybody.
 */
#ifndef TUTTI_OPS_ARRIVAL_FLAGS_H
#define TUTTI_OPS_ARRIVAL_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/op.h"

/** Cells of a rank in a set: two for each lane, so that the last epoch stays readable. */
#define ARRIVAL_CELLS (2 * OP_LANES)

/** The largest word. */
#define ARRIVAL_WORD_MAX (UINT64_MAX >> 1)

/** Zeroed: there is none. */
struct arrival_flags {
    void *state; /* NULL: there is none; outlives them */

    /* True when the members of a set can see each other's words; equal on all of them. */
    bool (*covers)(const void *state, const struct op_set *set);

    /*
     * Begins to show words for a set that is covered, and clears this rank's. What it showed
     * for a former set of the same index is gone. Again for the same set: clears. Errors:
     * TUTTI_ERR_NO_MEMORY, with nothing changed.
     */
    tutti_status (*open)(void *state, const struct op_set *set);

    /*
     * Shows a word, at most ARRIVAL_WORD_MAX, and its detail in a cell of this rank, which
     * has opened its flags for the set. Sequentially consistent, so that of several members
     * that write and then read each other's cells at least one sees all; whoever reads the
     * word sees what this rank wrote before, anywhere.
     */
    void (*write)(void *state, const struct op_set *set, uint32_t cell, uint64_t word,
            uint64_t detail);

    /*
     * The word that a member shows, sequentially consistent; 0 before it has opened the
     * flags for this very set (by id) and written the cell. *detail is set to the one that
     * belongs to the word, 0 to a word of 0; detail may be NULL.
     */
    uint64_t (*read)(const void *state, const struct op_set *set, int member,
            uint32_t cell, uint64_t *detail);

    /*
     * Beside the words: a rank of the world shows that its application waits just now, over
     * and over, and reads how often the others have done so; it wraps around. Says nothing
     * about ranks whose words cannot be read.
     */
    void (*wait)(void *state, int rank);
    uint64_t (*waits)(const void *state, int rank);
};

/** True when there are flags and the members of a set see them. */
static inline bool arrival_flags_cover(
        const struct arrival_flags *flags, const struct op_set *set)
{
    return flags->state != NULL && flags->covers(flags->state, set);
}

#endif
