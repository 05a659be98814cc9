/*
 * Plans: what a process set does again and again, so that nothing is left to agree on but
 * whether each rank is there (docs/design/plan.md). Part of the negotiator, and as pure.
 *
 * A plan is a fixed order of batches of tensors that have numbers. It owns a lane of its
 * set, and has a cursor and arrivals of its own; a set has as many plans at once as lanes.
 * What no plan covers goes through the log beside them (lane 0).
 *
 * Each rank contributes to batch 0, 1, 2 ... of an epoch, of which batch k is batch
 * k mod batch_count of the plan: that it has arrived there, or, once and last, an exit.
 * So its arrival is two things: how many batches it has arrived at, and whether and why it
 * left at the next one. A batch commits when all have arrived; the outcome of an epoch
 * is the first batch that did not commit and that somebody left.
 */
#ifndef TUTTI_AGREE_PLAN_H
#define TUTTI_AGREE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tensor_state;

/** Lanes of a set; lane 0 is the log's. */
#define PLAN_LANES_MAX 8
/** Tensors of a plan at most. */
#define PLAN_ITEMS_MAX ((size_t)1 << 16)
/** Waves that a plan is split into at most. */
#define PLAN_WAVES_MAX 32
/** The timer of a plan, at first, while somebody waits or polls. */
#define PLAN_TIMER_WAITED_NS INT64_C(2000000)

enum plan_state {
    PLAN_SLOW, /* left: its tensors are negotiated one by one */
    PLAN_QUEUED, /* to be entered when the plan before it on its lane is left */
    PLAN_ON,
    PLAN_LEFT /* the outcome is known; what follows from it is for the flush */
};

/** Why a rank leaves a plan. Travels; append only. */
enum plan_exit {
    PLAN_EXIT_NONE,
    PLAN_EXIT_TIMER, /* a tensor of the batch did not come, and others wait */
    PLAN_EXIT_METADATA, /* a tensor came with other metadata than it is planned with */
    PLAN_EXIT_JOIN, /* the rank has joined */
    PLAN_EXIT_FINALIZE, /* the rank has called finalize */
    PLAN_EXIT_CANCEL, /* a tensor is to be cancelled */
    PLAN_EXIT_REPLACED, /* the lane is wanted for another plan */
    PLAN_EXIT_FOLLOWED, /* another rank leaves */
    PLAN_EXIT_STEP, /* a tensor came with another step than is expected */
    PLAN_EXIT_COUNT
};

/** What a rank, or the ranks of a subtree together, contributed to an epoch. */
struct arrival {
    uint64_t count; /* batches that all of them have arrived at */
    enum plan_exit why; /* somebody left batch `count`, and why; or NONE */
    uint32_t item; /* of the plan, that it was about */
    int member; /* that left it */
    bool leaves; /* somebody left because it leaves, even if it is ahead */
    uint64_t word; /* arrival flags: as it was read */
};

struct plan_batch {
    uint32_t first, count; /* items */
    uint32_t here; /* of these, submitted and not yet contributed */
};

/** What the coordinator has seen of a plan, mostly while it is SLOW. */
struct plan_history {
    uint32_t launched; /* items launched in the running iteration */
    int64_t began_ns; /* when its first one was; 0: none was, -1: not known */
    uint64_t launched_hash; /* of the last iteration that was not whole */
    uint64_t passes; /* iterations to pass over before it is entered */
    int failures; /* epochs in a row that did not pay */
    bool is_new; /* it is in its first epoch */
    int64_t entered_ns; /* when this epoch began */
    bool moved; /* the order of its tensors is to be made anew */
    uint32_t turn; /* items submitted here in the running iteration */
    uint32_t late; /* the item that was waited for */
    uint64_t used_at; /* log message when something of it was last used */
};

struct plan {
    uint32_t lane;
    enum plan_state state;
    uint64_t epoch; /* of its lane, counted from 1 */
    struct tensor_state **items; /* in the order of the batches; owned */
    struct plan_batch *batches; /* owned */
    uint32_t item_count, batch_count;

    /* of the epoch */
    uint64_t cursor; /* the first batch that this rank has not contributed to */
    uint64_t decided; /* batches that have committed, as far as is known here */
    uint32_t here; /* items submitted here and not yet contributed */
    bool exiting; /* `wanted` is contributed */
    struct arrival wanted; /* the exit to contribute at the cursor; NONE: none */
    struct arrival *arrivals; /* [set size] if members see each other, else of the
                               children; owned */
    struct arrival
            common; /* of all members, as told by the coordinator; if members see each
                           other, only whether somebody leaves */
    struct arrival outcome; /* LEFT: the exit that ended the epoch */
    struct arrival told; /* the subtree's, as told to the parent along the tree */
    int seen; /* members below this one have arrived at `decided` */
    int timer_shift; /* the timer is longer by this power of two */
    int64_t submitted_ns; /* last submission of an item */
    int64_t gap_ns; /* longest time between two of an iteration */
    struct plan_history history;
};

/** A lane of a set. */
struct plan_lane {
    uint64_t epoch; /* PLAN entries that named it */
    uint64_t commits; /* batches of its plans that committed, ever */
    struct plan *current; /* NULL: none; owned */
    struct plan *next; /* QUEUED behind it, or NULL; owned */
    bool appended; /* coordinator: a PLAN entry of this log message names it */
};

/*
 * The word by which a rank shows its arrival to others: 19 bits of the epoch, 43 of the count,
 * and whether there is an exit.
 */
#define ARRIVAL_EPOCH_MASK ((UINT64_C(1) << 19) - 1)
#define ARRIVAL_COUNT_MASK ((UINT64_C(1) << 43) - 1)
#define ARRIVAL_EPOCH_SHIFT 44

static inline uint64_t arrival_word(uint64_t epoch, const struct arrival *arrival)
{
    return (epoch & ARRIVAL_EPOCH_MASK) << ARRIVAL_EPOCH_SHIFT |
            (arrival->count & ARRIVAL_COUNT_MASK) << 1 |
            (arrival->why != PLAN_EXIT_NONE);
}

/** What explains an exit. */
static inline uint64_t arrival_detail(const struct arrival *arrival)
{
    return (uint64_t)arrival->why << 32 | arrival->item;
}

/** The arrival flag that holds the words of an epoch. */
static inline uint32_t arrival_cell(uint32_t lane, uint64_t epoch)
{
    return 2 * lane + (uint32_t)(epoch % 2);
}

/** Coordinator: true when all members have entered the epoch, and so left the one before. */
static inline bool plan_is_entered(const struct plan *plan)
{
    return plan->decided > 0 || plan->history.launched > 0;
}

/**
 * With arrival flags: true when the flag of a member must be read, because it may let a batch
 * commit or end the plan. A rank with nothing pending in the plan reads all of them, to see
 * who joins or finalizes (plan_advance()).
 */
static inline bool plan_awaits(const struct plan *plan, int member)
{
    const struct arrival *arrival = &plan->arrivals[member];

    return arrival->why == PLAN_EXIT_NONE &&
            (arrival->count <= plan->decided || plan->here == 0);
}

#endif
