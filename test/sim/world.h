/*
 * The simulated world: virtual ranks with one negotiator per process set they are in, the
 * network between them, and what the oracle knows about all of it.
 *
 * A rank with nothing in flight in any of its sets sleeps: nothing is delivered to it,
 * until it submits again.
 */
#ifndef TUTTI_SIM_WORLD_H
#define TUTTI_SIM_WORLD_H

#include "agree/negotiator.h"
#include "agree/planner.h"
#include "network.h"
#include "rng.h"
#include "scenario.h"

/** What was found wrong. */
enum check {
    CHECK_NONE,
    CHECK_STATUS, /* an event returned an unexpected error                     */
    CHECK_VALID, /* negotiator_is_valid() says no                             */
    CHECK_LOG, /* members have different logs                               */
    CHECK_AGREEMENT, /* ready, although a member gave something else or nothing   */
    CHECK_VERDICT, /* a submission ended as it must not, or ended twice         */
    CHECK_ABSENT, /* the wrong members are absent, or were last                 */
    CHECK_GROUP, /* a group was torn apart                                    */
    CHECK_BATCHES, /* members plan different batches, or beyond the limits      */
    CHECK_TEXT, /* an error does not name the ranks and values               */
    CHECK_DEADLOCK, /* nothing moves, and work is left that should have ended    */
    CHECK_STALL, /* a stall report is wrong or missing                        */
    CHECK_BOUNDS, /* tables are not as small as they should be                 */
    CHECK_INJECTION, /* a repeated message went unnoticed                         */
    CHECK_SPOTS, /* ranks are not told the same of them, or of different ones nothing */
    CHECK_OPERANDS, /* what came with announcements is not what was sent */
    CHECK_ORDER, /* device batches are launched in different orders, or too early */
    CHECK_COUNT
};

/** A name at a member: its submission, when it has one in flight. */
struct slot {
    int name, member;
    bool pending;
    int item;
    enum role role;
    struct request request; /* given to the negotiator                            */
    int64_t *numbers; /* shape and row counts of the request; owned              */
    uint64_t operand;
};

/** A word that a member wrote to its board. */
struct shown {
    size_t index;
    uint64_t value;
};

/** A log message on a board. */
struct ring_entry {
    uint64_t index; /* of its first entry in the log */
    size_t len;
    uint8_t *bytes; /* owned */
};

/** What a member shows in its node: words to its parent, log messages to its children. */
struct board {
    struct shown *words; /* in the order in which they were written; owned */
    int word_count;
    int seen[BITS_BOARD_WORDS]; /* the parent has seen a word as it was after so many */
    struct ring_entry *ring; /* owned */
    int ring_count;
};

/** A member of a set: a rank's negotiator. */
struct sim_member {
    struct negotiator negotiator;
    struct world *world;
    int set, member, rank;
    struct board board;
    int ring_read; /* of its parent's log messages */
    bool dirty; /* had an event since its last turn */
    int applied; /* entries of the oracle's log seen so far */
};

struct sim_rank {
    bool dead;
    int wave;
    int *order; /* its calls of this wave, in its order; owned             */
    int order_count;
    int next; /* in order                                                */
    bool waits; /* at the end of this wave                                 */
    int pending; /* submissions in flight                                   */
    int awaited; /* of these, those that it may wait for                    */
    int64_t skew_ns; /* of its clock                                            */
    struct sim_member *members[SIM_SETS_MAX]; /* by set; NULL: not in it         */
};

/** What the first member to see it said about a decision that all must see. */
struct log_entry {
    int item; /* -1: only members that are absent have seen it              */
    int collective;
    int64_t count;
    tutti_dtype dtype;
    int last; /* of a join                                                */
    bool mixed; /* members' spots                                        */
    tutti_status status;
    uint64_t log_message;
    size_t batch;
};

struct set_log {
    struct log_entry *entries; /* owned */
    int count;
};

/** What the planner is told of an outcome, and says. */
struct planned {
    int collective;
    const struct meta *meta;
    size_t bytes;
    uint64_t joined;
    size_t batch;
};

/** How an item ended, at whichever member it ended first. */
struct item_fate {
    bool ended;
    bool agreed; /* ready, and what all gave was checked */
    tutti_status status;
};

/** What all members were told, and what they did, in order: for runs of two builds. */
struct digest {
    uint64_t decisions, actions;
};

struct world {
    const struct scenario *scenario;
    struct rng rng;
    int64_t now_ns;
    struct network network;
    struct sim_rank *ranks; /* [scenario->ranks]                        */
    struct sim_member **members; /* [set][member]                            */
    struct slot **slots; /* [name][member]                           */
    struct item_fate *fates; /* [item]                                   */
    struct set_log logs[SIM_SETS_MAX];
    struct planner planner;
    struct planned *planned; /* scratch of the oracle; owned             */
    size_t *batches; /* [outcomes of a drain]; owned             */
    size_t planned_capacity;

