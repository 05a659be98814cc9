/*
 * Launches: from the calls of a group to one operation on a stream.
 *
 * The operation waits for its turn (a communicator's launches run in the order of their
 * issue, whatever their streams) and for a place on the device, runs, and leaves.
 */
#include "test/gpusim/nccl/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/job.h"
#include "test/gpusim/nccl/reduce.h"

enum {
    POISON = 0xcb
};

/* A launch that is not on a stream yet. */
struct launch_job {
    struct job base;
    struct launch *launch; /* NULL: it is on its stream */
    bool is_late; /* a fault: polls do not say so */
};

static bool leaves(const struct launch *launch)
{
    return atomic_load(&launch->comm->quit);
}

bool launch_pause(
        struct launch *launch, uint32_t seen, const struct call *call, uint64_t missing)
{
    char what[160];

    if (leaves(launch)) {
        return false;
    }
    if (comm_pause(launch->comm, seen, &launch->patience)) {
        (void)snprintf(what, sizeof what, "%s%s #%llu",
                launch->is_queued ? "the queue of its device, with " : "",
                function_name(call->function), (unsigned long long)call->sequence);
        comm_report_hang(launch->comm, what, missing);
    }
    return !leaves(launch);
}

void launch_stay(struct launch *launch)
{
    uint32_t seen;

    launch->patience = (struct patience){ .reported = true };
    do {
        seen = segment_bell(&launch->comm->segment);
    } while (launch_pause(launch, seen, &launch->calls[0], 0));
}

static bool wait_turn(struct launch *launch)
{
    nccl_comm comm = launch->comm;
    uint32_t seen;

    for (;;) {
        seen = segment_bell(&comm->segment);
        if (leaves(launch)) {
            return false;
        }
        if (atomic_load(&comm->finished) >= launch->turn) {
            return true;
        }
        if (!launch_pause(launch, seen, &launch->calls[0], 0)) {
            return false;
        }
    }
}

static bool run_calls(struct launch *launch)
{
    const struct call *call;
    bool has_pairs = false;

    for (call = launch->calls; call != launch->calls + launch->count; call++) {
        if (function_is_pair(call->function)) {
            has_pairs = true;
        } else if (!collective_run(launch, call)) {
            return false;
        }
    }
    return !has_pairs || pairs_run(launch);
}

/* A kernel that was told to leave has written something, nobody knows what. */
static void poison(const struct launch *launch)
{
    const struct call *call;
    size_t bytes;
    size_t length;
    size_t done;

    memset(launch->buffer, POISON, SEGMENT_CHUNK_BYTES);
    for (call = launch->calls; call != launch->calls + launch->count; call++) {
        bytes = call_output_bytes(launch->comm, call);
        for (done = 0; done < bytes; done += length) {
            length = size_min(bytes - done, SEGMENT_CHUNK_BYTES);
            gpusim_copy_in(call->output + done, launch->buffer, length);
        }
    }
}

static bool run_resident(struct launch *launch)
{
    struct resident place;
    bool done;

    if (!wait_turn(launch) || !resident_enter(&place, launch)) {
        return false;
    }
    if (launch->async != NCCL_SUCCESS) {
        atomic_store(&launch->comm->async, launch->async);
        launch_stay(launch);
        done = false;
    } else {
        done = run_calls(launch);
    }
    resident_leave(&place);
    return done;
}

static int body(void *argument)
{
    struct launch *launch = argument;

    if (!run_resident(launch)) {
        poison(launch);
    }
    return 0;
}

static void dispose(void *argument)
{
    struct launch *launch = argument;
    nccl_comm comm = launch->comm;

    (void)pthread_mutex_lock(&comm->lock);
    if (launch->is_captured) {
        comm->captured--;
    } else {
        (void)atomic_fetch_add(&comm->finished, 1);
        comm->flying--;
    }
    segment_ring(&comm->segment, comm->rank);
    (void)pthread_cond_broadcast(&comm->calm);
    (void)pthread_mutex_unlock(&comm->lock);
    mem_free(launch->calls);
    mem_free(launch->buffer);
    mem_free(launch);
}

/* Numbers the collectives. */
static void number_calls(struct launch *launch)
{
    uint32_t places = 0;
    uint32_t place = 0;
    struct call *call;

    for (call = launch->calls; call != launch->calls + launch->count; call++) {
        places += !function_is_pair(call->function);
    }
    for (call = launch->calls; call != launch->calls + launch->count; call++) {
        call->sequence = launch->comm->sequence;
        if (!function_is_pair(call->function)) {
            launch->comm->sequence++;
            call->place = place++;
            call->places = places;
        }
    }
}

static void find_faults(struct launch_job *self)
{
    struct launch *launch = self->launch;
    long value;

    if (fault_at(launch->comm->rank, "async", &value)) {
        launch->async = (nccl_result)value;
    }
    self->is_late = fault_at(launch->comm->rank, "late", &value);
}

