/*
 * What kernels do. For a collective every rank writes what it gives to the shared file, comes to a
 * meeting, waits until all have, and takes what it needs. The place is used again two meetings
 * later, when all ranks, having come to the one between, have read it. Sums are folded in the
 * order of ranks, and every partial sum is rounded to the type, as in a ring that starts at rank 0.
 *
 * Sends and receives of a group are under way all at once; those to, or from, one rank match in
 * their order. A send ends when the receiver has taken it, so that what is not matched hangs,
 * as on a GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/reduce/reduce.h"
#include "test/gpusim/nccl/launch.h"

/* The product's, whose arithmetic is that of tests of its own. */
static const tutti_dtype types[] = {
    [NCCL_INT8] = TUTTI_INT8,
    [NCCL_UINT8] = TUTTI_UINT8,
    [NCCL_INT32] = TUTTI_INT32,
    [NCCL_UINT32] = TUTTI_UINT32,
    [NCCL_INT64] = TUTTI_INT64,
    [NCCL_UINT64] = TUTTI_UINT64,
    [NCCL_FLOAT16] = TUTTI_FLOAT16,
    [NCCL_FLOAT32] = TUTTI_FLOAT32,
    [NCCL_FLOAT64] = TUTTI_FLOAT64,
    [NCCL_BFLOAT16] = TUTTI_BFLOAT16,
};

static const tutti_reduce_op folds[] = {
    [NCCL_SUM] = TUTTI_SUM,
    [NCCL_PROD] = TUTTI_PRODUCT,
    [NCCL_MAX] = TUTTI_MAX,
    [NCCL_MIN] = TUTTI_MIN,
};

/* A side of a call: how many times its count it has. */
enum side {
    SIDE_NONE,
    SIDE_ONE,
    SIDE_ALL, /* once for each rank    */
    SIDE_ROOT /* once on the root only */
};

static const struct {
    const char *name;
    enum side input, output;
} functions[] = {
    [FUNCTION_ALL_REDUCE] = { "ncclAllReduce", SIDE_ONE, SIDE_ONE },
    [FUNCTION_REDUCE] = { "ncclReduce", SIDE_ONE, SIDE_ROOT },
    [FUNCTION_BROADCAST] = { "ncclBroadcast", SIDE_ROOT, SIDE_ONE },
    [FUNCTION_ALL_GATHER] = { "ncclAllGather", SIDE_ONE, SIDE_ALL },
    [FUNCTION_REDUCE_SCATTER] = { "ncclReduceScatter", SIDE_ALL, SIDE_ONE },
    [FUNCTION_SEND] = { "ncclSend", SIDE_ONE, SIDE_NONE },
    [FUNCTION_RECV] = { "ncclRecv", SIDE_NONE, SIDE_ONE },
    [FUNCTION_INIT] = { "ncclCommInitRank", SIDE_NONE, SIDE_NONE },
    [FUNCTION_SPLIT] = { "ncclCommSplit", SIDE_NONE, SIDE_NONE },
    [FUNCTION_DESTROY] = { "ncclCommDestroy", SIDE_NONE, SIDE_NONE },
};

/* ---- calls ---- */

const char *function_name(enum function function)
{
    return functions[function].name;
}

bool function_is_pair(enum function function)
{
    return function == FUNCTION_SEND || function == FUNCTION_RECV;
}

static size_t part_bytes(const struct call *call)
{
    return call->count * tutti_dtype_size(types[call->type]);
}

static size_t side_bytes(
        const struct nccl_comm_object *comm, const struct call *call, enum side side)
{
    switch (side) {
    case SIDE_NONE:
        return 0;
    case SIDE_ONE:
        return part_bytes(call);
    case SIDE_ALL:
        return part_bytes(call) * (size_t)comm->ranks;
    case SIDE_ROOT:
        return comm->rank == call->root ? part_bytes(call) : 0;
    }
    return 0;
}

size_t call_input_bytes(const struct nccl_comm_object *comm, const struct call *call)
{
    return side_bytes(comm, call, functions[call->function].input);
}

size_t call_output_bytes(const struct nccl_comm_object *comm, const struct call *call)
{
    return side_bytes(comm, call, functions[call->function].output);
}

/* Where in a side the rank's own part is. */
static size_t own_part(nccl_comm comm, const struct call *call, enum side side)
{
    return side == SIDE_ALL ? part_bytes(call) * (size_t)comm->rank : 0;
}

bool call_is_in_place(nccl_comm comm, const struct call *call)
{
    return call->input + own_part(comm, call, functions[call->function].input) ==
            call->output + own_part(comm, call, functions[call->function].output);
}

/* Of a side: 0 if it is not on all ranks, 1 where only what is registered has to be the same. */
static uint64_t noted_place(enum side side, enum side other, uint64_t place)
{
    if (side == SIDE_ROOT) {
        return 0;
    }
    return other == SIDE_ALL || other == SIDE_NONE ? place != 0 : place;
}

void call_note_places(struct call *call, uint64_t input, uint64_t output)
{
    const enum side in = functions[call->function].input;
    const enum side out = functions[call->function].output;

    call->input_place = noted_place(in, out, input);
    call->output_place = noted_place(out, in, output);
}

/* ---- collectives ---- */

