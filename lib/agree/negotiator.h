/*
 * The negotiator: ranks agree, within one process set, on which tensors all of them have
 * submitted. A pure state machine: events in, actions and outcomes out; no clock, no I/O, and
 * no locks but one of its caller's around the table of names. The library, the simulator and the scale model run the same object file. How it
 * works, and what each file does: docs/design/negotiation.md; plans: docs/design/plan.md.
 *
 * In short: a rank announces a tensor to its parent in the set's tree (tree.h), by name at
 * first, then by a number that the coordinator (set rank 0) assigns. When all members have
 * announced it, the coordinator appends an entry to the set's log: ready, or failed. All
 * members apply the same entries in the same order. Tensors that repeat are planned and no
 * longer announced.
 *
 * The invariant: an entry about a tensor is appended only when every member has announced
 * that tensor, or has joined or is leaving and waits for the others to do the same. So every
 * rank that receives an entry has work in flight and is awake to read it. A rank with
 * nothing submitted has no duties.
 *
 *   up the tree     announce.c, held.c, leave.c     at the coordinator  tally.c, decide.c,
 *   down the tree   log_apply.c                                         log_append.c, groups.c
 *   plans           plan*.c                         joined, left        joined.c
 *   names, numbers  names.c, tensor_state.h         stall reports       stall.c
 *
 * Usage: feed events (submit, cancel, receive, arrival, tick); call flush() once; execute
 * the actions and outcomes; call clear().
 */
#ifndef TUTTI_AGREE_NEGOTIATOR_H
#define TUTTI_AGREE_NEGOTIATOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/cost.h"
#include "agree/layout.h"
#include "agree/outbox.h"
#include "agree/plan.h"
#include "agree/tensor_state.h"
#include "agree/tree.h"
#include "base/bitset.h"
#include "base/error.h"
#include "base/map.h"
#include "base/wire.h"

/** Whose operands, of which batch of an epoch. */
struct carried_key {
    uint32_t lane;
    uint64_t epoch, index;
    int member;
};

/** Parameters; equal on all members but for `rank` and the stall times. */
struct negotiator_config {
    int size;
    int rank;
    const struct tree_shape
            *shape; /* of the tree; borrowed during init, by member 0 for life */
    const int *world_ranks; /* [size] for messages; borrowed for life */
    int number_capacity; /* tensors with a number and no plan; 0: none */
    size_t row_count_bytes_max; /* coordinator: of row counts; beyond it names with row counts get
                               no numbers */
    int64_t stall_ns; /* 0: no stall reports */
    int64_t stall_fail_ns; /* 0: a stall never fails the context */
    int lanes; /* of plans and the log; up to 1: no plans */
    int window; /* batches of a plan that a rank may be ahead */
    bool arrival_flags; /* members see the arrivals of each other; else arrivals are
                   messages */
    bool direct; /* ... from each to each, not along the tree */
    struct planner_limits limits; /* of batches of plans */
    struct cost cost; /* coordinator: of batches; see cost_init() */
    bool priority; /* coordinator: layouts of plans look at priorities */

    /*
     * Operands that come with a direct arrival; NULL: none do. carry() writes their number
     * of bytes (a varint; 0: they do not) and the bytes. keep() gets those of others, before
     * or when this rank reads that the epoch begins; what does not commit is not wanted.
     */
    void (*carry)(void *user, const struct plan *plan, const struct plan_batch *batch,
            struct wire_writer *out);
    tutti_status (*keep)(void *user, const struct carried_key *key,
            const uint8_t *bytes, size_t len);
    void *user;

    /* With threads that share the names (names.h); zeroed: there are none. */
    pthread_mutex_t *lock;
    void (*forget)(
            void *user, void *theirs); /* a name goes, and threads.user; locked */
};

/** What a member contributed to an epoch that this rank has not read of. */
struct early_arrival {
    uint64_t epoch;
    struct arrival arrival;
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
    bool held; /* it waits until this rank has left all plans */
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
    struct map by_number; /* number -> tensor */
    struct tensor_list active; /* in a round */
    struct tensor_list idle; /* no number, not in a round; oldest is dropped */
    uint64_t freed; /* tensors that it knew and that are gone */

    /* coordinator */
    struct tensor_list numbered; /* by last use */
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

/** The plans of the set at this rank. */
struct plans {
    struct plan_lane lanes[PLAN_LANES_MAX];
    int on; /* not SLOW here */
    bool left; /* some plan is LEFT */
    struct early_arrival *early; /* [lane][member] direct; owned */
    bool arrivals_dirty; /* arrivals to be told, by messages */
    int64_t submitted_ns; /* last submission of this rank */
};

/** The coordinator: what it makes plans of. */
struct learner {
    uint64_t iterations; /* of tensors of no plan, so far */
    uint64_t launches; /* of tensors, so far */
    int failures; /* first epochs in a row that did not pay */
    uint64_t passes; /* iterations to pass over before the next plan is made */
    uint64_t timed_iteration; /* that began at `began_ns` */
    int64_t began_ns;
    struct cost_model cost; /* of batches, for layouts */
    struct layout layout;
    struct layout_item *items; /* scratch; owned */
    struct candidate *candidates; /* likewise */
    size_t item_capacity, candidate_capacity;
};

struct negotiator_stats {
    uint64_t by_number, by_name; /* announcements of this rank */
    uint64_t planned; /* tensors that plans committed */
    uint64_t planned_steps; /* iterations of plans, from first to last */
    uint64_t slow_steps; /* ... that were negotiated, in whole or part */
    uint64_t plan_exits; /* plans that were left ...    */
    uint64_t exits[PLAN_EXIT_COUNT]; /* ... by reason */
};

struct negotiator {
    struct negotiator_config config;
    struct tree tree;
    int64_t now_ns; /* time of the current events, set by the caller */
    bool waited; /* set by the caller: somebody waits or polls here */

    struct names names;
    struct group_table groups; /* coordinator */
    struct log_state log;
    struct joined joined;
    struct plans plans;
    struct learner learner; /* coordinator */
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
/** The arrival flag of a member was read; see plan_awaits(). */
tutti_status negotiator_arrival(struct negotiator *negotiator, uint32_t lane,
        int member, uint64_t word, uint64_t detail);
/** Coordinator: a batch of the log took so long, with no other one beside it. */
void negotiator_sample(struct negotiator *negotiator, size_t bytes, int64_t ns);
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
