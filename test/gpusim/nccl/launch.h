/*
 * What a group puts on streams: the calls of one communicator, which run as one operation.
 * Its collectives run in their order, then its sends and receives all at once.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_LAUNCH_H
#define TUTTI_TEST_GPUSIM_NCCL_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/gpusim/nccl/comm.h"

enum function {
    FUNCTION_ALL_REDUCE,
    FUNCTION_REDUCE,
    FUNCTION_BROADCAST,
    FUNCTION_ALL_GATHER,
    FUNCTION_REDUCE_SCATTER,
    FUNCTION_SEND,
    FUNCTION_RECV
};

/* One call of one function. */
struct call {
    enum function function;
    uint64_t input; /* addresses; 0: none                                 */
    uint64_t output;
    size_t count; /* elements, as the caller gave them                  */
    nccl_dtype type;
    nccl_op fold; /* NCCL_SUM, PROD, MAX or MIN; -1: none               */
    int root; /* or the peer; -1: none                              */
    cu_stream stream;
    uint64_t sequence; /* of the collective in its communicator              */
    uint32_t place; /* in the group, among collectives                    */
    uint32_t places;
    uint64_t input_place; /* see memory_note_call()                             */
    uint64_t output_place;
};

/* The calls of one communicator in one group. */
struct launch {
    nccl_comm comm;
    uint64_t turn; /* launches of this communicator before this one      */
    struct call *calls;
    size_t count;
    size_t capacity;
    nccl_result async; /* a fault: the error that is told, or success        */
    struct patience patience;
    bool is_queued; /* the device runs another one */
    bool is_captured; /* in a graph, for which others are made of it           */
    unsigned char *buffer; /* SEGMENT_CHUNK_BYTES to compute in                  */
};

/* Name of the function and its bytes. */
const char *function_name(enum function function);
bool function_is_pair(enum function function);
/* Bytes that a call reads from and writes to memory on this rank. */
size_t call_input_bytes(nccl_comm comm, const struct call *call);
size_t call_output_bytes(nccl_comm comm, const struct call *call);

/* Adds the call, which was checked, to the thread's group, or launches it alone. */
nccl_result launch_call(nccl_comm comm, const struct call *call);

/*
 * For the bodies: waiting. The bell is read, the condition tested, then this is called. False
 * when the kernel has to leave; `missing` are the ranks that a report names.
 */
bool launch_pause(struct launch *launch, uint32_t seen, const struct call *call,
        uint64_t missing);
/* Waits until the communicator is aborted: something is broken for good. */
void launch_stay(struct launch *launch);

/* The bodies of a collective and of all pairs; false when the kernel left early. */
bool collective_run(struct launch *launch, const struct call *call);
bool pairs_run(struct launch *launch);

/* ---- resident.c ---- */

/*
 * A kernel's place in the queue of its device, which runs one collective at a time: those of
 * other communicators wait, though they are on other streams. So two communicators whose
 * collectives two ranks launch in different orders wait for each other for ever, as they may on a
 * GPU.
 */
struct resident {
    struct resident *next;
    nccl_comm comm;
};

/* Waits for a place; false when the kernel has to leave, and then has none. */
bool resident_enter(struct resident *place, struct launch *launch);
void resident_leave(struct resident *place);
/* Kernels of this process that have entered and not left. */
size_t resident_count(void);

/* ---- memory.c ---- */

/*
 * Counts a call whose memory is all registered with its communicator, and notes where in it
 * the call's memory is, which must be the same on all ranks: 0 where it is not registered,
 * else 1, and more by the offset on the side that has the data of all ranks.
 */
void memory_note_call(nccl_comm comm, struct call *call);

#endif
