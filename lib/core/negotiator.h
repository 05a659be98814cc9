/*
 * The negotiator: agreement, within one process set, on which tensors are ready on all of
 * its ranks. A pure state machine: events in, actions out; no clock, no I/O, no locks.
 * The library, the simulator and the scale model run this same object file.
 *
 * How it works
 *
 *   Announcing. A rank that submits a tensor announces it to its parent in the set's tree
 *   (core/tree.h): by name and metadata the first times, by an agreed number once the
 *   coordinator has given it one. A node of the tree passes names on at once; a number it
 *   passes on when all its subtree has announced it (an AND over the tree).
 *
 *   Logging. When all members have announced a tensor, the coordinator (set rank 0)
 *   appends an entry to the set's log and sends it down the tree. All members apply the
 *   same entries in the same order. An entry says: ready; failed (with the reason); or
 *   forget these numbers. One message down is a turn: what was complete at one moment.
 *
 *   The invariant everything rests on: an entry about a tensor is only appended when every
 *   member has announced that tensor, or has joined or leaves and waits for the others to
 *   do so. So every rank an entry passes through has work in flight and is awake to read
 *   it, and a rank with nothing submitted owes nobody anything.
 *
 *   Numbers are never reused. When the coordinator retires one (FORGET), announcements of
 *   it that are under way are dropped wherever they meet a rank that knows, and every rank
 *   that had announced it announces again by name when it reads the entry.
 *
 *   Groups. A complete member waits at the coordinator for the others of its group, then
 *   all are logged together. When a member fails, the entry "group failed" ends what each
 *   rank has submitted as part of that group, announced or not; it obeys the invariant
 *   because everybody has announced the failed member. (A rank submits all of a group in
 *   one step: it reads no log in between.) What is still held or under way of the group
 *   is void: numbers because they are retired with it, names because they say how much of
 *   the log their sender had read.
 *
 *   Dissent. If any rank announces a numbered tensor by name (other metadata this time),
 *   the nodes above it stop waiting for their subtree and pass on who announced what
 *   ("split"), until the round is over. The coordinator then compares metadata and names
 *   the ranks on both sides.
 *
 *   Parting. A member that has joined (META_JOIN) submits nothing until all have; one
 *   that leaves (META_FINALIZE) nothing any more. The coordinator no longer waits for it:
 *   reductions go on without those that have joined, all else fails (parting.c). The
 *   entry says who is absent, and they read it too (absent.c).
 *
 *   Claims. What ranks say about each other's parts goes up with the name only, and is
 *   kept by the coordinator: a number stands for the claims made last (claims.h).
 *
 *   Plans. What is submitted again and again is planned, and then no longer announced:
 *   ranks contribute to one batch after the other, and fall back to the above when one
 *   cannot (plan.h).
 *
 *   Riding. Where ranks do not see each other's contributions, a batch of a plan is begun
 *   when this rank arrives, and its data say so to the others (plan_ride.c).
 *
 *   Stalls. A rank whose tensor has waited too long asks its parent whether that one has
 *   submitted it, and the coordinator asks everybody to pass on what is held (stall.c).
 *
 * Usage: feed events (submit, cancel, receive, mark, tick); then flush() once; then execute
 * actions and outcomes; then clear().
 */
#ifndef TUTTI_CORE_NEGOTIATOR_H
#define TUTTI_CORE_NEGOTIATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bitset.h"
#include "base/error.h"
#include "base/map.h"
#include "base/wire.h"
#include "core/claims.h"
#include "core/cost.h"
#include "core/layout.h"
#include "core/meta.h"
#include "core/plan.h"
#include "core/tree.h"

/** Where a negotiator found a name last, so that it need not look for it. Zeroed: nowhere. */
struct entry_memo {
    struct entry *entry;
    uint64_t freed; /* 1 + names that it had forgotten by then */
};

/** One submission of this rank. Everything is borrowed until its outcome. */
struct request {
    int collective; /* tutti_collective or meta_collective                     */
    const char *name; /* name_len bytes, not necessarily terminated              */
    size_t name_len;
    uint64_t hash; /* request_hash() of the two above                         */
    struct meta meta;
    void *cookie; /* handed back in the outcome; not NULL                    */
    struct entry_memo *memo; /* of this name with this negotiator; NULL: none   */
    int priority; /* of this rank; not agreed on                            */
};

uint64_t request_hash(int collective, const char *name, size_t name_len);

/**
 * A submission is decided; in the order of the log. Or a tensor is ready without this
 * rank, which has joined: then the cookie is NULL, and `meta` says what the others gave.
 */
