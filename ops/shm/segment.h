/*
 * The control words through which ranks that share memory follow each other.
 *
 * Each rank owns a segment that the others read. For each process set it has a row of
 * slots, and a batch uses the slot of its sequence number. A row is one page, and pages
 * that are never touched take no memory.
 *
 * A slot counts: it holds the sequence number of the newest batch for which its owner
 * has reached each stage, so waiting is comparing, nothing is ever set back, and no old
 * value can be taken for a new one. A rank uses a slot again when it has left the batch
 * OP_INFLIGHT_MAX before (op.h). It left that batch when all members had released it,
 * so nobody reads its runs any more; those who still wait for the release find a larger
 * number, which will do. A rank that left early, having copied from others, has runs
 * that nobody reads. A rank that was left out of batches (op.h) uses some slots later
 * again, or never; all of the above compares numbers of those who took part.
 *
 * Indices of process sets are used again, their ids are not: a slot says for which id it
 * counts. The members of the former set had all left its batches by then.
 *
 * Addresses in a segment are offsets from the base of its owner, which is 0 for ranks of
 * one process.
 */
#ifndef TUTTI_OPS_SHM_SEGMENT_H
#define TUTTI_OPS_SHM_SEGMENT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "ops/op.h"

/** How far a rank is with a batch. */
enum shm_stage {
    SHM_ARRIVED, /* its runs may be read and written by the others */
    SHM_RELEASED, /* it does not touch the runs of the others any more */
    SHM_STAGES
};

/** Where a run of a batch lies. */
struct shm_run {
    uint64_t input; /* offset from the owner's base */
    uint64_t output; /* likewise; unused where recvs say where */
    uint64_t sends; /* of its table of parts, if it has one */
};

/** A rank's part in a batch: one cache line. Written by the owner only. */
struct shm_slot {
    _Atomic uint64_t reached[SHM_STAGES]; /* sequence + 1 of newest batch; 0: none */
    _Atomic uint32_t set; /* id of the process set that they count for */
    uint32_t capacity; /* runs that table has room for; owner only */
    uint64_t runs; /* offset of the table of runs; valid once arrived */
    struct shm_run single; /* the table of a batch of one run */
    struct shm_run *table; /* the one of a batch of many; owner only */
};

struct shm_segment {
    struct shm_slot slots[OP_SETS_MAX][OP_INFLIGHT_MAX]; /* by set index, sequence */
    _Alignas(64) _Atomic uint32_t working; /* 1: touches the runs of others just now */
    _Atomic uint32_t gone; /* 1: gave up; nobody may touch its runs */
};

static_assert(sizeof(struct shm_slot) == 64, "a slot is a cache line");
static_assert(sizeof(struct shm_slot[OP_INFLIGHT_MAX]) == 4096, "a row is a page");

/** A rank as seen from this process. */
struct shm_rank {
    struct shm_segment *segment; /* zeroed at first */
    uintptr_t base; /* what its offsets count from */
    uint32_t rows; /* 1 + largest set index it used; owner only */
};

struct shm_domain {
    int ranks;
    struct shm_rank *rank; /* [ranks]; owned, with their segments and tables */
};

/** The slot of a rank for a batch. */
static inline struct shm_slot *shm_slot_of(
        const struct shm_rank *rank, const struct op_batch *batch)
{
    return &rank->segment->slots[batch->set->index][batch->sequence % OP_INFLIGHT_MAX];
}

/** The offset of an address of this rank. */
static inline uint64_t shm_offset(const struct shm_rank *rank, const void *address)
{
    return (uint64_t)((uintptr_t)address - rank->base);
}

/** The address, here, of an offset of a rank. */
static inline void *shm_address(const struct shm_rank *rank, uint64_t offset)
{
    /* An address of another rank has no pointer here to start from. */
    return (void *)(rank->base + offset); /* NOLINT(performance-no-int-to-ptr) */
}

#endif
