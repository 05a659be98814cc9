/*
 * Announcements of numbers.
 *
 * Almost every announcement is of a number that all members announce in the same way. Of these
 * a node only notes who below it has announced them, a word of 64 at a time: `own` for itself
 * and `heard` for each child, when the child's whole subtree has. What is set in all of them
 * goes up to the parent, or, at the coordinator, into the log.
 *
 * Where anything about a number is unusual (a member announced the name with other metadata, or
 * cancelled it; somebody has joined; a stall is to be reported) the round is collected member by
 * member (tally.c, held.c): numbers_single() hands over what was noted, and until the round ends
 * what comes goes there.
 *
 * Within a node ranks show their parent the words in shared memory (the board): a bit is flipped
 * when the subtree has announced the number. All else are messages.
 */
#ifndef TUTTI_AGREE_NUMBERS_H
#define TUTTI_AGREE_NUMBERS_H

#include "agree/negotiator.h"

/** This rank announces a tensor by its number. */
tutti_status numbers_announce(
        struct negotiator *negotiator, struct tensor_state *tensor);
/**
 * A message of the child `from` says that `rank`, or all of its subtree (by tag, protocol.h),
 * has announced it.
 */
tutti_status numbers_receive(struct negotiator *negotiator, struct tensor_state *tensor,
        uint8_t tag, int rank, int from);
/** All of a child's subtree has announced numbers in a row. */
tutti_status numbers_receive_run(
        struct negotiator *negotiator, int child, uint64_t first, uint64_t count);
/** The same of a child that has no subtree, with its operand. */
tutti_status numbers_receive_operand(struct negotiator *negotiator,
        struct tensor_state *tensor, int from, const void *bytes, size_t len);
/** From here to the end of its round the tensor is collected member by member. */
tutti_status numbers_single(struct negotiator *negotiator, struct tensor_state *tensor);
/** All tensors that are not complete. */
tutti_status numbers_single_all(struct negotiator *negotiator);
/** Reports to the parent, or decides at the coordinator, what is complete. */
tutti_status numbers_flush(struct negotiator *negotiator);

#endif
