/*
 * The negotiator: ranks agree, within one process set, on which tensors all of them have
 * submitted. A pure state machine: events in, actions and outcomes out; no clock, no I/O, and
 * no locks but one of its caller's around the table of names. The library and the simulator run
 * the same object file. How it works, and what each file does: docs/design/negotiation.md.
 *
 * In short: a rank announces a tensor to its parent in the set's tree (tree.h), by name at
 * first, then by a number that the coordinator (set rank 0) assigns. When all members have
 * announced it, the coordinator appends an entry to the set's log: ready, or failed. All
 * members apply the same entries in the same order.
 *
 * The invariant: an entry about a tensor is appended only when every member has announced
 * that tensor, or has joined or is leaving and waits for the others to do the same. So every
 * rank that receives an entry has work in flight and is awake to read it. A rank with
 * nothing submitted has no duties.
 *
 *   up the tree     numbers.c, announce.c, held.c   at the coordinator  tally.c, decide.c,
 *   down the tree   log_apply.c                                         log_append.c, groups.c
 *   joined, left    joined.c
 *   names, numbers  names.c, tensor_state.h         stall reports       stall.c
 *
 * Usage: feed events (submit, cancel, receive, shown, tick); call flush() once; execute
 * the actions and outcomes; call clear().
 */
#ifndef TUTTI_AGREE_NEGOTIATOR_H
#define TUTTI_AGREE_NEGOTIATOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/bits.h"
#include "agree/outbox.h"
#include "agree/tensor_state.h"
#include "agree/tree.h"
#include "base/bitset.h"
#include "base/error.h"
#include "base/map.h"
#include "base/wire.h"

/**
 * Most bytes of the operands of all members: with them a message still fits one frame of
 * transport/fabric.c. Each further frame takes longer than an exchange behind the agreement.
 */
#define NEGOTIATOR_OPERAND_BYTES 3840

/** Parameters; equal on all members but for `rank` and the stall times. */
struct negotiator_config {
    int size;
    int rank;
    const struct tree_shape
            *shape; /* of the tree; borrowed during init, by member 0 for life */
    const int *world_ranks; /* [size] for messages; borrowed for life */
    int number_capacity; /* tensors with a number; 0: none */
    size_t row_count_bytes_max; /* coordinator: of row counts; beyond it names with row counts get
                               no numbers */
    int64_t stall_ns; /* 0: no stall reports */
    int64_t stall_fail_ns; /* 0: a stall never fails the context */
    bool board; /* ranks of a node see each other's words: negotiator_shown() */

    /*
     * Where all members are children of the coordinator, and none of its node: what this rank
     * gives to a small reduction, to travel with the announcement; 0: nothing. NULL: nothing ever
     * does. Operands of all members together take at most NEGOTIATOR_OPERAND_BYTES.
     */
    size_t (*operand)(void *user, const struct request *request, const void **bytes);
    /*
     * Executes the actions that there are, before the flush: a log message goes on before it is
     * applied here. NULL: they wait.
     */
    tutti_status (*act)(void *user);

    /* With threads that share the names (names.h); zeroed: there are none. */
    pthread_mutex_t *lock;
    void *user;
    void (*forget)(
            void *user, void *theirs); /* a name goes, and threads.user; locked */
};

/** Announcements by which a member leaves: it submits nothing more to the set. */
enum leave_kind {
    LEAVE_JOIN, /* until all members have joined */
    LEAVE_FINALIZE, /* for good */
    LEAVE_COUNT
};

/** The members that have joined or finalized in one way. */
struct leave {
    struct bitset members; /* coordinator: they, until all have */
    int count; /* of them */
    int last; /* coordinator: the one that was heard last */
    struct tensor_state *own; /* this rank's announcement, until its outcome */
    bool below; /* somebody of the subtree has joined or finalized */
    uint64_t ended_at; /* length of the log when the last round ended */
};

/** A set of members that outcomes refer to. */
struct joined_set {
    struct bitset members;
    struct joined_set *next;
};

/** A group some of whose members are complete; coordinator only. */
struct group {
    uint64_t hash; /* meta.group */
    uint32_t ready; /* members waiting for the others */
    struct tensor_state *first; /* them, over group_next, in order of completion */
    struct tensor_state *last;
    struct group *next_spare;
};

/** A group that failed: what was announced of it before that is void. */
struct failed_group {
    uint64_t hash;
    uint64_t failed_at; /* length of the log then */
};

/** Names and their numbers at this rank. */
struct names {
    struct map
            by_name; /* (collective, name) -> tensor; owns the tensors; config.lock */
    struct tensor_list active; /* in a round */
    struct tensor_list idle; /* no number, not in a round; oldest is dropped */
    uint64_t freed; /* tensors that it knew and that are gone */

