/*
 * What a group puts on streams: the calls of one communicator, which run as one operation.
 * Its collectives run in their order, then its sends and receives all at once.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_LAUNCH_H
#define TUTTI_TEST_GPUSIM_NCCL_LAUNCH_H

#include "test/gpusim/nccl/comm.h"

/* What ranks do together. */
enum function {
    FUNCTION_ALL_REDUCE,
    FUNCTION_REDUCE,
    FUNCTION_BROADCAST,
    FUNCTION_ALL_GATHER,
    FUNCTION_REDUCE_SCATTER,
    FUNCTION_SEND,
    FUNCTION_RECV,
    FUNCTION_INIT,
    FUNCTION_SPLIT,
    FUNCTION_DESTROY
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
    uint64_t message; /* a send: 0, or its number among those to the peer   */
    bool is_done; /* a send or receive                                  */
};

/* The calls of one communicator in one group. */
struct launch {
    nccl_comm comm;
    uint64_t turn; /* launches of this communicator before this one      */
    struct call *calls;
    size_t count;
    nccl_result async; /* a fault: the error that is told, or success        */
    bool is_captured; /* in a graph, for which others are made of it           */
};

/* Adds the call, which was checked, to the thread's group, or launches it alone. */
nccl_result launch_call(nccl_comm comm, const struct call *call);
/* The calls of a group. */
nccl_result launch_submit(struct launch *launch);
/* It was never put on a stream; may be NULL. */
void launch_drop(struct launch *launch);
/* For the bodies: comm_await(), in a call. */
bool launch_await(struct launch *launch, const struct call *call,
        uint64_t (*missing)(void *user));

/* ---- collective.c ---- */

const char *function_name(enum function function);
bool function_is_pair(enum function function);
/* Bytes that a call reads from and writes to memory on this rank. */
size_t call_input_bytes(const struct nccl_comm_object *comm, const struct call *call);
size_t call_output_bytes(const struct nccl_comm_object *comm, const struct call *call);
/* In place is what NCCL says it is. */
bool call_is_in_place(nccl_comm comm, const struct call *call);
/* Where both sides lie in what is registered, as far as it has to be the same on all ranks. */
void call_note_places(struct call *call, uint64_t input, uint64_t output);

/* The bodies of a collective and of all pairs; false when the kernel left early. */
bool collective_run(struct launch *launch, const struct call *call);
bool pairs_run(struct launch *launch);

/* ---- memory.c ---- */

/*
 * Counts a call whose memory is all registered with its communicator, and notes where in it
 * the call's memory is, which must be the same on all ranks: 0 where it is not registered,
 * else 1, and more by the offset on the side that has the data of all ranks.
 */
void memory_note_call(nccl_comm comm, struct call *call);

#endif