struct outcome {
    void *cookie; /* of the request                                         */
    uint64_t turn; /* index in the log where its turn began, equal on all
                            members: tensors of one turn are planned together      */
    struct error *error; /* NULL: ready on all ranks; else owned by the negotiator */
    const struct bitset *absent; /* set ranks that have joined and do not take part;
                                         NULL: nobody; valid until clear()  */
    int collective;
    struct meta meta; /* where the cookie is NULL, owned; else zero             */
    int last; /* META_JOIN: the set rank that joined last; else -1      */
    uint32_t lane; /* 0: by the log. Else a plan's: tensors with the same lane and
                      turn are a batch, in this order                          */
    bool begun; /* that batch was begun (ACTION_BEGIN), as the one of `index`    */
    uint64_t index;
};

/** Outcomes are taken before anything is begun or walked: the order of a lane. */
enum action_kind {
    ACTION_SEND, /* send the bytes to member `to`                                  */
    ACTION_STALL, /* log the text (bytes, not terminated) as a warning              */
    ACTION_NOTE, /* log the text (likewise) for who wants to know                   */
    ACTION_MARK, /* show the members `word` and `detail` in a cell of the board      */
    ACTION_BEGIN, /* begin batch `word` of the plan of a lane: of the requests whose
                     cookies (void *) are the bytes                               */
    ACTION_WALK /* drop what was begun on a lane from batch `from` on, and walk `detail`
                   batches from `word` on                                         */
};

/** Something to do. The bytes are in `arena` of the negotiator. */
struct action {
    enum action_kind kind;
    int to; /* SEND: set rank                                               */
    size_t offset; /* of the bytes                                                 */
    size_t len;
    uint32_t cell; /* MARK                                                         */
    uint64_t word, detail; /* MARK, BEGIN, WALK                                    */
    uint32_t lane; /* BEGIN, WALK                                          */
    uint64_t from; /* WALK                                                 */
};

/** Parameters; equal on all members but for `rank` and the stall times. */
struct negotiator_config {
    int size;
    int rank;
    const int *node_of; /* [size]; borrowed during init                        */
    const int *world_ranks; /* [size] for messages; borrowed for life              */
    int fanout; /* of the tree                                         */
    int number_capacity; /* tensors with a number at once; 0: none              */
    int64_t stall_ns; /* 0: no stall reports                                 */
    int64_t stall_fail_ns; /* 0: a stall never fails the context                  */
    int lanes; /* of plans and the log; up to 1: no plans             */
    int window; /* batches of a plan that a rank may be ahead          */
    bool board; /* members see the marks of each other; else marks are
                   messages                                            */
    struct planner_limits limits; /* of batches of plans                          */
    struct cost cost; /* coordinator: of batches; see cost_init()                */
    bool priority; /* coordinator: layouts of plans look at priorities         */

    /*
     * True when all batches of a plan may be begun before all ranks have arrived; equal
     * on all members, for sets without a board. NULL: none may.
     */
    bool (*rides)(void *user, const struct plan *plan);
    void *user;
};

/** Ranks that gave the same metadata in a round; coordinator only. */
struct variant {
    struct meta meta; /* owned copy                                            */
    struct bitset ranks; /* set ranks                                             */
    struct variant *next;
};

/** Announcements by which a member parts: it submits nothing more to the set. */
enum parting_kind {
    PARTING_JOIN, /* until all members have joined                          */
    PARTING_FINALIZE, /* for good                                               */
    PARTING_COUNT
};

/** The members that have parted in one way. */
struct parting {
    struct bitset members; /* coordinator: they, until all have             */
    int count; /* of them                                       */
    int last; /* coordinator: the one that was heard last      */
    struct entry *own; /* this rank's announcement, until its outcome   */
    bool held; /* it waits until this rank has left all plans   */
    bool below; /* somebody of the subtree has parted            */
    uint64_t ended_at; /* length of the log when the last round ended   */
};

/** A set of members that outcomes refer to. */
struct absence {
    struct bitset members;
    struct absence *next;
};

/** One name at one rank: what is known about it, and its current round. */
struct entry {
    /* identity */
    uint64_t hash;
    int collective;
    char *name; /* owned, name_len bytes                                           */
    size_t name_len;

