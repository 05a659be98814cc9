/*
 * The one interface between the core and the data plane: a backend runs batches.
 *
 * The core agrees with all ranks of a process set on a batch, gives it to a backend with
 * start(), and calls step() until it is final. Batches of one set are started in the same
 * order on all its ranks, batches of different sets are not; several may be in flight; they
 * may finish in any order.
 * All slots of one context are called by one thread at a time and none may block.
 *
 * A backend takes batches of host memory, or of device memory (op_backend.space). Device
 * batches that no backend takes are copied to host memory and back by the core.
 */
#ifndef TUTTI_OPS_OP_H
#define TUTTI_OPS_OP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "base/log.h"
#include "observe/metrics.h"

/**
 * The process set of a batch; facts equal on all its ranks, but for `rank`. While ranks have
 * joined (tutti_join), batches run on the others alone: a set of the same id and index with
 * fewer ranks. The sequence numbers are common to all of them, and a rank that is left out
 * skips some.
 */
struct op_set {
    uint32_t id; /* never used for another set, not even a later one       */
    uint32_t index; /* small, unique among the live sets; below OP_SETS_MAX   */
    uint32_t bank; /* 0; a part of a batch that is composed of several batches of
                      its set says which, so that it is told apart; below OP_PAIR_BANK,
                      and below OP_MESSAGE_BANKS where messages are sent. Of a pair:
                      OP_PAIR_BANK or the one behind it, and the index tells a pair of
                      this bank from others with either rank on the same node */
    int rank; /* this rank within the set                               */
    int size; /* ranks in the set                                       */
    const int *world_ranks; /* [size] world rank of each; borrowed                    */
    bool partial; /* some of its members have joined, and are left out        */
};

/** Index of sets. Where messages are sent, pairs take the last one: a set of it is of a pair. */
#define OP_SETS_MAX 1024

/** Batches of one set and sequence number that a rank can have in a backend. */
#define OP_BANKS 8
#define OP_MESSAGE_BANKS 2
/** The first bank of pairs: sets of a sender (rank 0) and a receiver, that only broadcast. */
#define OP_PAIR_BANK 6

/** Most pieces of a batch; see op_batch.piece. */
#define OP_PIECES_MAX 15
/** Most bytes of such a piece. */
#define OP_PIECE_BYTES_MAX ((size_t)1 << 31)

/**
 * Most batches of a set in flight on a rank, and the span of their sequence numbers: a
 * batch starts when the one OP_INFLIGHT_MAX before it in its set is final on this rank.
 */
#define OP_INFLIGHT_MAX 8

/** A range of bytes of a run's input or output. */
struct op_part {
    size_t offset;
    size_t bytes;
};

/** DEVICE: what ranks agreed on about the spots of a run's memory; see device.spot(). */
enum op_spot {
    OP_SPOT_NONE, /* nowhere on any rank                                        */
    OP_SPOT_SAME, /* the same on all ranks                                      */
    OP_SPOT_MIXED /* not so                                                     */
};

/**
 * A piece of memory of a batch: one tensor, or the fusion buffer.
 *
 * ALLREDUCE, BROADCAST and REDUCE: count elements of input and output; the output of a
 * REDUCE is NULL but on the root.
 *
 * REDUCESCATTER: count elements of input. sends[r] is the part of it that member r gets
 * reduced, equal on all ranks; what is in no part is not looked at. The output has
 * sends[rank].bytes. It may be that part of the input.
 *
 * ALLGATHER, ALLTOALL, GATHER, SCATTER: sends[r] is the part of the input that goes to
 * member r, recvs[r] the place in the output of what comes from member r, itself included.
 * Parts of 0 bytes move nothing. ALLGATHER: sends[r] is the whole input for all r. GATHER:
 * the whole input for the root, nothing for the others. SCATTER: recvs[r] is empty for all
 * but the root. Input and output may overlap only in this rank's own part, which is then the
 * same memory in both. count is not used.
 */
struct op_run {
    const void *input;
    void *output;
    size_t count; /* elements; equal on all ranks                           */
    const struct op_part *sends; /* [set size], or NULL                     */
    struct op_part *recvs; /* [set size], or NULL; see op_batch.sizes_known */
    bool scratch; /* the input is the core's own buffer: what is read may be written  */
    enum op_spot spot; /* of input and output; equal on all ranks              */
};

/** Where the memory of a batch lies. */
enum op_space {
    OP_HOST, /* what the processor reaches                                      */
    OP_DEVICE, /* memory of this rank's GPU: only commands on a stream touch it   */
    OP_CAPTURED, /* the same, and the commands become part of a CUDA graph          */
    OP_SPACE_COUNT
};

/** What of that is about memory: captured or not, it is the device's. */
static inline enum op_space op_memory(enum op_space space)
{
    return space == OP_CAPTURED ? OP_DEVICE : space;
}

