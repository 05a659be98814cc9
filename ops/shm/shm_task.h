/*
 * What the files of the shared-memory backend share: its state, a batch in flight, and
 * the way to the memory of the other members.
 *
 * The work of a batch is cut in rounds. In a round a member does one piece of its share,
 * the same length on all members, so that what it needs of the others' private memory
 * fits into their staging memory:
 *
 *            stage k            work k                       take k
 *   who      has private        has a share of the work      has private memory that
 *            memory                                          others write
 *   what     copies what        reads inputs, or what was    copies the results out
 *            others will read   staged of them; writes
 *            into its own       outputs, or to where it
 *            staging memory     was staged
 *   after    the place is free  all have staged k            all have worked k
 *
 * A rank's staging memory is a ring of rounds, each with a place for each member's piece.
 * It is in the cache, so private memory costs a copy there and back, but no more traffic
 * to memory; and of its own share a rank copies nothing.
 */
#ifndef TUTTI_OPS_SHM_SHM_TASK_H
#define TUTTI_OPS_SHM_SHM_TASK_H

#include "base/mem.h"
#include "ops/exchange.h"
#include "ops/op.h"
#include "ops/runs.h"
#include "ops/shm/segment.h"

/** Rounds that a rank can have staged. */
#define SHM_RING_ROUNDS 4

/** Staging memory that no batch uses. */
struct shm_ring {
    struct shm_ring *next;
};

/** What a round of work needs of another member. */
struct shm_view {
    const struct shm_rank *rank;
    const struct shm_run *runs; /* its table */
    char *place; /* in its ring, for this rank's piece; used only where it has one */
    bool only_read; /* the place holds operands that no result is written over */
};

struct shm_state {
    const struct op_env *env; /* borrowed */
    struct shm_domain *domain; /* borrowed */
    const void **inputs; /* [2 * world_size] scratch of a step; owned */
    void **outputs; /* [2 * world_size] likewise */
    struct shm_view *views; /* [world_size] likewise */
    size_t table_bytes; /* of the largest table of a slot: what others grow to */
    struct shm_ring *rings; /* spare; owned */
    size_t ring_bytes; /* of each ring */
};

enum shm_phase {
    SHM_CLAIMING, /* the slot is still read by others */
    SHM_ONCE, /* waits for the operands of the others */
    SHM_WORKING,
    SHM_LEAVING
};

/** Rounds: how many there are, and how many are done. */
struct shm_rounds {
    uint64_t all, done;
};

struct shm_task {
    const struct op_batch *batch;
    enum shm_phase phase;
    int seen[SHM_STAGES]; /* members, from the first awaited, that reached it */
    bool placed; /* recvs of an exchange are filled */
    struct shm_rounds stage, work, take;
    size_t piece; /* bytes of a member's piece of a round */
    int places; /* pieces of a round in staging memory */
    char *staging; /* this rank's ring; NULL: it has none */
    bool has_aliases; /* of its runs some are published as aliases */
    struct runs_cursor rest; /* to reduce, or to copy of a broadcast */
};

static inline struct shm_rank *shm_member(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    return &shm->domain->rank[batch->set->world_ranks[member]];
}

/** The runs that a member has published; it must have arrived, or be this rank. */
static inline const struct shm_run *shm_member_runs(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    const struct shm_rank *rank = shm_member(shm, batch, member);

    return shm_address(rank, shm_slot_of(rank, batch)->runs);
}

/** Where a piece lies, or will, in a ring. */
static inline char *shm_place(
        const struct shm_task *task, char *ring, uint64_t round, int place)
{
    const size_t slot = (size_t)(round % SHM_RING_ROUNDS);

    return ring + (slot * (size_t)task->places + (size_t)place) * task->piece;
}

/** Where a piece lies, or will, in the ring of a member that has arrived and has one. */
static inline char *shm_member_place(const struct shm_state *shm,
        const struct shm_task *task, int member, uint64_t round, int place)
{
    const struct shm_rank *rank = shm_member(shm, task->batch, member);

    return shm_place(task, shm_address(rank, shm_slot_of(rank, task->batch)->staging),
            round, place);
}

/**
 * Hands scratch of another rank back that this rank, and no other, has read: writes a byte
 * of each line as it is. The owner will write there again, and a store to a line that
 * another core has only read waits for that core; one that it has modified comes over at
 * full speed. Measured on Zen 4: 64 KiB are staged in 2 instead of 9 or even 28 us
 * (docs/design/shm.md).
 */
