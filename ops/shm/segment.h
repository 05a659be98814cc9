/*
 * The control words through which ranks that share memory follow each other.
 *
 * Each rank owns a segment that the others read. For each process set it has a row of
 * slots, and a batch uses the slot of its sequence number (op_slot()): ranks start the
 * batches of different sets in different orders, so no set may wait for, or count in, a slot
 * of another. Pages of rows that are never used take no memory. There are several banks of rows, because a batch
 * that is composed of others (ops/hier) has several of them for one sequence number.
 *
 * A slot counts: for each stage it holds a flag, which is the sequence number of the newest
 * batch for which its owner has reached the stage, followed by its piece, where it is done in
 * pieces, and the number of rounds of it. So waiting is comparing, nothing is ever set back,
 * and no old value can be taken for a new one. A rank uses a slot again when it has left the
 * batch OP_INFLIGHT_MAX before in its set (op.h). It left that batch when all members had released it, so nobody reads its
 * runs any more; those who still wait for the release find a larger number, which will
 * do. A rank that left early, having copied from others, has runs that nobody reads, and
 * one that left early because all operands were in the slots waits, before it uses the
 * slot again, until as many have read its own as there were others; they wake it. A rank
 * that was left out of batches (op.h) uses some slots later again, or never; all of the
 * above compares numbers of those who took part.
 *
 * Indices of process sets are used again, their ids are not: a slot says for which id it
 * counts. The members of the former set had all left its batches by then.
 *
 * The board has rows of its own, of which readers look at the id before and after the words
 * (shm_board.c): nothing says when the members of a former set have stopped to look.
 *
 * Addresses in a segment are offsets from the base of its owner. Ranks of one process can
 * address everything: their base is 0.
 */
#ifndef TUTTI_OPS_SHM_SEGMENT_H
#define TUTTI_OPS_SHM_SEGMENT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/doorbell.h"
#include "ops/board.h"
#include "ops/op.h"
#include "ops/shm/alias.h"
#include "ops/shm/arena.h"
#include "ops/shm/reservation.h"

/** How far a rank is with a batch. */
enum shm_stage {
    SHM_ARRIVED, /* its table is filled; its runs may be read and written */
    SHM_STAGED, /* rounds for which its staging memory may be used */
    SHM_WORKED, /* rounds of its share of the work that are done */
    SHM_RELEASED, /* it does not touch the memory of the others any more */
    SHM_STAGES
};

/** Bytes of operands that fit into a slot. */
#define SHM_INLINE_BYTES 128
/** Bytes of operands that fit into its first cache line, beside the flags. */
#define SHM_TINY_BYTES 24

/** Stands for the offset of memory that the others cannot address. */
#define SHM_PRIVATE UINT64_MAX

/** Where a run of a batch lies. */
struct shm_run {
    uint64_t input; /* offset from the owner's base, or SHM_PRIVATE */
    uint64_t output; /* likewise; unused where recvs say where */
    uint64_t sends; /* offset of a copy of its table of parts, if it has one */
    uint64_t scratch; /* 1: op_run.scratch */
};

/** Lowest bit of `read`: the owner waits for it, and is to be woken. */
#define SHM_OWNER_WAITS ((uint32_t)1)
/** What one who has read adds to it. */
#define SHM_HAS_READ ((uint32_t)2)

/** A rank's part in a batch. Written by the owner only, but for `read`. */
struct shm_slot {
    _Alignas(64) _Atomic uint64_t
            reached[SHM_STAGES]; /* flags of the newest batch; 0: none */
    _Atomic uint32_t set; /* id of the process set that they count for */
    _Atomic uint32_t read; /* how often others have read operands in it, ever, doubled;
                              SHM_OWNER_WAITS */
    union {
        struct {
            uint64_t runs; /* offset of the table of runs; valid once arrived */
            uint64_t staging; /* offset of the staging memory, 0: none; likewise */
            uint64_t operands; /* offset of the operands of a small batch; likewise */
        };
        uint8_t tiny[SHM_TINY_BYTES]; /* of a small batch: they come with the flag */
    };

    uint8_t payload[SHM_INLINE_BYTES]; /* those operands, if there is room */

    struct shm_run single; /* the table of a batch of one run */
    /* Owner only: */
    void *table; /* the one of a batch of more; owned */
    size_t table_bytes; /* its size */
    void *block; /* for operands that do not fit; owned */
    uint32_t block_bytes; /* its size */
    uint32_t due; /* what `read` will be in the end, without SHM_OWNER_WAITS */
};

/** Log messages that a ring holds. */
#define SHM_BOARD_CELLS 11

/** A log message. Written by its owner only. */
struct shm_board_cell {
    _Alignas(128) _Atomic uint64_t
            head; /* number of the message plus 1, shifted, and its length; 0: none */
    _Atomic uint64_t words[BOARD_MESSAGE_BYTES / 8];
};