/** A point in the commands of a stream; see ops/device.h. */
struct device_event;

/** Most members of a set whose operands come to each of them with the agreement. */
#define OP_OPERANDS_MAX 16

/** What to do. Lives until the task is final or cancelled. */
struct op_batch {
    const struct op_set *set;
    uint64_t sequence; /* 0, 1, 2 ... within the set; equal on all ranks     */
    uint32_t piece; /* 0; of a batch that is done in pieces: 1 ... OP_PIECES_MAX.
                      A rank starts one when the one before in its bank is final  */
    tutti_collective collective; /* any but BARRIER                                  */
    tutti_dtype dtype; /* TUTTI_UINT8 for all that does not reduce           */
    tutti_reduce_op op; /* of reductions; any but SET_AVERAGE                 */
    int divisor; /* of AVERAGE, at least 1: the ranks of the batch, or of the
                    one that it is a part of, or the size of its process set */
    double prescale; /* of reductions                                      */
    double postscale; /* of reductions                                      */
    int root; /* BROADCAST, REDUCE, GATHER, SCATTER: rank in the set */
    const struct op_run *runs; /* run_count pieces, in the same order on all ranks   */
    size_t run_count; /* 1 unless the backend takes runs of this collective */
    size_t count; /* elements of all runs together; at least 1, but 0 where
                     runs have recvs                                     */
    const uint8_t *
            operands; /* of an allreduce of one run: the inputs of all members, by rank,
                      where they came with the agreement, on every rank: nothing is
                      to be exchanged; else NULL                          */
    enum op_space space; /* of all inputs and outputs; equal on all ranks          */
    struct device_event *const *after; /* [after_count] DEVICE: what must have passed on
                              this rank before inputs are read and outputs written    */
    size_t after_count;
    struct device_event **issued; /* DEVICE: where the backend puts, before it ends with
                              TUTTI_OK, the event after which the outputs are there and
                              nobody touches the memory; the core releases it         */
    tutti_stream stream; /* CAPTURED: where all commands go, behind what is there; in
                            the capture of `after`                                  */

    /*
     * Where runs have recvs. True on all ranks: recvs are filled. False on all ranks: a
     * rank knows only what it sends; the backend tells the receivers, fills recvs[].bytes
     * of a run on every rank that can receive, and then calls place(), which fills
     * recvs[].offset and, when it was NULL, the run's output, on each rank for each run,
     * once. Then the data may arrive. On ranks that receive nothing in this collective (all
     * but the root of a GATHER) recvs are filled with 0 already and place() is not called.
     * Errors of place() (TUTTI_ERR_NO_MEMORY) are to be returned from step(). Backends of
     * DEVICE may be asked about false, and are started with true only.
     */
    bool sizes_known;
    tutti_status (*place)(const struct op_batch *batch, size_t run);
    void *owner; /* of the core, for place() */
};

/** True for the set of a sender and a receiver (lib/run/pairs.h). */
static inline bool op_is_pair(const struct op_set *set)
{
    return set->bank >= OP_PAIR_BANK;
}

/** Tells the batches of a set and bank that are in flight apart; below OP_INFLIGHT_MAX. */
static inline uint32_t op_slot(const struct op_batch *batch)
{
    return (uint32_t)(batch->sequence % OP_INFLIGHT_MAX);
}

/** True for collectives that combine elements. */
static inline bool op_is_reduction(tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCE ||
            collective == TUTTI_REDUCESCATTER;
}

/** True for collectives whose runs have recvs: they move bytes from each rank to each. */
static inline bool op_is_exchange(tutti_collective collective)
{
    return collective == TUTTI_ALLGATHER || collective == TUTTI_ALLTOALL ||
            collective == TUTTI_GATHER || collective == TUTTI_SCATTER;
}

/** True when the batch reads an input on this rank. */
static inline bool op_has_input(const struct op_batch *op)
{
    return (op->collective != TUTTI_BROADCAST && op->collective != TUTTI_SCATTER) ||
            op->set->rank == op->root;
}

/** True when the batch gives this rank something new. */
static inline bool op_has_output(const struct op_batch *op)
{
    if (op->collective == TUTTI_REDUCE || op->collective == TUTTI_GATHER) {
        return op->set->rank == op->root;
    }
    return op->collective != TUTTI_BROADCAST || op->set->rank != op->root;
}

/** Bytes by which the ranks of a set find each other; see op_backend.token. */
#define OP_TOKEN_BYTES 128

/** How messages travel between nodes, as measured at the start; zeroed: not measured. */
struct op_link {
    size_t message_bytes; /* long messages are cut so: each goes at once and both ways   */
    size_t window_bytes; /* under way, so that the link never waits                     */
    double latency_us; /* of a short message, one way                                 */
    double overhead_us; /* of each further one that is sent or received meanwhile     */
    double bytes_per_us; /* each way, while both are used                              */
};