    /* knowledge that outlives a round */
    uint64_t number; /* agreed number; 0: none                                   */
    struct meta meta; /* that the number stands for; owned                        */
    uint64_t uses; /* rounds that ended well; coordinator only                 */
    uint64_t decided_at; /* length of the log when the last round ended; coordinator */
    bool retired; /* coordinator: the number is forgotten in this turn        */
    struct claim announced; /* what this rank claimed last                         */
    struct claim *claims; /* coordinator: [size] what each rank claimed last, or NULL */
    bool claims_match; /* coordinator: they were compared since they changed    */
    struct plan *plan; /* that it belongs to, or NULL; with a number            */
    uint32_t item, batch; /* its place in that                                     */
    uint32_t left_lane; /* coordinator: of a plan of it that others may still be in */
    uint32_t wave; /* tensors of a later one wait for some of an earlier    */
    uint64_t void_before; /* what was announced by who had read less is void   */
    uint64_t iteration; /* coordinator: in which it was launched last; 0: none   */
    uint64_t iteration_before; /* the one before                                  */
    uint64_t launched_turn; /* coordinator: the turn in which it was launched    */
    uint64_t launched_order; /* ... and how many were before it, ever             */
    int64_t ready_ns, seen_ns; /* coordinator: when all had announced it, and when
                          somebody first had, since the iteration began; averages */
    uint32_t timings; /* ... over so many iterations, up to 2                */
    int priority; /* coordinator: that this rank gave it last              */
    bool launched; /* coordinator: in the running iteration of its plan     */
    bool planning; /* coordinator: a PLAN entry of this turn covers it      */

    /* this round */
    bool pending; /* this rank submitted it and has no outcome yet    */
    bool by_number; /* it was announced so                              */
    bool planned; /* it was not announced: it is with its plan        */
    bool contributed; /* ... which has arrived at its batch               */
    bool cancel; /* it is to be cancelled                            */
    struct request local; /* valid while pending                              */
    bool split; /* pass everything on, wait for nobody; coordinator:
                                  everybody was asked to (probe)                   */
    struct bitset who; /* by number: children + self (inner), set ranks
                                  (coordinator); allocated at first use            */
    int arrived; /* members in `who`, at the coordinator             */
    int named; /* members in variants                              */
    struct variant *variants; /* coordinator only                                 */
    int cancelled_by; /* set rank that cancelled it, or -1; coordinator   */
    bool decided; /* coordinator: in the turn being built             */
    struct entry *group_next; /* coordinator: complete, waiting for its group     */
    int64_t since_ns; /* first announcement seen here; 0: round not begun */
    int64_t reported_ns; /* last stall report; 0: none                       */

    /* membership of `active` (in a round) or `idle` (not), and of `numbered` */
    struct entry *next, *prev;
    struct entry *newer, *older;
};

/** A group some of whose members are complete; coordinator only. */
struct group {
    uint64_t hash; /* meta.group                                            */
    uint32_t ready; /* members waiting for the others                        */
    struct entry *first; /* them, over group_next, in order of completion         */
    struct entry *last;
    struct group *next_spare;
};

/** A group that failed: what was announced of it before that is void. */
struct failed_group {
    uint64_t hash;
    uint64_t failed_at; /* length of the log then */
};

/** A list of entries, oldest first. */
struct entry_list {
    struct entry *first, *last;
    size_t count;
};

struct negotiator {
    struct negotiator_config config;
    struct tree tree;
    int64_t now_ns; /* time of the current events, set by the caller          */

    struct map names; /* (collective, name) -> entry; owns the entries          */
    uint64_t freed; /* entries that are gone                              */
    struct map numbers; /* number -> entry                                        */
    struct entry_list active; /* in a round                                      */
    struct entry_list idle; /* no number, not in a round; oldest is dropped    */
    struct entry_list numbered; /* coordinator: by last use                        */
    struct map groups; /* coordinator: hash -> incomplete group; owned    */
    struct group *spare_groups; /* for the next ones; owned                        */
    struct failed_group *failed_groups; /* coordinator: the last ones, a ring; owned */
    size_t failed_group_count; /* so far                                          */
    uint64_t next_number; /* coordinator                                     */
    size_t assigned_in_turn; /* coordinator: numbers in the turn being built    */
    uint64_t log_length; /* entries applied here                            */
    uint64_t turn; /* length when the last turn began                 */
    uint64_t turns; /* turns applied here                              */
    uint64_t appended; /* coordinator: entries in the log so far          */
    uint64_t forgotten_at; /* largest decided_at of dropped entries           */
    uint64_t group_failed_at; /* coordinator: length when the last group failed  */
    uint64_t retired_at; /* coordinator: length behind the last FORGET      */
    bool forgot; /* a number was retired in the turn being applied  */
    bool went_on; /* in that turn something was ready without somebody */

