/*
 * What is known of one tensor: a name, with what travels under it, at one rank.
 */
#ifndef TUTTI_AGREE_TENSOR_STATE_H
#define TUTTI_AGREE_TENSOR_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/meta.h"
#include "agree/outbox.h"
#include "agree/row_counts.h"
#include "agree/steps.h"
#include "base/bitset.h"

/** Ranks that gave the same metadata in a round; coordinator only. */
struct variant {
    struct meta meta; /* owned copy */
    struct bitset ranks; /* set ranks */
    uint64_t seen; /* the least that one of them had read of the log */
    struct variant *next;
};

/** What ranks of a subtree gave by name, all the same. */
struct held_name {
    struct meta meta; /* owned copy */
    uint64_t seen; /* the least that one of them had read of the log */
};

/** Membership of a list. */
struct tensor_links {
    struct tensor_state *next, *prev;
};

/** What members give to a reduction, as it came with their announcements. */
struct operands {
    size_t len; /* of each */
    int count; /* of this round */
    uint8_t bytes[]; /* [members][len] */
};

/** One name at the coordinator: what it knows of it, and has collected in the round. */
struct tally {
    /* knowledge that outlives a round */
    uint64_t uses; /* rounds that ended well */
    uint64_t decided_at; /* length of the log when the last round ended */
    struct row_counts **row_counts; /* [size] what each gave last, or NULL; owned */
    struct operands *operands; /* of its number, or NULL; owned */
    struct tensor_links in_numbered;
    bool row_counts_match; /* they were compared since they changed */
    bool retired; /* the number is forgotten in this log message */

    /* this round */
    bool decided; /* in the log message being built */
    bool moved; /* some gave another spot than the number stands for */
    int arrived; /* members in `who` */
    int named; /* members in variants */
    int cancelled_by; /* set rank that cancelled it, or -1 */
    struct variant *variants; /* owned */
    struct tensor_state *group_next; /* complete, waiting for its group */
};

/** What has come of a round member by member. */
struct parts {
    struct bitset who; /* children + self (inner); by number: set ranks (coordinator) */
    struct held_name *held; /* inner: `who` announced it by name; owned; else NULL */
};

/** The current round of a tensor. */
struct round {
    int64_t since_ns; /* first announcement seen here; 0: round not begun */
    const struct request *local; /* of this rank, while pending; borrowed */
    struct parts *parts; /* from its first use on, until a number is given; owned */
    uint16_t reported; /* its age at the last stall report: stall_age(); 0: none */
    bool pending; /* this rank submitted it and has no outcome yet */
    bool by_number; /* it was announced so */
    bool cancel; /* it is to be cancelled */
    bool split; /* inner: pass everything on, wait for nobody */
    bool collected; /* member by member: `parts` or something of the tally is set */
};

/**
 * One name at one rank: what is known about it, and its current round. A rank has as many as its
 * job has tensors, so what few of them have lies elsewhere.
 */
struct tensor_state {
    /* identity */
    uint64_t hash;
    uint16_t name_len;
    uint8_t collective;

    /* what this rank's threads have of it: under the lock of the names */
    bool met; /* the negotiator has it on its lists */
    uint32_t holds; /* with any it is not forgotten: see names_hold() */
    void *user; /* theirs; given to config.forget() */

    /* knowledge that outlives a round */
    uint64_t number; /* agreed number; 0: none */
    struct meta meta; /* that the number stands for; owned */
    struct steps steps; /* of all uses of the number, equal on all members */
    struct row_counts *announced; /* what this rank gave last, or NULL; owned;
                               without a number it is forgotten when the round ends */

    struct round round;
    struct tally *tally; /* coordinator: in front of this; else NULL */
    struct tensor_links links; /* in `active` (in a round) or `idle` (not) */
    bool passes; /* what is announced by name is never held here */
    char name[]; /* name_len bytes and a zero */
};

/** A list of tensors, oldest first. */
struct tensor_list {
    struct tensor_state *first, *last;
    size_t count;
    bool of_numbers; /* of the coordinator */
};

#endif
