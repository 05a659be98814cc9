/*
 * What goes into the negotiator and comes out: requests, outcomes, and actions; and the
 * messages that are being built.
 */
#ifndef TUTTI_AGREE_OUTBOX_H
#define TUTTI_AGREE_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/meta.h"
#include "base/bitset.h"
#include "base/error.h"
#include "base/wire.h"

struct negotiator;
struct tensor_state;

/** One submission of this rank. Everything is borrowed until its outcome. */
struct request {
    int collective; /* tutti_collective or meta_collective */
    int priority; /* of this rank; not agreed on */
    const char *name; /* name_len bytes, not necessarily terminated */
    size_t name_len;
    uint64_t hash; /* request_hash() of the two above */
    struct meta meta;
    void *cookie; /* handed back in the outcome; not NULL */
    struct tensor_state
            *tensor; /* of the name, held (names_hold()); NULL: it is looked up */
};

uint64_t request_hash(int collective, const char *name, size_t name_len);

/**
 * A submission is decided; in the order of the log. Or a tensor is ready without this
 * rank, which has joined: then the cookie is NULL, and `meta` says what the others gave.
 */
struct outcome {
    void *cookie; /* of the request */
    uint64_t log_message; /* index in the log where its message began, equal on all
                            members: tensors of one log message are planned together */
    struct error *error; /* NULL: ready on all ranks; else owned by the negotiator */
    const struct bitset *joined; /* set ranks that have joined and do not take part;
                                         NULL: nobody; valid until clear() */
    union {
        uint32_t meta; /* where the cookie is NULL: index of outcome_meta() */
        uint32_t operands; /* where there are some: where, in outbox.operands */
        int last; /* of a META_JOIN with a cookie: the set rank that joined last */
    };
    uint16_t operand_len; /* of each member; 0: there are none */
    uint8_t collective;
    bool mixed; /* ranks gave different spots */
};

enum action_kind {
    ACTION_SEND, /* send the bytes to member `to` */
    ACTION_STALL, /* log the text (bytes, not terminated) as a warning */
    ACTION_LOG, /* send the bytes, a log message, to the children of this node (tree.near) */
    ACTION_SHOW /* write `shown` to word `index` of the board */
};

/** Something to do. The bytes are in `arena` of the negotiator. */
struct action {
    enum action_kind kind;
    int to; /* SEND: set rank */
    size_t offset; /* of the bytes */
    size_t len;
    uint64_t sequence; /* LOG: number of the log message */
    size_t index; /* SHOW */
    uint64_t shown; /* SHOW */
};

/** Numbers in a row that are not yet written to `up` or `down`. */
struct number_run {
    uint64_t first, count;
    uint8_t tag; /* protocol.h */
    int rank;
};

/** What a step produces. */
struct outbox {
    struct wire_writer up; /* announcements for the parent, being built */
    struct wire_writer down; /* coordinator: the log message being built */
    struct wire_writer log_read; /* coordinator: the log message being read */
    struct number_run run;

    struct action *actions; /* owned */
    size_t action_count, action_capacity;
    struct wire_writer arena; /* bytes of the actions */
    struct outcome *outcomes; /* owned */
    size_t outcome_count, outcome_capacity;
    struct wire_writer operands; /* of outcomes */
    struct meta *metas; /* of outcomes without a cookie; owned */
    size_t meta_count, meta_capacity;
};

/** What the others gave, of an outcome without a cookie. */
static inline const struct meta *outcome_meta(
        const struct outbox *box, const struct outcome *outcome)
{
    return &box->metas[outcome->meta];
}

/** Begins an item of the announcements, or an entry of the coordinator's log message. */
struct wire_writer *record_open(struct negotiator *negotiator, uint8_t tag);
/** Writes the run of numbers that is being collected, if any. */
void run_close(struct negotiator *negotiator);
/** Adds a number to the message being built. rank is ignored for ENTRY_* tags. */
void run_put(struct negotiator *negotiator, uint8_t tag, int rank, uint64_t number);
/** Copies bytes into an action. */
tutti_status action_add(struct negotiator *negotiator, enum action_kind kind, int to,
        const void *bytes, size_t len);
/** Writes a word to the board. */
tutti_status action_show(struct negotiator *negotiator, size_t index, uint64_t shown);
/** Sends bytes to all children. */
tutti_status forward_down(struct negotiator *negotiator, const void *bytes, size_t len);
/** Adds an outcome for the pending request of a tensor: it is ready. NULL: no memory. */
TUTTI_MUST_USE struct outcome *outcome_add(
        struct negotiator *negotiator, const struct tensor_state *tensor);
/**
 * Makes room for the next message. What names and metadata took is given back: numbers, which
 * all later steps have, take less.
 */
void message_reset(struct wire_writer *message);
/** A log message goes to all children, at once: over the board to those of this node. */
tutti_status forward_log(struct negotiator *negotiator, const void *bytes, size_t len);
/** Forgets actions and outcomes. */
void outbox_clear(struct outbox *box);
void outbox_fini(struct outbox *box);
/** Adds an outcome for a tensor that is ready without this rank. */
tutti_status outcome_add_joined(
        struct negotiator *negotiator, int collective, const struct meta *meta);

#endif
