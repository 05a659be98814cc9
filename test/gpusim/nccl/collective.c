/*
 * Collectives: step by step, every rank puts a chunk of its data into the shared memory,
 * waits until all have, and takes what it needs. A chunk is written again two steps later,
 * when all ranks, having come to the step between, have read it.
 *
 *   rank 0   put 0 | come to 0 ... all there | take 0, put 1 | come to 1 ...
 *   rank 1     put 0 | come to 0 . all there | take 0, put 1 | come to 1 ...
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/launch.h"
#include "test/gpusim/nccl/reduce.h"

static_assert(sizeof(struct segment_facts) == 64, "facts are compared as bytes");

/* One step of one collective. */
struct step {
    struct launch *launch;
    const struct call *call;
    size_t width; /* bytes of an element                     */
    uint64_t offset; /* elements before this step               */
    size_t count; /* elements of each part in this step      */
    uint64_t number; /* of the step in the communicator         */
};

/* Parts that a rank's chunk has: one for each receiver, or one for all. */
static size_t parts_of(nccl_comm comm, enum function function)
{
    return function == FUNCTION_REDUCE_SCATTER ? (size_t)comm->ranks : 1;
}

static unsigned char *part(const struct step *step, int rank, int index)
{
    return segment_chunk(&step->launch->comm->segment, rank, step->number) +
            (size_t)index * step->count * step->width;
}

/* Puts this rank's data of the step where all can read them. */
static void put(const struct step *step)
{
    nccl_comm comm = step->launch->comm;
    const struct call *call = step->call;
    size_t parts = parts_of(comm, call->function);
    size_t bytes = step->count * step->width;
    size_t i;

    if (call->function == FUNCTION_BROADCAST && comm->rank != call->root) {
        return;
    }
    for (i = 0; i < parts; i++) {
        gpusim_copy_out(part(step, comm->rank, (int)i),
                call->input + (i * call->count + step->offset) * step->width, bytes);
    }
}

/* Writes to this rank's output, of which part `index` is meant. */
static void take_part(const struct step *step, int index, const void *from)
{
    gpusim_copy_in(step->call->output +
                    ((size_t)index * step->call->count + step->offset) * step->width,
            from, step->count * step->width);
}

/* Folds a part of all ranks, in their order. */
static void take_folded(const struct step *step, int index)
{
    const struct call *call = step->call;
    nccl_comm comm = step->launch->comm;
    unsigned char *buffer = step->launch->buffer;
    int rank;

    memcpy(buffer, part(step, 0, index), step->count * step->width);
    for (rank = 1; rank < comm->ranks; rank++) {
        reduce_fold(
                call->type, call->fold, buffer, part(step, rank, index), step->count);
    }
    take_part(step, 0, buffer);
}

static void take(const struct step *step)
{
    const struct call *call = step->call;
    int here = step->launch->comm->rank;
    int rank;

    switch (call->function) {
    case FUNCTION_REDUCE:
        if (here != call->root) {
            return;
        }
        take_folded(step, 0);
        return;
    case FUNCTION_ALL_REDUCE:
        take_folded(step, 0);
        return;
    case FUNCTION_REDUCE_SCATTER:
        take_folded(step, here);
        return;
    case FUNCTION_BROADCAST:
        take_part(step, 0, part(step, call->root, 0));
        return;
    case FUNCTION_ALL_GATHER:
        for (rank = 0; rank < step->launch->comm->ranks; rank++) {
            take_part(step, rank, part(step, rank, 0));
        }
        return;
    case FUNCTION_SEND:
    case FUNCTION_RECV:
        return;
    }
}

/* Ranks that have not come to the step. */
static uint64_t missing(const struct segment *segment, uint64_t number)
{
    uint64_t missing_ranks = 0;
    int rank;

    for (rank = 0; rank < segment->ranks; rank++) {
        if (atomic_load(&segment_rank(segment, rank)->steps) < number) {
            missing_ranks |= UINT64_C(1) << rank;
        }
    }
    return missing_ranks;
}

static void facts_text(const struct segment_facts *facts, char *text, size_t capacity)
{
    (void)snprintf(text, capacity,
            "%s #%llu of %llu x %s, reduction %d, root %d, %u of %u in its group, "
            "at element %llu; registered at %llx and %llx",
            function_name((enum function)facts->function),
            (unsigned long long)facts->sequence, (unsigned long long)facts->count,
            reduce_type_name(facts->type), facts->reduction, facts->root,
            facts->place + 1, facts->places, (unsigned long long)facts->offset,
            (unsigned long long)facts->input_place,
            (unsigned long long)facts->output_place);
}