static inline void shm_hand_back(char *scratch, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += MEM_CACHE_LINE) {
        char *byte = scratch + at;

        /* Atomic only to be kept: the flags of the rounds order it. */
        __atomic_store_n(
                byte, __atomic_load_n(byte, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    }
}

/** Rounds that it takes to move so many bytes. */
static inline uint64_t shm_rounds_of(const struct shm_task *task, size_t bytes)
{
    return bytes / task->piece + (bytes % task->piece != 0);
}

/** True when the others can address the input of a run of this rank. */
static inline bool shm_has_shared_input(
        const struct shm_state *shm, const struct op_batch *batch, size_t run)
{
    return shm_member_runs(shm, batch, batch->set->rank)[run].input != SHM_PRIVATE;
}

/** The same of the output of a reduction. */
static inline bool shm_has_shared_output(
        const struct shm_state *shm, const struct op_batch *batch, size_t run)
{
    return shm_member_runs(shm, batch, batch->set->rank)[run].output != SHM_PRIVATE;
}

/*
 * For each kind of collective: *_init() sets the pieces and counts the rounds of this
 * rank; the others do a round. For exchanges the rounds of work are counted only by
 * shm_exchange_place(), once all have arrived.
 */
void shm_reduce_init(const struct shm_state *shm, struct shm_task *task);
void shm_reduce_stage(const struct shm_state *shm, const struct shm_task *task);
void shm_reduce_work(struct shm_state *shm, struct shm_task *task);
void shm_reduce_take(const struct shm_state *shm, const struct shm_task *task);
/** True when a member has a share in the work of a reduction. */
bool shm_reduce_has_share(const struct op_batch *batch, int member);

void shm_broadcast_init(const struct shm_state *shm, struct shm_task *task);
void shm_broadcast_stage(const struct shm_state *shm, const struct shm_task *task);
void shm_broadcast_work(const struct shm_state *shm, struct shm_task *task);

void shm_exchange_init(const struct shm_state *shm, struct shm_task *task);
tutti_status shm_exchange_place(const struct shm_state *shm, struct shm_task *task);
void shm_exchange_stage(const struct shm_state *shm, const struct shm_task *task);
void shm_exchange_work(const struct shm_state *shm, struct shm_task *task);

/** A range of members of a set. */
struct shm_members {
    int first;
    int count;
};

/* Who waits for whom (shm_arrive.c). */

/** The members whose reaching a stage matters to others. */
struct shm_members shm_awaited(const struct op_batch *batch, enum shm_stage stage);
/** True when a member works with the memory of others. */
bool shm_member_works(const struct op_batch *batch, int member);
/** True when a member waits until the awaited members have reached a stage. */
bool shm_member_waits(const struct op_batch *batch, int member, enum shm_stage stage);
/** True when a member has reached a stage, for so many rounds. */
bool shm_member_reached(const struct shm_state *shm, const struct op_batch *batch,
        int member, enum shm_stage stage, uint64_t rounds);
/** True when all awaited members have reached a stage; looks at each only once. */
bool shm_all_reached(
        const struct shm_state *shm, struct shm_task *task, enum shm_stage stage);
/** Publishes that this rank has reached a stage, and wakes who can go on by that. */
void shm_reach(struct shm_state *shm, struct shm_task *task, enum shm_stage stage);
static inline void shm_wake(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    shm->env->wake(shm->env->wake_user, batch->set->world_ranks[member]);
}

/* Arriving (shm_arrive.c). */

/** Backs the row of a set, and those before it, in this rank. @return false: no memory */
bool shm_row_claim(const struct shm_rank *mine, const struct op_set *set);
/** Takes part in the batch as soon as the slot is free. */
tutti_status shm_arrive(struct shm_state *shm, struct shm_task *task);
/** The batch is over, or given up: outputs are where the application has them. */
void shm_release_aliases(const struct shm_state *shm, struct shm_task *task);
/** Gives the staging memory of a task back, if it has some. */
void shm_ring_give(struct shm_state *shm, struct shm_task *task);

/** Does one round of each that can be done. @return false when there was none */
bool shm_work_some(struct shm_state *shm, struct shm_task *task);

/* Small batches (shm_once.c): the operands themselves are published. */
bool shm_once_applies(const struct op_batch *batch);
/** Puts this rank's operands into its slot. @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
tutti_status shm_once_give(const struct shm_state *shm, const struct shm_task *task);
/** Reduces what all have given. */
void shm_once_work(struct shm_state *shm, const struct shm_task *task);

/* Memory that the others can address (domain.c): zeroed; NULL when out of memory. */
void *shm_alloc(const struct shm_rank *mine, size_t bytes);
void shm_free(const struct shm_rank *mine, void *memory);
/** Says what is full, where shm_alloc() gave none for so much. @return TUTTI_ERR_NO_MEMORY */
tutti_status shm_no_memory(const struct shm_rank *mine, const char *what, size_t bytes);

#endif
