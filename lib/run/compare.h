/*
 * Compares results that must be equal on all ranks of a set, by digests: what run/verify.h has
 * taken here, and what has come from the children of this rank in the tree of the set. So each
 * digest travels one link, and all results are equal when those on both ends of every link are.
 * Who is wrong is told by the majority of a rank and its children. Engine only.
 */
#ifndef TUTTI_RUN_COMPARE_H
#define TUTTI_RUN_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

struct batch;
struct process_set;
struct tutti;

/** Of a context; zeroed is valid. */
struct compare {
    struct compared
            *first; /* batches of which digests are to come, of this rank or of its
                               children; owned; over next */
};

/**
 * This rank, which has children, has its results of a batch.
 * @param digests  of each tensor of the batch, as in MESSAGE_DIGESTS
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY, or TUTTI_ERR_PROTOCOL: ranks have got different
 *         results, the text says which, of what
 */
tutti_status compare_own(
        struct tutti *t, const struct batch *batch, const void *digests);
/** MESSAGE_DIGESTS has come. Errors: as compare_own(). */
tutti_status compare_receive(struct tutti *t, int from, const void *bytes, size_t len);
/** Forgets what it keeps of a set that is removed; NULL: of all. */
void compare_forget(struct tutti *t, const struct process_set *set);

#endif
