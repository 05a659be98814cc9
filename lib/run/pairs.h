/*
 * Pairs: a sender and a receiver of messages. What goes from one rank to another is a process
 * set of two members, the sender first, which these two make by themselves when one of them
 * first sends or receives; how they agree and move data is what any set does
 * (docs/design/messages.md). Ranks that send no messages have none.
 */
#ifndef TUTTI_RUN_PAIRS_H
#define TUTTI_RUN_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

struct process_set;
struct tutti;

/** Ids from here on are of pairs; they follow from the two ranks. No call of the API takes them. */
#define PAIRS_FIRST_ID ((tutti_process_set)1 << 31)

/** Of a context; zeroed is valid. Guarded by its lock. */
struct pairs {
    struct process_set *
            *made; /* [2][world size] from this rank to each, then from each to this
                      rank; NULL: not made; owned, with those that are not in the table
                      of the sets */
    bool are_ending; /* the rank finalizes those that are there; others are finalized when they
                        are made */
};

/**
 * The pair of a sender and a receiver, of which this rank is one; it is made if necessary. Lock held.
 * Errors: TUTTI_ERR_NO_MEMORY, TUTTI_ERR_UNSUPPORTED (the world has more ranks than ids allow)
 */
tutti_status pairs_get(
        struct tutti *t, int sender, int receiver, struct process_set **set);
/** The pair of an id, or NULL: it was not made. Lock held. */
struct process_set *pairs_find(const struct tutti *t, tutti_process_set id);
/** Says that there is no memory for a pair. @return TUTTI_ERR_NO_MEMORY */
tutti_status pairs_no_memory(void);

#endif