/* Folds a part of all ranks. */
static void take_folded(nccl_comm comm, const struct call *call, uint64_t part)
{
    const struct reduce_spec spec = { .dtype = types[call->type],
        .op = folds[call->fold],
        .divisor = 1,
        .prescale = 1,
        .postscale = 1 };
    struct segment *segment = &comm->segment;
    const size_t bytes = part_bytes(call);
    void *sum = gpusim_at(call->output);
    void *more = malloc(bytes);

    segment_take(segment, segment_place(segment, 0, 0) + part, call->output, bytes);
    for (int rank = 1; rank < comm->ranks; rank++) {
        segment_take(segment, segment_place(segment, rank, 0) + part,
                (uint64_t)(uintptr_t)more, bytes);
        gpusim_memory_lock();
        reduce_tree(&spec, (const void *[]){ sum, more }, 2, (void *[]){ sum }, 1,
                call->count);
        gpusim_memory_unlock();
    }
    free(more);
}

static void take(nccl_comm comm, const struct call *call)
{
    const struct segment *segment = &comm->segment;
    const size_t bytes = part_bytes(call);

    if (call_output_bytes(comm, call) == 0) {
        return;
    }
    if (call->fold >= 0) {
        take_folded(comm, call, own_part(comm, call, functions[call->function].input));
    } else if (call->function == FUNCTION_BROADCAST) {
        segment_take(
                segment, segment_place(segment, call->root, 0), call->output, bytes);
    } else {
        for (int rank = 0; rank < comm->ranks; rank++) {
            segment_take(segment, segment_place(segment, rank, 0),
                    call->output + (size_t)rank * bytes, bytes);
        }
    }
}

static struct segment_facts facts_of(const struct call *call)
{
    return (struct segment_facts){ .function = (int32_t)call->function,
        .count = call->count,
        .type = call->type,
        .reduction = call->fold,
        .root = call->root,
        .place = call->place,
        .places = call->places,
        .input_place = call->input_place,
        .output_place = call->output_place };
}

static uint64_t missing_ranks(void *user)
{
    const struct launch *launch = user;

    return segment_missing(&launch->comm->segment, SEGMENT_KERNELS, UINT64_MAX);
}

bool collective_run(struct launch *launch, const struct call *call)
{
    const struct segment_word word = { .facts = facts_of(call) };
    struct segment *segment = &launch->comm->segment;

    segment_put(segment, segment_place(segment, segment->rank, 1), call->input,
            call_input_bytes(launch->comm, call));
    segment_come(segment, SEGMENT_KERNELS, &word);
    if (!launch_await(launch, call, missing_ranks)) {
        return false;
    }
    segment_agree(segment, SEGMENT_KERNELS, UINT64_MAX);
    take(launch->comm, call);
    return true;
}

/* ---- sends and receives ---- */

static struct segment_facts message_of(const struct call *call)
{
    struct segment_facts facts = facts_of(call);

    facts.function = FUNCTION_SEND;
    facts.input_place = facts.output_place = call->input_place + call->output_place;
    facts.root = -1;
    return facts;
}

static void send(const struct segment *segment, struct call *call)
{
    struct segment_pair *pair = &segment->shared->pairs[segment->rank][call->root];
    const uint64_t taken = atomic_load(&pair->taken);

    if (call->message == 0 && taken == atomic_load(&pair->sent)) {
        segment_put(segment, segment_message_place(segment->rank, call->root),
                call->input, part_bytes(call));
        pair->facts = message_of(call);
        call->message = taken + 1;
        atomic_store(&pair->sent, taken + 1);
        segment_ring(segment);
    }
    call->is_done = call->message != 0 && taken >= call->message;
}

static void receive(const struct segment *segment, struct call *call)
{
    struct segment_pair *pair = &segment->shared->pairs[call->root][segment->rank];
    const uint64_t taken = atomic_load(&pair->taken);
    const struct segment_facts facts = message_of(call);

    if (taken == atomic_load(&pair->sent)) {
        return;
    }
    segment_compare(segment, &facts, call->root, &pair->facts);
    segment_take(segment, segment_message_place(call->root, segment->rank),
            call->output, part_bytes(call));
    atomic_store(&pair->taken, taken + 1);
    call->is_done = true;
    segment_ring(segment);
}

/* Moves what can be moved; ranks with messages that are not over. */
static uint64_t move(void *user)
{
    const struct launch *launch = user;
    uint64_t busy[2] = { 0, 0 }; /* with an earlier send, or receive, under way */

    for (struct call *call = launch->calls; call != launch->calls + launch->count;
            call++) {
        const bool sends = call->function == FUNCTION_SEND;
        const uint64_t peer = UINT64_C(1) << call->root;

        if (!function_is_pair(call->function) || call->is_done ||
                (busy[sends] & peer) != 0) {
            continue;
        }
        if (sends) {
            send(&launch->comm->segment, call);
        } else {
            receive(&launch->comm->segment, call);
        }
        busy[sends] |= call->is_done ? 0 : peer;
    }
    return busy[0] | busy[1];
}

bool pairs_run(struct launch *launch)
{
    const struct call *first = launch->calls;

    while (first != launch->calls + launch->count &&
            !function_is_pair(first->function)) {
        first++;
    }
    return first == launch->calls + launch->count || launch_await(launch, first, move);
}