/** The board of a rank for a process set (ops/board.h). Written by its owner only. */
struct shm_board_row {
    _Alignas(64) _Atomic uint32_t set; /* id of the process set that it counts for */
    _Atomic uint64_t words[BOARD_WORDS];
    _Alignas(64) _Atomic uint64_t
            read; /* messages that this rank has read of its parent's ring */
    uint64_t room; /* owner only: messages below this number have room in the ring */
    struct shm_board_cell cells[SHM_BOARD_CELLS];
};

struct shm_segment {
    uint8_t nonce[16]; /* proves to others whose segment they have mapped */
    _Alignas(64) _Atomic uint32_t working; /* 1: touches the runs of others just now */
    _Atomic uint32_t gone; /* 1: gave up; nobody may touch its runs */
    _Atomic uint32_t closed; /* 1: closed in order; its process may end */
    _Atomic uint32_t rows[OP_BANKS]; /* rows of slots that are backed by memory */
    _Atomic uint32_t board_rows; /* rows of the board that are */
    _Alignas(64) _Atomic uint64_t waits; /* grows while its application waits */
    _Alignas(64) struct doorbell bell; /* the owner sleeps on it */
    /* By bank, set index, op_slot(). */
    _Alignas(4096) struct shm_slot slots[OP_BANKS][OP_SETS_MAX][OP_INFLIGHT_MAX];
    _Alignas(4096) struct shm_board_row board[OP_SETS_MAX]; /* by set index; behind the
                                                slots on pages of its own */
};

static_assert(sizeof(struct shm_slot) == 256, "a slot is four cache lines");

/** Rows of slots are backed by memory in whole pages: so many at a time. */
#define SHM_ROWS_IN_PAGE ((uint32_t)(4096 / sizeof(struct shm_slot[OP_INFLIGHT_MAX])))

static_assert(4096 % sizeof(struct shm_slot[OP_INFLIGHT_MAX]) == 0, "rows fill a page");
static_assert(OP_SETS_MAX % SHM_ROWS_IN_PAGE == 0, "the rows of a bank are pages");

static_assert(sizeof(struct shm_board_cell) == 128, "a message is two cache lines");
static_assert(sizeof(struct shm_board_row) == 2048, "two boards are a page");

/** A rank as seen from this process. */
struct shm_rank {
    struct shm_segment *segment; /* NULL: on another node */
    uintptr_t base; /* what its offsets count from */
    uint64_t bytes; /* offsets are below it */
    struct arena *arena; /* owner only; NULL: the heap will do; owned */
    struct aliases aliases; /* owner only: memory of the application in it */
    struct reservation reservation; /* unused between ranks of one process */
    pid_t pid; /* 0: not known */
    int pidfd; /* readable when the process has ended; -1: none; owned */
};

struct shm_domain {
    int ranks;
    int sharers; /* of /dev/shm; 0: all memory is of one process */
    struct shm_rank *rank; /* [ranks]; owned, with their segments and tables */
};

/** True when the process of a rank has ended before it closed the backend. */
bool shm_rank_has_died(const struct shm_rank *rank);

/** The slot of a rank for a batch. */
static inline struct shm_slot *shm_slot_of(
        const struct shm_rank *rank, const struct op_batch *batch)
{
    const struct op_set *set = batch->set;

    return &rank->segment->slots[set->bank][set->index][op_slot(batch)];
}

/** More rounds than a batch has, or one of its pieces: these share what a sequence has. */
static inline uint64_t shm_rounds_max(const struct op_batch *batch)
{
    return ((uint64_t)1 << (batch->piece == 0 ? 24 : 20)) - 1;
}

static_assert(OP_PIECES_MAX < 16, "the last piece has rounds");
static_assert(
        OP_PIECE_BYTES_MAX / 4096 < ((size_t)1 << 20) - 1, "of 4096 bytes or more");

/** What a slot holds when a stage of a batch was reached for so many rounds. */
static inline uint64_t shm_flag(const struct op_batch *batch, uint64_t rounds)
{
    return (batch->sequence + 1) << 24 | (uint64_t)batch->piece << 20 | rounds;
}

/** The offset of an address of this rank. */
static inline uint64_t shm_offset(const struct shm_rank *rank, const void *address)
{
    const uint64_t offset = (uint64_t)((uintptr_t)address - rank->base);

    return offset < rank->bytes ? offset : SHM_PRIVATE;
}

/** The address, here, of an offset of a rank. */
static inline void *shm_address(const struct shm_rank *rank, uint64_t offset)
{
    /* An address of another rank has no pointer here to start from. */
    return (void *)(rank->base + offset); /* NOLINT(performance-no-int-to-ptr) */
}

#endif
