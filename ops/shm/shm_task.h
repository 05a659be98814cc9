/*
 * What the files of the shared-memory backend share: its state, a batch in flight, and
 * the way to the memory of the other members.
 */
#ifndef TUTTI_OPS_SHM_SHM_TASK_H
#define TUTTI_OPS_SHM_SHM_TASK_H

#include "ops/exchange.h"
#include "ops/op.h"
#include "ops/runs.h"
#include "ops/shm/segment.h"

struct shm_state {
    const struct op_env *env; /* borrowed */
    struct shm_domain *domain; /* borrowed */
    const void **inputs; /* [world_size] scratch of a step; owned */
    void **outputs; /* [world_size] likewise */
    size_t table_runs; /* room of the largest table of a slot: what others grow to */
};

enum shm_phase {
    SHM_GATHERING,
    SHM_WORKING,
    SHM_LEAVING
};

/** What a rank has yet to copy of an exchange. */
struct shm_exchange {
    bool placed; /* recvs are filled */
    int visited; /* members from which all is here; this rank is the first */
    struct exchange_cursor at; /* in what comes from the next */
};

struct shm_task {
    const struct op_batch *batch;
    enum shm_phase phase;
    int seen[SHM_STAGES]; /* members, from the first awaited, that reached it */
    union {
        struct runs_cursor rest; /* to reduce, or to copy of a broadcast */
        struct shm_exchange exchange;
    };
};

static inline const struct shm_rank *shm_member(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    return &shm->domain->rank[batch->set->world_ranks[member]];
}

/** The runs that a member has published; it must have arrived. */
static inline const struct shm_run *shm_member_runs(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    const struct shm_rank *rank = shm_member(shm, batch, member);

    return shm_address(rank, shm_slot_of(rank, batch)->runs);
}

/** True when a member has a share in the work of a reduction. */
bool shm_reduce_has_share(const struct op_batch *batch, int member);
/** This rank's share. */
struct runs_cursor shm_reduce_share(const struct op_batch *batch);

/*
 * Each works for about a chunk of memory. @return TUTTI_OK: no work is left;
 * TUTTI_AGAIN; or what went wrong
 */
tutti_status shm_reduce_work(struct shm_state *shm, struct shm_task *task);
tutti_status shm_broadcast_work(struct shm_state *shm, struct shm_task *task);
tutti_status shm_exchange_work(struct shm_state *shm, struct shm_task *task);

#endif
