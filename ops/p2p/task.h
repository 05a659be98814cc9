/*
 * What the algorithms of the backend share: its state, a batch in flight, and the
 * messages between two ranks of a set.
 *
 * Messages. Many batches of many sets are in flight between the same two ranks on one
 * fabric. A message is told apart by its tag,
 *
 *     ((bank * OP_SETS_MAX + set index) * OP_INFLIGHT_MAX + op_slot()) * TASK_PHASES + phase,
 *
 * and, among those of one tag and pair, by the fabric's order: the n-th send from a rank meets
 * the n-th receive posted for it. So an algorithm posts its receives of a phase from
 * one peer in the order in which that peer posts its sends. A tag is used again by the
 * next piece of the batch in its bank, and by the batch OP_INFLIGHT_MAX later in its set.
 * That is safe though ranks finish at different times: a rank starts the later batch when the earlier is final on it, so on each side all
 * messages of the earlier come first, and the fabric keeps the order.
 *
 * Requests of a task stand in one array, receives first, so that one poll sees them all;
 * requests not posted are free.
 */
#ifndef TUTTI_OPS_P2P_TASK_H
#define TUTTI_OPS_P2P_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "ops/exchange.h"
#include "ops/op.h"
#include "ops/p2p/cut.h"
#include "ops/p2p/meter.h"
#include "ops/p2p/scratch.h"
#include "ops/reduce/reduce.h"

/** Directions of messages within a batch: operands (or the data) and results. */
enum task_phase {
    TASK_OPERANDS,
    TASK_RESULTS,
    TASK_PHASES
};

/** Longest message in bytes. Tests that reach it lower it. */
#ifndef TASK_MESSAGE_MAX
#    define TASK_MESSAGE_MAX FABRIC_MESSAGE_MAX
#endif
/** Longest batch whose operands are sent whole, 16 MiB: each takes as much scratch. */
#define TASK_WHOLE_MAX (TASK_MESSAGE_MAX >> 6)
/** How long transfers that have begun may go on when they are given up. */
#define TASK_CANCEL_NS INT64_C(500000000)
/** Slices, and so the kernels' pieces, begin on multiples of this many bytes. */
#define TASK_ALIGNMENT 64

struct p2p_state {
    const struct op_env *env; /* borrowed */
    const struct fabric *fabric; /* borrowed */
    size_t message_bytes; /* of the chunked algorithms; multiple of ALIGNMENT */
    size_t window_bytes; /* of a batch between nodes under way; 0: within one node */
    tutti_dtype
            wire; /* what float32 travels as in large sums; see reduction_direct.c */
    struct scratch_pool pool; /* for tasks */
    struct meter meter; /* of large reductions */
};

/* Chunked, direct: see reduction_direct.c. */
struct direct {
    tutti_dtype wire; /* of the messages: the batch's, or a narrower one of 2 bytes */
    size_t wire_bytes; /* of an element of it */
    size_t slice_elements; /* per rank and chunk */
    size_t chunk_count;
    size_t issued; /* chunks below: operands posted */
    size_t reduced; /* ... own slice reduced, its sends posted */
    size_t opened; /* ... receives of the results posted */
    size_t finished; /* ... complete */
    int depth; /* chunks in flight */
    int *pending; /* [4][depth] requests outstanding */
    const void **operands; /* [set size] for the kernel */
    uint8_t *slices; /* [depth][peers] operands received */
    uint8_t *rounded; /* [depth][peers] operands to send, where the wire is narrower */
};

/* Whole operands: see reduction_gather.c. */
struct gather {
    int pending; /* requests outstanding */
    const void **operands; /* [set size], some of them in the scratch */
};

/* Partial sums: see reduction_doubling.c. */
struct doubling {
    enum {
        DOUBLING_EXCHANGES, /* partial sums with another branch */
        DOUBLING_GOES_UP, /* receives that of another branch */
        DOUBLING_SENDS_PARTIAL,
        DOUBLING_AWAITS_RESULT,
        DOUBLING_SENDS_RESULTS
    } stage;
    int distance; /* ranks of the branches that are summed */
    int pending; /* requests outstanding */
    int sends; /* requests of the sends in use */
    size_t bytes; /* of the batch */
    const void *current; /* the sum of this rank's branch: the input, or the output */
    uint8_t *received;
};

/* Pipelined tree: see broadcast_tree.c. */
struct broadcast {
    size_t bytes; /* of the batch */
    size_t message_bytes; /* of a chunk */
    size_t chunk_count;
    size_t issued; /* chunks below: receive posted */
    size_t forwarded; /* ... here, sends to the children posted */
    size_t finished; /* ... complete */
    int parent; /* set rank; -1 at the root */
    int *children; /* [child_count] set ranks, the farthest subtree first */
    int child_count;
    int child_max; /* room for send requests per chunk */
    int depth; /* chunks in flight */
    int *pending; /* [2][depth] receives, sends outstanding */
};

