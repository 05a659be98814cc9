/*
 * Announcements, up the tree, and what inner nodes hold of them: announce.c, held.c.
 */
#ifndef TUTTI_AGREE_ANNOUNCE_H
#define TUTTI_AGREE_ANNOUNCE_H

#include "agree/names.h"

/** Announces this rank's submission, with its cancellation if it has one. */
tutti_status announce_pending(
        struct negotiator *negotiator, struct tensor_state *tensor);
tutti_status announce_own(struct negotiator *negotiator, struct tensor_state *tensor);
/** Asks the coordinator to cancel this rank's submission. */
tutti_status announce_cancel(
        struct negotiator *negotiator, const struct tensor_state *tensor);
tutti_status announce_receive(
        struct negotiator *negotiator, int from, struct wire_reader *in);

/** True for collectives whose names inner nodes may hold. */
bool name_is_holdable(int collective);
/** Writes an announcement by name. */
void name_pass(struct negotiator *negotiator, uint8_t tag, int rank,
        const struct name_ref *ref, const struct held_name *said);
/** True when something else than this is held. */
bool held_differs(const struct tensor_state *tensor, const struct meta *meta);
/** From now on a name is never held here; what is held of it goes on. */
void name_split(struct negotiator *negotiator, struct tensor_state *tensor);
/** A name of a child's subtree, or of the node itself (the last bit), arrived. */
tutti_status hold_name(struct negotiator *negotiator, struct tensor_state *tensor,
        int bit, const struct held_name *said);
/** An inner node stops holding back what was announced of this tensor. */
void announce_split(struct negotiator *negotiator, struct tensor_state *tensor);
/** A number of a child, or of the node itself (the last bit), arrived. */
tutti_status hold_number(
        struct negotiator *negotiator, struct tensor_state *tensor, int bit);
/** From now on nothing of what is in a round is held here; what is held goes on. */
void held_pass_all(struct negotiator *negotiator);
#endif
