/*
 * Messages of the negotiator. All within the body of a control message of one process
 * set; integers are varints unless said otherwise.
 *
 *   up     KIND_ANNOUNCE, log length that the sender had read, items until the end:
 *            ITEM_NUMBERS_SUBTREE  rank first count    all of rank's subtree announced
 *            ITEM_NUMBERS          rank first count    only `rank` announced
 *            ITEM_NAME             rank collective(u8) name meta log-length (meta with
 *                                  the rank's claims)
 *            ITEM_CANCEL           rank collective(u8) name log-length
 *            ITEM_READ             log-length          that the sender has read now
 *            ITEM_MARK             lane epoch count poison(u8; +128:
 *                                  somebody parts) item rank     of the subtree
 *   down   KIND_LOG, index of the first entry (u64), entries until the end:
 *            ENTRY_NUMBERS         first count         ready, one by one
 *            ENTRY_NAME            collective(u8) name meta number(0: none)    ready
 *                                  (meta without claims; META_JOIN: root joined last)
 *            ENTRY_FAILED          collective(u8) name status(signed) rank+1 text
 *            ENTRY_FORGET          first count
 *            ENTRY_GROUP_FAILED    group(u64) status(signed) rank+1 text
 *            ENTRY_ABSENT          count, set ranks: they have joined and take no part in
 *                                  what is ready from here to the next ENTRY_ABSENT or
 *                                  the end of the message; at its start nobody is absent
 *            ENTRY_PLAN            lane batch-count, for each batch: count, numbers; a
 *                                  count of batches of 0: the plan of the lane as it is
 *   down   KIND_MARKS, until the end: lane epoch count poison(u8) item rank    of all
 *   up     KIND_PING, hashes(u64) until the end: did you submit these, that have stalled?
 *   down   KIND_PONG, hashes(u64) until the end: I am awake, and did not submit these
 *          KIND_PROBE, numbers until the end: pass on whatever is held of these
 *
 * Numbers are append only; unknown ones are protocol errors.
 */
#ifndef TUTTI_CORE_PROTOCOL_H
#define TUTTI_CORE_PROTOCOL_H

enum protocol_kind {
    KIND_ANNOUNCE = 1,
    KIND_LOG = 2,
    KIND_PING = 3,
    KIND_PONG = 4,
    KIND_PROBE = 5,
    KIND_MARKS = 6
};

enum protocol_tag {
    ITEM_NUMBERS_SUBTREE = 1,
    ITEM_NUMBERS = 2,
    ITEM_NAME = 3,
    ITEM_CANCEL = 4,
    ITEM_READ = 5,
    ITEM_MARK = 6,
    ENTRY_NUMBERS = 16,
    ENTRY_NAME = 17,
    ENTRY_FAILED = 18,
    ENTRY_FORGET = 19,
    ENTRY_GROUP_FAILED = 20,
    ENTRY_ABSENT = 21,
    ENTRY_PLAN = 22
};

#endif
