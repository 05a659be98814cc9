/*
 * Members that submit nothing more, and who takes no part in what is ready: joined.c.
 */
#ifndef TUTTI_AGREE_JOINED_H
#define TUTTI_AGREE_JOINED_H

#include "agree/negotiator.h"

/** The leave that a collective announces, or NULL. */
static inline struct leave *leave_of(struct negotiator *negotiator, int collective)
{
    if (collective == META_JOIN) {
        return &negotiator->joined.ways[LEAVE_JOIN];
    }
    return collective == META_FINALIZE ? &negotiator->joined.ways[LEAVE_FINALIZE]
                                       : NULL;
}
/** Coordinator: true between a member's announcement and the end of the round. */
bool member_has_joined(const struct negotiator *negotiator, int member);
bool member_leaves(const struct negotiator *negotiator, int member);
/** True when somebody in this subtree has joined or finalized: no number may be held. */
static inline bool leaves_below(const struct negotiator *negotiator)
{
    return negotiator->joined.ways[LEAVE_JOIN].below ||
            negotiator->joined.ways[LEAVE_FINALIZE].below;
}
/** True when this rank has joined or finalized and has no outcome yet. */
bool leave_is_own(const struct negotiator *negotiator);
/**
 * Coordinator: collects in joined.scratch who has joined, or finalized, without announcing
 * the tensor.
 * @param left  member_has_joined() or member_leaves()
 * @return the first of them, or -1
 */
int joined_find(struct negotiator *negotiator, const struct tensor_state *tensor,
        bool (*left)(const struct negotiator *negotiator, int member));
/** An announcement reached the coordinator; *counts: it is the member's first. */
tutti_status leave_collect(struct negotiator *negotiator, struct leave *leave,
        int member, uint64_t seen, bool *counts);
/** The round is over. */
void leave_end(struct negotiator *negotiator, struct leave *leave);
void leaves_fini(struct negotiator *negotiator);
/** The coordinator's sets; false when out of memory. */
bool joined_init(struct negotiator *negotiator);
/** Coordinator: says in the log who has joined and takes no part in an entry that comes next. */
void joined_append(struct negotiator *negotiator, const struct tensor_state *tensor);
/** Reads that. */
tutti_status joined_apply(struct negotiator *negotiator, struct wire_reader *in);
/** True when this rank has joined and takes no part in the entries being applied. */
static inline bool is_joined(const struct negotiator *negotiator)
{
    return negotiator->joined.members != NULL &&
            bitset_has(negotiator->joined.members, negotiator->config.rank);
}
/** Outcomes refer to none any more. */
void joined_clear(struct negotiator *negotiator);
void joined_fini(struct negotiator *negotiator);

#endif