/* Adds a range, unless it is empty. */
static size_t add_range(
        struct gpusim_range *ranges, size_t count, uint64_t start, size_t bytes)
{
    if (bytes != 0) {
        ranges[count++] = (struct gpusim_range){ .start = start, .bytes = bytes };
    }
    return count;
}

/* What the calls read and write. */
static void find_ranges(const struct launch *launch, struct gpusim_op *op,
        struct gpusim_range *reads, struct gpusim_range *writes)
{
    const struct call *call;

    for (call = launch->calls; call != launch->calls + launch->count; call++) {
        op->read_count = add_range(reads, op->read_count, call->input,
                call_input_bytes(launch->comm, call));
        op->write_count = add_range(writes, op->write_count, call->output,
                call_output_bytes(launch->comm, call));
    }
    op->reads = reads;
    op->writes = writes;
}

/* From now on the next launch of the communicator comes behind it; or it comes with a graph. */
static void count(struct launch *launch, int by)
{
    nccl_comm comm = launch->comm;

    (void)pthread_mutex_lock(&comm->lock);
    if (launch->is_captured) {
        comm->captured += by;
    } else {
        launch->turn = comm->issued;
        comm->issued += (uint64_t)by;
        comm->flying += by;
    }
    (void)pthread_mutex_unlock(&comm->lock);
}

/* A graph is launched, on whatever stream. */
static void *again(void *argument)
{
    const struct launch *captured = argument;
    struct launch *launch = must(mem_calloc(1, sizeof *launch));

    launch->comm = captured->comm;
    launch->count = captured->count;
    launch->calls = must(mem_calloc(launch->count, sizeof *launch->calls));
    memcpy(launch->calls, captured->calls, launch->count * sizeof *launch->calls);
    launch->buffer = must(mem_alloc(SEGMENT_CHUNK_BYTES));
    number_calls(launch);
    count(launch, 1);
    return launch;
}

/* Puts a launch on its stream, which owns it then if that went well. */
static int enqueue(struct launch *launch)
{
    struct gpusim_op op = {
        .label = function_name(launch->calls[0].function),
        .body = body,
        .dispose = dispose,
        .again = again,
        .argument = launch,
    };
    struct gpusim_range *ranges = must(mem_calloc(2 * launch->count, sizeof *ranges));
    int result;

    find_ranges(launch, &op, ranges, ranges + launch->count);
    count(launch, 1);
    result = gpusim_enqueue(launch->calls[0].stream, &op);
    if (result != CU_SUCCESS) {
        count(launch, -1);
    }
    mem_free(ranges);
    return result;
}

static nccl_result step(struct job *job)
{
    struct launch_job *self = (struct launch_job *)job;
    nccl_comm comm = job->comm;
    cu_context before;
    int result;

    if (self->launch == NULL) {
        return NCCL_IN_PROGRESS;
    }
    self->launch->is_captured = gpusim_is_captured(self->launch->calls[0].stream);
    if (!self->launch->is_captured) {
        number_calls(self->launch);
        find_faults(self);
    }
    (void)cuCtxPushCurrent_v2(comm->context);
    result = enqueue(self->launch);
    (void)cuCtxPopCurrent_v2(&before);
    if (result != CU_SUCCESS) {
        return comm_error(comm, NCCL_UNHANDLED_CUDA_ERROR,
                "%s: the launch failed with CUDA error %d",
                function_name(self->launch->calls[0].function), result);
    }
    self->launch = NULL;
    return self->is_late ? NCCL_IN_PROGRESS : NCCL_SUCCESS;
}

static void drop(struct job *job)
{
    struct launch_job *self = (struct launch_job *)job;

    if (self->launch != NULL) {
        mem_free(self->launch->calls);
        mem_free(self->launch->buffer);
        mem_free(self->launch);
    }
    mem_free(self);
}

static struct launch_job *create(nccl_comm comm)
{
    struct launch_job *self = must(mem_calloc(1, sizeof *self));

    self->base =
            (struct job){ .comm = comm, .waits = comm, .step = step, .dispose = drop };
    self->launch = must(mem_calloc(1, sizeof *self->launch));
    self->launch->comm = comm;
    self->launch->buffer = must(mem_alloc(SEGMENT_CHUNK_BYTES));
    return self;
}

nccl_result launch_call(nccl_comm comm, const struct call *call)
{
    struct job *kept = job_in_group(comm, step);
    struct launch_job *self = kept == NULL ? create(comm) : (struct launch_job *)kept;
    struct launch *launch = self->launch;

    if (launch->count > 0 && launch->calls[0].stream != call->stream) {
        gpusim_report("a group with calls on several streams, which is not simulated");
    }
    if (!mem_grow(&launch->calls, &launch->capacity, launch->count + 1, sizeof *call)) {
        abort();
    }
    launch->calls[launch->count++] = *call;
    self->base.function = function_name(launch->calls[0].function);
    return kept == NULL ? job_submit(&self->base) : NCCL_SUCCESS;
}
