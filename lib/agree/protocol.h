/*
 * Messages of the negotiator. All within the body of a control message of one process
 * set; integers are varints unless said otherwise.
 *
 *   up     KIND_ANNOUNCE, items until the end:
 *            ITEM_NUMBERS_SUBTREE  rank first count    all of rank's subtree announced
 *            ITEM_NUMBERS          rank first count    only `rank` announced
 *            ITEM_NAME             rank collective(u8) name meta log-length (meta with
 *                                  the rank's row counts)
 *            ITEM_NAME_SUBTREE     the same, of all of rank's subtree; the least length
 *            ITEM_OPERAND          number operand      as ITEM_NUMBERS_SUBTREE of a sender that
 *                                  has no subtree, with what it gives to the reduction
 *            ITEM_CANCEL           rank collective(u8) name log-length
 *   down   KIND_LOG, index of the first entry (u64), entries until the end:
 *            ENTRY_NUMBERS         first count         ready, one by one, with the step
 *                                                      that is expected
 *            ENTRY_OPERANDS        number operands     as ENTRY_NUMBERS, with the operands of all
 *                                                      members, by rank
 *            ENTRY_STEP            number step+1 (0: none)     ready with another step
 *            ENTRY_MIXED           number              as ENTRY_NUMBERS; its spot is mixed
 *                                                      from now on
 *            ENTRY_NAME            collective(u8) name meta number(0: none)    ready
 *                                  (meta without row counts; META_JOIN: root joined last)
 *            ENTRY_FAILED          collective(u8) name status(signed) rank+1 text
 *            ENTRY_FORGET          first count
 *            ENTRY_GROUP_FAILED    group(u64) status(signed) rank+1 text
 *            ENTRY_JOINED          count, set ranks: they have joined and take no part in
 *                                  what is ready from here to the next ENTRY_JOINED or
 *                                  the end of the message; at its start nobody is left out
 *   down   KIND_WAITING: the coordinator waits; pass on what is held
 *
 * Numbers are append only; unknown ones are protocol errors.
 */
#ifndef TUTTI_AGREE_PROTOCOL_H
#define TUTTI_AGREE_PROTOCOL_H

#include "agree/negotiator.h"

enum protocol_kind {
    KIND_ANNOUNCE = 1,
    KIND_LOG = 2,
    KIND_WAITING = 8
};

enum protocol_tag {
    ITEM_NUMBERS_SUBTREE = 1,
    ITEM_NUMBERS = 2,
    ITEM_NAME = 3,
    ITEM_CANCEL = 4,
    ITEM_NAME_SUBTREE = 7,
    ITEM_OPERAND = 8,
    ENTRY_NUMBERS = 16,
    ENTRY_NAME = 17,
    ENTRY_FAILED = 18,
    ENTRY_FORGET = 19,
    ENTRY_GROUP_FAILED = 20,
    ENTRY_JOINED = 21,
    ENTRY_STEP = 23,
    ENTRY_OPERANDS = 24,
    ENTRY_MIXED = 25
};

/** A message of a member cannot be read; `what` it is about. */
static inline tutti_status malformed(
        const struct negotiator *negotiator, const char *what, int from)
{
    return error_set(TUTTI_ERR_PROTOCOL, "malformed %s from rank %d", what,
            world_rank(negotiator, from));
}

#endif
