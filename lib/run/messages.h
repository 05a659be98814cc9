/*
 * Control messages between the ranks of a running context. Engine only.
 */
#ifndef TUTTI_RUN_MESSAGES_H
#define TUTTI_RUN_MESSAGES_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "base/wire.h"

struct process_set;
struct tutti;

/** First byte of every message; the last eight are the digest of what is before them. */
enum message_kind {
    MESSAGE_SET =
            1, /* varint set id, then a message of its negotiator; of a pair maybe none */
    MESSAGE_ABORT = 2, /* varint rank + 1, text: the job has failed                   */
    MESSAGE_ORDER = 3, /* tickets: device/tickets.h                                   */
    MESSAGE_ASK = 4 /* for tickets: device/tickets.h                                  */
};

/** Of a context; zeroed is valid. */
struct messages {
    struct wire_writer out; /* the message that is written                            */
    struct early_message
            *early; /* for sets that are yet to be created; oldest first; owned */
    tutti_status delivery; /* of the messages of the current poll                     */
};

/** A new message, to be written to, with its kind. */
struct wire_writer *messages_begin(struct tutti *t, enum message_kind kind);
/** Sends what was written since. Errors: TUTTI_ERR_NO_MEMORY, those of the transport. */
tutti_status messages_send(struct tutti *t, int to);
/** Takes what has come to where it belongs. Sets *moved when anything has. Errors fail the context. */
tutti_status messages_poll(struct tutti *t, bool *moved);
/** The same for messages that came early, of sets that are here now. */
tutti_status messages_replay(struct tutti *t);
/**
 * Gives what members of this node show of a set, and is new, to its negotiator: the set is dirty
 * then. Nothing without a board. Errors fail the context.
 */
tutti_status messages_read_board(struct tutti *t, struct process_set *set);
void messages_fini(struct tutti *t);

/** Wakes another rank, where it may sleep; `user` is the context. */
void messages_wake(void *user, int rank);

#endif