    struct plan_lane lanes[PLAN_LANES_MAX];
    int plans_on; /* not SLOW here                                    */
    bool marks_dirty; /* marks to be told, by messages                    */
    int64_t submitted_ns; /* last submission of this rank                     */
    bool waited; /* set by the caller: somebody waits or polls here  */
    uint64_t iterations; /* coordinator: of tensors of no plan, so far       */
    uint64_t launches; /* coordinator: of tensors, so far                  */
    int failures; /* coordinator: first epochs in a row that did not pay    */
    uint64_t passes; /* coordinator: iterations to pass over before the next
                        plan is made                                      */
    uint64_t timed_iteration; /* coordinator: that began at `began_ns`            */
    int64_t began_ns;
    struct cost_model cost; /* coordinator: of batches, for layouts             */
    struct layout layout; /* likewise                                         */
    struct layout_item *items; /* scratch of the coordinator; owned                */
    struct candidate *candidates; /* likewise; owned                               */
    size_t item_capacity, candidate_capacity;
    uint64_t planned; /* statistics: tensors that plans committed          */
    uint64_t planned_steps; /* iterations of plans, from first to last           */
    uint64_t slow_steps; /* ... that were negotiated, in whole or part       */
    uint64_t poisons; /* plans that were left                             */

    struct parting partings[PARTING_COUNT];
    struct bitset absent_logged; /* coordinator: the last in the turn being built */
    struct bitset scratch; /* coordinator: some members                   */
    const struct bitset *absent; /* from the entries being applied; NULL: nobody  */
    struct absence *absences; /* that outcomes refer to                      */
    struct absence *spare_absences; /* for the next ones                           */

    struct wire_writer up; /* announcements for the parent, being built         */
    struct wire_writer down; /* coordinator: the turn being built                 */
    struct wire_writer turn_read; /* coordinator: the turn being read             */
    uint64_t run_first, run_count; /* numbers not yet written to `up` or `down`    */
    uint8_t run_tag; /* protocol.h                                        */
    int run_rank;

    int64_t ticked_ns; /* last look for stalls; 0: none                     */
    int64_t pinged_ns; /* the parent was asked for a sign of life; 0: not   */

    struct action *actions; /* owned                                             */
    size_t action_count, action_capacity;
    struct wire_writer arena; /* bytes of the actions                              */
    struct outcome *outcomes; /* owned                                             */
    size_t outcome_count, outcome_capacity;

    int64_t *dims; /* scratch for decoding                              */
    size_t dims_capacity;

    uint64_t by_number_count; /* statistics: announcements of this rank            */
    uint64_t by_name_count;
    struct observer *observer; /* simulator only, else NULL; see observer.h        */
};

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

/** This rank submits a tensor; its previous submission of the name has its outcome. */
tutti_status negotiator_submit(
        struct negotiator *negotiator, const struct request *request);
/** This rank asks to withdraw a submission that has no outcome yet; a join stays. */
tutti_status negotiator_cancel(
        struct negotiator *negotiator, const struct request *request);
/** A message of another member arrived. */
tutti_status negotiator_receive(
        struct negotiator *negotiator, int from, const void *bytes, size_t len);
/** A word that a member shows on the board was read; see plan_awaits(). */
tutti_status negotiator_mark(struct negotiator *negotiator, uint32_t lane, int member,
        uint64_t word, uint64_t detail);
/** Coordinator: a batch of the log took so long, with no other one beside it. */
void negotiator_sample(struct negotiator *negotiator, size_t bytes, int64_t ns);
/**
 * A member's data of the first batch of a plan that rides and is not decided were heard:
 * it has arrived, or walks. Once for each member; see plan_listens().
 */
tutti_status negotiator_heard(
        struct negotiator *negotiator, uint32_t lane, int member, bool arrives);
/** Nothing of a plan that is DRAINING is under way; when all actions are executed. */
tutti_status negotiator_drained(struct negotiator *negotiator, uint32_t lane);
/** Looks at the clock; call when now_ns >= negotiator_next_tick(). */
tutti_status negotiator_tick(struct negotiator *negotiator);
/** When tick has something to do; INT64_MAX: never. */
int64_t negotiator_next_tick(const struct negotiator *negotiator);
/** Ends a step: closes the messages being built, and applies the coordinator's turn. */
tutti_status negotiator_flush(struct negotiator *negotiator);
/** True when flush() would produce something. */
bool negotiator_is_dirty(const struct negotiator *negotiator);
/** Forgets executed actions and outcomes; keeps their memory. */
void negotiator_clear(struct negotiator *negotiator);

/** Checks every invariant; for tests and debug builds. */
bool negotiator_is_valid(const struct negotiator *negotiator);

#endif