/** What time goes into, for a timeline (observe/timeline.h). By the engine's thread. */
struct op_spent {
    bool is_asked; /* somebody wants to know now                            */
    int64_t reduce_ns; /* of reductions, since it is asked                   */
};

/** What a backend gets to work with; borrowed until close(). */
struct op_env {
    const struct config *config;
    const struct log *log;
    int world_rank;
    int world_size;
    size_t chunk_bytes; /* piece to move and reduce at a time, from config or cache  */
    struct op_link link; /* between nodes; equal on all ranks                        */
    struct recorder_link *links; /* [world_size] how they carry; NULL: nobody asks   */
    struct op_spent
            *spent; /* where reductions add their time; NULL: nobody asks      */
    void *native; /* what the backend needs from its transport; see each one   */
    void (*wake)(void *user, int world_rank); /* makes a rank's engine look again    */
    void *wake_user;
    struct op_device_counts *counts; /* where a DEVICE backend counts             */
};

struct op_backend {
    const char *name;
    unsigned takes_runs; /* 1 << collective: reads and writes scattered runs of it, so
                            that the core packs nothing */
    size_t task_bytes; /* zeroed storage the core gives each batch in flight */
    enum op_space space; /* of the batches it takes: op_memory() of theirs    */

    /*
     * Opens the backend on this rank. Errors make the backend unusable on every rank.
     */
    tutti_status (*open)(const struct op_env *env, void **state);
    void (*close)(void *state);

    /*
     * True when it can run such a batch on such a set. May look only at facts that are
     * equal on all ranks of the set (so not at pointers).
     */
    bool (*accepts)(const void *state, const struct op_batch *batch);

    /*
     * Begins. On failure nothing was begun. Errors: TUTTI_ERR_NO_MEMORY, TUTTI_ERR_MPI.
     */
    tutti_status (*start)(void *state, void *task, const struct op_batch *batch);

    /*
     * Moves on. TUTTI_OK: finished, no rank will touch this rank's memory again.
     * TUTTI_AGAIN: not finished. *moved is set when something happened, and never cleared.
     * Errors end the task and fail the context.
     */
    tutti_status (*step)(void *state, void *task, bool *moved);

    /*
     * Gives up a started task, after the context failed; every task of the rank is given
     * up. True: nobody reads or writes the caller's memory for it any more (scratch may be
     * in use until close()). False: somebody may just be doing so; call again.
     */
    bool (*cancel)(void *state, void *task);

    /*
     * True when it sums float32 over such a set as reduce_tree() does in the order of the
     * ranks, or takes no sums of it. Looks at what accepts() may look at; any thread. NULL:
     * always.
     */
    bool (*follows_ranks)(const void *state, const struct op_set *set);

    /*
     * Says in words how such a batch would travel, and what that would take by the backend's
     * model, if it has one. Looks at what accepts() may look at; any thread. NULL: there is
     * but one way.
     */
    void (*explain)(
            const void *state, const struct op_batch *batch, char *text, size_t size);

    /*
     * Looks whether the others still live; called now and then while something is waited
     * for, and also while issued work of a DEVICE backend has not passed. May be NULL.
     * Errors fail the context.
     */
    tutti_status (*watch)(void *state);

    /*
     * A DEVICE backend. Its batches are started in one order on all ranks, whatever set
     * they are of (lib/device/tickets.h), and end as soon as their commands are issued: the
     * events say when those have been carried out. Before the first batch of a set its
     * ranks meet, in that order, too; NULL on other backends.
     *
     * token() makes, on one rank, what the ranks of a set need to find each other.
     * Errors: TUTTI_ERR_SYSTEM.
     */
    tutti_status (*token)(void *state, uint8_t token[OP_TOKEN_BYTES]);

    /*
     * Prepares for the batches of a set. `everyone`: all ranks of the world do, and have met
     * for the world's set before; set->rank is -1 where this rank is no member. Else only
     * the members do. Called until it is final: nothing is started meanwhile, and at the
     * first call nothing is in flight but issued commands.
     * TUTTI_OK, TUTTI_AGAIN; errors fail the context.
     */
    tutti_status (*meet)(void *state, const struct op_set *set,
            const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved);

    /*
     * The set is removed: nothing of it is in flight but issued commands. Ranks come to know
     * of it at different times; but sets whose id is `next` or more were created later, so
     * when everyone meets for such a one all ranks know.
     */
    void (*part)(void *state, const struct op_set *set, uint32_t next);

    /*
     * Gives up what is issued, after the context failed and every task was cancelled; also
     * when there was none. True: it touches the caller's memory no more, or no longer than
     * until the events have passed that were handed out. False: call again. NULL: there is
     * nothing to give up.
     */
    bool (*quit)(void *state);
};

#endif