/* All ranks do the same in this step, or the process ends. */
static void agree(const struct step *step)
{
    nccl_comm comm = step->launch->comm;
    const struct segment_facts *ours =
            &segment_rank(&comm->segment, comm->rank)->facts[step->number & 1];
    const struct segment_facts *theirs;
    char here[SEGMENT_TEXT_BYTES];
    char there[SEGMENT_TEXT_BYTES];
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        theirs = &segment_rank(&comm->segment, rank)->facts[step->number & 1];
        if (memcmp(theirs, ours, sizeof *ours) == 0) {
            continue;
        }
        facts_text(ours, here, sizeof here);
        facts_text(theirs, there, sizeof there);
        comm_report_fatal(
                "MISMATCH in communicator %04llx: rank %d does %s; rank %d does %s",
                (unsigned long long)comm->number, comm->rank, here, rank, there);
    }
}

static void tell_facts(const struct step *step)
{
    nccl_comm comm = step->launch->comm;
    const struct call *call = step->call;
    struct segment_rank *here = segment_rank(&comm->segment, comm->rank);
    struct segment_facts *facts = &here->facts[step->number & 1];

    facts->sequence = call->sequence;
    facts->offset = step->offset;
    facts->count = call->count;
    facts->function = (int32_t)call->function;
    facts->type = call->type;
    facts->reduction = call->fold;
    facts->root = call->root;
    facts->place = call->place;
    facts->places = call->places;
    facts->input_place = call->input_place;
    facts->output_place = call->output_place;
    atomic_store(&here->steps, step->number);
    segment_ring_all(&comm->segment);
}

/* One step; false when the kernel has to leave. */
static bool run_step(struct step *step)
{
    struct segment *segment = &step->launch->comm->segment;
    uint64_t waiting;
    uint32_t seen;

    step->number = atomic_load(&segment_rank(segment, segment->rank)->steps) + 1;
    put(step);
    tell_facts(step);
    step->launch->patience = (struct patience){ .since = 0 };
    for (;;) {
        seen = segment_bell(segment);
        waiting = missing(segment, step->number);
        if (waiting == 0) {
            break;
        }
        if (!launch_pause(step->launch, seen, step->call, waiting)) {
            return false;
        }
    }
    agree(step);
    take(step);
    return true;
}

bool collective_run(struct launch *launch, const struct call *call)
{
    struct step step = {
        .launch = launch,
        .call = call,
        .width = reduce_type_bytes(call->type),
    };
    size_t most =
            SEGMENT_CHUNK_BYTES / step.width / parts_of(launch->comm, call->function);

    for (; step.offset < call->count; step.offset += step.count) {
        step.count = call->count - step.offset;
        if (step.count > most) {
            step.count = most;
        }
        if (!run_step(&step)) {
            return false;
        }
    }
    return true;
}

const char *function_name(enum function function)
{
    static const char *const names[] = {
        [FUNCTION_ALL_REDUCE] = "ncclAllReduce",
        [FUNCTION_REDUCE] = "ncclReduce",
        [FUNCTION_BROADCAST] = "ncclBroadcast",
        [FUNCTION_ALL_GATHER] = "ncclAllGather",
        [FUNCTION_REDUCE_SCATTER] = "ncclReduceScatter",
        [FUNCTION_SEND] = "ncclSend",
        [FUNCTION_RECV] = "ncclRecv",
    };

    return names[function];
}

bool function_is_pair(enum function function)
{
    return function == FUNCTION_SEND || function == FUNCTION_RECV;
}

size_t call_input_bytes(nccl_comm comm, const struct call *call)
{
    size_t bytes = call->count * reduce_type_bytes(call->type);

    if (call->function == FUNCTION_RECV ||
            (call->function == FUNCTION_BROADCAST && comm->rank != call->root)) {
        return 0;
    }
    return bytes * parts_of(comm, call->function);
}

size_t call_output_bytes(nccl_comm comm, const struct call *call)
{
    size_t bytes = call->count * reduce_type_bytes(call->type);

    if (call->function == FUNCTION_SEND ||
            (call->function == FUNCTION_REDUCE && comm->rank != call->root)) {
        return 0;
    }
    return call->function == FUNCTION_ALL_GATHER ? bytes * (size_t)comm->ranks : bytes;
}