    bool tainted; /* by an injected message: anything may happen, but no crash */
    bool killed; /* a rank is dead: others may wait for ever                  */
    int64_t events;
    struct digest digest;
    uint64_t operands; /* outcomes that came with those of all members */
    int ticks_left; /* so that ranks that wait for a dead one come to rest       */
    int64_t meddle_at; /* event at which a rank dies or a message is damaged       */
    bool stop;
    enum check check; /* first finding                                            */
    char finding[1400];
    bool verbose;
    void (*on_stall)(struct world *world, struct sim_member *member, const char *text,
            size_t len);
    uint8_t *claimed; /* [name * ranks + member] by stall reports; while they count */
};

struct world *world_create(const struct scenario *scenario, bool verbose);
void world_destroy(struct world *world);

/** Records the first finding and stops the run. */
void world_fail(struct world *world, enum check check, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/** One line about what happens, when verbose. */
void world_log(const struct world *world, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

static inline bool rank_is_awake(const struct sim_rank *rank)
{
    return !rank->dead && rank->pending > 0;
}

/** Tells the negotiator of a member the time before an event, ... */
void world_touch(struct world *world, struct sim_member *member);
/** ... and looks for errors after it: findings, unless a message was damaged. */
void world_check_event(struct world *world, const struct sim_member *member,
        tutti_status status, const char *event);

/* Events: each ends with a check of the negotiator that it touched. */

/** A rank's application goes on by one call; false when it cannot. */
bool world_step(struct world *world, int rank);
/** The engine of a rank flushes, sends and takes outcomes; false when it need not. */
bool world_turn(struct world *world, int rank);
/** A message arrives; it is freed. */
void world_deliver(struct world *world, struct message *message);
/** The engine of a rank looks at its clock; true when it had to. */
bool world_tick(struct world *world, int rank);
/** A rank asks to cancel one of its submissions. */
void world_cancel(struct world *world, struct slot *slot);
/** A rank vanishes. */
void world_kill(struct world *world, int rank);
/** True when the program of a rank has ended. */
bool world_is_done(const struct world *world, int rank);
/** Writes what everybody waits for to stderr. */
void world_dump(const struct world *world);

const char *check_name(enum check check);

/* schedule.c: which event happens next */

/** Runs the world until nothing moves any more. */
void schedule_run(struct world *world);
/** As schedule_run(), but no application goes on, and all messages arrive. */
void schedule_settle(struct world *world);
/** Delivers what sleeping ranks have not read, as if all woke up. */
void schedule_wake_all(struct world *world);

/* meddle.c: cancellations, a rank that vanishes, and messages that are repeated or damaged */

/** Between two events: something may happen. */
void meddle(struct world *world);
/** Delivers a message, intact or not. */
void meddle_deliver(struct world *world, struct message *message);

/* board.c: what the ranks of a node show each other in shared memory */

void board_show(struct sim_member *member, size_t index, uint64_t value);
void board_log(struct sim_member *member, const uint8_t *bytes, size_t len);
/**
 * An awake rank looks at a word, which it sees now or as it was before, or at a log message.
 * False when there was nothing new.
 */
bool board_look(struct world *world, int rank);
/** A rank sees something as it is now; likewise. */
bool board_look_closely(struct world *world, int rank);
/** The same, even if it has nothing in flight. */
bool board_look_asleep(struct world *world, int rank);
/** Reads what comes before a message. */
void board_read_before(
        struct world *world, struct sim_member *member, const struct message *message);
void board_fini(struct board *board);

/* oracle.c: what must be true of outcomes, independent of the negotiator */

/** Checks and books all outcomes that a negotiator holds. */
void oracle_take(struct world *world, struct sim_member *member);
/** Checks a run in which nothing moves any more. */
void oracle_finish(struct world *world);
/** True when the rank may wait for a submission in the middle of its program. */
bool oracle_allows_waiting(const struct world *world, const struct slot *slot);
/** True when a submission is certain to end. */
bool oracle_awaits(const struct world *world, const struct slot *slot);

/* oracle_text.c: what errors say */

/** Checks what an error says about a mismatch. */
void oracle_check_text(
        struct world *world, const struct sim_item *item, const char *text);
/** Checks that an error names those that joined or finalized. */
void oracle_check_left(
        struct world *world, const struct sim_item *item, const struct error *error);

/* stalls.c: reports of a world in which nothing moves any more */

/** Lets time pass until everything is reported, and checks what the reports say. */
void stalls_check(struct world *world);

#endif