/* The messages to or from one peer after the other. */
struct exchange_lane {
    int peer; /* set rank; -1: none any more */
    int busy; /* messages under way */
    struct cut cut; /* what is not yet posted */
};

/* The lanes of one direction. */
struct exchange_side {
    int next; /* peers, in circle order, that a lane has taken */
    int first_request; /* of [lanes][depth] */
    struct exchange_lane *lanes; /* [lanes] */
    struct cut_piece *pieces; /* [lanes][depth] what is under way */
    uint8_t *packs; /* [lanes][depth][CUT_PACK_BYTES], or NULL */
};

/* Parts, straight to their receivers: see exchange.c. */
struct exchange {
    bool placed; /* recvs are complete, if there are any */
    int lane_count;
    int depth; /* messages under way per lane */
    int pending; /* requests outstanding */
    int unknown; /* ranks whose sizes have not yet come */
    int size_peers; /* requests for sizes per direction: peers, or 0 */
    uint64_t *sizes_in; /* [set size][run_count] from each rank */
    struct exchange_side sends;
    struct exchange_side recvs;
    struct exchange_cursor own; /* what is not yet copied of the own parts */
    size_t own_bytes; /* to copy per step */
};

struct p2p_task {
    const struct op_batch *batch;
    const struct p2p_algorithm *algorithm;
    const struct op_env *env;
    struct meter *meter;
    const struct fabric *fabric;
    int tag; /* of phase 0 */
    size_t element_bytes;
    struct reduce_spec spec; /* of reductions */
    struct scratch *scratch; /* holds all arrays of the task */
    void *requests; /* [request_count] of the fabric: receives, then sends */
    int receive_count;
    int request_count;
    int *done; /* [request_count] filled by task_poll() */
    int64_t cancelled_ns; /* when it was given up; 0: it was not */
    union {
        struct direct direct;
        struct gather gather;
        struct doubling doubling;
        struct broadcast broadcast;
        struct exchange exchange;
    };
};

struct p2p_algorithm {
    const char *name;
    size_t bytes_most; /* of a batch; SIZE_MAX: it cuts any into messages */
    /* Takes scratch and posts the first messages; on failure the caller cancels. */
    tutti_status (*start)(struct p2p_state *state, struct p2p_task *task);
    /* As op_backend.step. */
    tutti_status (*step)(struct p2p_task *task, bool *moved);
};

extern const struct p2p_algorithm reduction_gather;
extern const struct p2p_algorithm reduction_doubling;
extern const struct p2p_algorithm reduction_direct;
extern const struct p2p_algorithm broadcast_tree;
extern const struct p2p_algorithm exchange_direct;

/** As what the elements of a batch travel in reduction_direct: its type, or a narrower one. */
static inline tutti_dtype p2p_wire_of(
        const struct p2p_state *state, const struct op_batch *batch)
{
    const bool sums = batch->op == TUTTI_SUM || batch->op == TUTTI_AVERAGE;

    return batch->dtype == TUTTI_FLOAT32 && op_is_reduction(batch->collective) &&
                    sums && batch->set->size > 1
            ? state->wire
            : batch->dtype;
}

/** True for what reduction_doubling can run. */
bool reduction_doubling_takes(const struct op_batch *batch);

/**
 * Takes scratch for the requests of a task and `extra` bytes more, aligned to
 * TASK_ALIGNMENT; all requests are free.
 * @return the extra bytes; NULL (error set): out of memory
 */
uint8_t *task_prepare(struct p2p_state *state, struct p2p_task *task, int receive_count,
        int send_count, size_t extra);

/** Posts request `index`, a message of the set's rank `peer`: TASK_MESSAGE_MAX bytes at most. */
TUTTI_MUST_USE tutti_status task_receive(struct p2p_task *task, int index,
        enum task_phase phase, int peer, void *buffer, size_t bytes);
/** The same for a message to it. */
TUTTI_MUST_USE tutti_status task_send(struct p2p_task *task, int index,
        enum task_phase phase, int peer, const void *buffer, size_t bytes);

/** Lets the fabric work; task->done[0 .. *count) are the requests that completed. */
TUTTI_MUST_USE tutti_status task_poll(struct p2p_task *task, int *count);

/** Set rank of peer i, 0 to size - 2: the ranks after this one, in a circle. */
static inline int task_peer(const struct p2p_task *task, int i)
{
    return (task->batch->set->rank + 1 + i) % task->batch->set->size;
}

#endif