    /* coordinator */
    struct tensor_list numbered; /* as they are looked at when one is to go */
    uint64_t next_number;
    size_t assigned_in_message; /* numbers in the log message being built */
    size_t row_count_bytes; /* that the row counts of all tensors take */
    uint64_t forgotten_at; /* largest decided_at of dropped tensors */
};

/** Groups at the coordinator. */
struct group_table {
    struct map waiting; /* hash -> incomplete group; owned */
    struct group *spare; /* for the next ones; owned */
    struct failed_group *failed; /* the last ones, a ring; owned */
    size_t failed_count; /* so far */
    uint64_t failed_at; /* length of the log when the last one failed */
};

/** How far the log has come. */
struct log_state {
    uint64_t length; /* entries applied here */
    uint64_t message; /* length when the last log message began */
    uint64_t messages; /* log messages applied here */
    bool forgot; /* a number was retired in the log message being applied */
    bool went_on; /* in that log message something was ready without somebody */
    uint64_t appended; /* coordinator: entries so far */
    uint64_t retired_at; /* coordinator: length behind the last FORGET */
};

/** Who submits nothing more. */
struct joined {
    struct leave ways[LEAVE_COUNT];
    const struct bitset *members; /* from the entries being applied; NULL: nobody */
    struct joined_set *sets; /* that outcomes refer to */
    struct joined_set *spare; /* for the next ones */
    struct bitset logged; /* coordinator: joined, as logged last in this log message */
    struct bitset scratch; /* coordinator: some members */
};

struct negotiator_stats {
    uint64_t by_number, by_name; /* announcements of this rank */
    uint64_t steps; /* uses of one number, the oldest of all */
};

struct negotiator {
    struct negotiator_config config;
    struct tree tree;
    int64_t now_ns; /* time of the current events, set by the caller */

    struct names names;
    struct group_table groups; /* coordinator */
    struct log_state log;
    struct joined joined;
    struct bits bits;
    struct outbox outbox;

    struct {
        int64_t ticked_ns; /* last look for stalls; 0: none */
        int64_t waiting_ns; /* coordinator: last said that it waits; its children: since
                               when they listen for that; 0: they do not */
    } stall;

    int64_t *dims; /* scratch for decoding */
    size_t dims_capacity;
    struct negotiator_stats stats;
};

static inline bool is_coordinator(const struct negotiator *negotiator)
{
    return negotiator->config.rank == 0;
}

/** World rank of a member, for messages. */
static inline int world_rank(const struct negotiator *negotiator, int member)
{
    return negotiator->config.world_ranks[member];
}

/**
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY. On error there is nothing to release.
 */
tutti_status negotiator_init(
        struct negotiator *negotiator, const struct negotiator_config *config);
void negotiator_fini(struct negotiator *negotiator);

/*
 * Events. Any error (TUTTI_ERR_NO_MEMORY, TUTTI_ERR_PROTOCOL; the thread's last error
 * says what) leaves the negotiator unusable: the context has failed.
 */

/**
 * This rank submits a tensor; its previous submission of the name has its outcome.
 * @param request  borrowed until the outcome
 */
tutti_status negotiator_submit(
        struct negotiator *negotiator, const struct request *request);
/** This rank asks to withdraw a submission that has no outcome yet; a join stays. */
tutti_status negotiator_cancel(
        struct negotiator *negotiator, const struct request *request);
/** A message of another member arrived. */
tutti_status negotiator_receive(
        struct negotiator *negotiator, int from, const void *bytes, size_t len);
/**
 * With a board: word `index` of a child of this node, below negotiator_words(), is not what
 * negotiator_seen() says. Words of a child are read before its messages are received, and
 * while anything is in a round here (names.active): a stall report names whom it has not heard.
 */
tutti_status negotiator_shown(
        struct negotiator *negotiator, int child, size_t index, uint64_t shown);
uint64_t negotiator_seen(const struct negotiator *negotiator, int child, size_t index);
/** Words of the board that are in use. */
size_t negotiator_words(const struct negotiator *negotiator);
/** Looks at the clock; call when now_ns >= negotiator_next_tick(). */
tutti_status negotiator_tick(struct negotiator *negotiator);
/** When tick has something to do; INT64_MAX: never. */
int64_t negotiator_next_tick(const struct negotiator *negotiator);
/** Ends a step: closes the messages being built, and applies the coordinator's log message. */
tutti_status negotiator_flush(struct negotiator *negotiator);
/** True when flush() would produce something. */
bool negotiator_is_dirty(const struct negotiator *negotiator);
/** Forgets executed actions and outcomes; keeps their memory. */
void negotiator_clear(struct negotiator *negotiator);

/** Checks every invariant; for tests and debug builds. */
bool negotiator_is_valid(const struct negotiator *negotiator);

#endif
