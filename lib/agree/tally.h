/*
 * What the coordinator collects and decides: tally.c, decide.c.
 */
#ifndef TUTTI_AGREE_TALLY_H
#define TUTTI_AGREE_TALLY_H

#include "agree/names.h"

tutti_status coordinator_number(struct negotiator *negotiator,
        struct tensor_state *tensor, uint8_t tag, int rank);
/** @param[out] collected  the tensor, whose round may be complete now; NULL: it is void */
tutti_status coordinator_name(struct negotiator *negotiator, const struct name_ref *ref,
        int rank, const struct meta *meta, uint64_t seen,
        struct tensor_state **collected);
/** All members at and below `top` gave the same, which may be held (name_is_holdable()). */
tutti_status coordinator_name_below(struct negotiator *negotiator,
        const struct name_ref *ref, int top, const struct meta *meta, uint64_t seen,
        struct tensor_state **collected);
tutti_status coordinator_cancel(struct negotiator *negotiator,
        const struct name_ref *ref, int rank, uint64_t log_length);

/** Decides a round if all members have announced the tensor, or have joined or finalized. */
tutti_status decide_if_complete(
        struct negotiator *negotiator, struct tensor_state *tensor);
/** A member has joined or finalized: decides what waited for it alone. */
tutti_status decide_what_waits(struct negotiator *negotiator);

#endif
