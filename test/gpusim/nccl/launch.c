/*
 * Launches: from the calls of a group to one operation on a stream.
 *
 * The operation waits for its turn (a communicator's launches run in the order of their
 * issue, whatever their streams) and for the device, runs, and leaves.
 */
#include "test/gpusim/nccl/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A device runs one collective at a time: those of other communicators wait, though they are on
 * other streams. So two communicators whose collectives two ranks launch in different orders wait
 * for each other for ever, as they may on a GPU.
 */
static pthread_mutex_t devices[DEVICES_MAX]; /* zero is PTHREAD_MUTEX_INITIALIZER */

/* ---- bodies ---- */

bool launch_await(
        struct launch *launch, const struct call *call, uint64_t (*missing)(void *user))
{
    char what[64];

    (void)snprintf(what, sizeof what, "%s #%llu", function_name(call->function),
            (unsigned long long)call->sequence);
    return comm_await(launch->comm, missing, launch, what);
}

/* Itself, until it has a turn. */
static uint64_t missing_turn(void *user)
{
    const struct launch *launch = user;
    const bool has = atomic_load(&launch->comm->finished) >= launch->turn;

    return has ? 0 : UINT64_C(1) << launch->comm->rank;
}

/* Something is broken for good. */
static uint64_t missing_for_ever(void *user)
{
    const struct launch *launch = user;

    return UINT64_C(1) << launch->comm->rank;
}

static void run_calls(struct launch *launch)
{
    const struct call *call;

    if (launch->async != NCCL_SUCCESS) {
        atomic_store(&launch->comm->async, launch->async);
        (void)launch_await(launch, &launch->calls[0], missing_for_ever);
        return;
    }
    for (call = launch->calls; call != launch->calls + launch->count; call++) {
        if (!function_is_pair(call->function) && !collective_run(launch, call)) {
            return;
        }
    }
    (void)pairs_run(launch);
}

static void count_resident(size_t by)
{
    live_lock()->resident += by;
    live_unlock();
}

static int body(void *argument)
{
    struct launch *launch = argument;
    pthread_mutex_t *device = &devices[launch->comm->device];

    if (launch_await(launch, &launch->calls[0], missing_turn)) {
        count_resident(1);
        (void)pthread_mutex_lock(device);
        run_calls(launch);
        (void)pthread_mutex_unlock(device);
        count_resident((size_t)-1);
    }
    return 0;
}

void launch_drop(struct launch *launch)
{
    if (launch != NULL) {
        free(launch->calls);
        free(launch);
    }
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
    segment_ring(&comm->segment);
    (void)pthread_mutex_unlock(&comm->lock);
    launch_drop(launch);
}

/* ---- onto the stream ---- */

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

/* What the calls read and write. */
static void ranges(const void *argument, struct gpusim_accesses *accesses)
{
    const struct launch *launch = argument;
    const struct call *call;

    for (call = launch->calls; call != launch->calls + launch->count; call++) {
        gpusim_reads(accesses, call->input, call_input_bytes(launch->comm, call));
        gpusim_writes(accesses, call->output, call_output_bytes(launch->comm, call));
    }
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

static void add_call(struct launch *launch, const struct call *call)
{
    launch->calls = realloc(launch->calls, (launch->count + 1) * sizeof *call);
    launch->calls[launch->count++] = *call;
}

/* A graph is launched, on whatever stream. */
static void *again(void *argument)
{
    const struct launch *captured = argument;
    struct launch *launch = calloc(1, sizeof *launch);

    launch->comm = captured->comm;
    for (size_t i = 0; i < captured->count; i++) {
        add_call(launch, &captured->calls[i]);
    }
    number_calls(launch);
    count(launch, 1);
    return launch;
}

/* Puts a launch on its stream, which owns it then if that went well. */
static int enqueue(struct launch *launch)
{
    const struct gpusim_op op = {
        .label = function_name(launch->calls[0].function),
        .ranges = ranges,
        .body = body,
        .dispose = dispose,
        .again = again,
        .argument = launch,
    };
    int result;

    count(launch, 1);
    result = gpusim_enqueue(launch->calls[0].stream, &op);
    if (result != CU_SUCCESS) {
        count(launch, -1);
    }
    return result;
}

static nccl_result step(struct job *job)
{
    struct launch *launch = job->launch;
    cu_capture_status status = CU_CAPTURE_NONE;
    cu_context before;
    int result;

    if (launch == NULL) {
        return NCCL_IN_PROGRESS;
    }
    (void)cuCtxPushCurrent_v2(launch->comm->context);
    (void)cuStreamIsCapturing(launch->calls[0].stream, &status);
    launch->is_captured = status != CU_CAPTURE_NONE;
    if (!launch->is_captured) {
        number_calls(launch);
        launch->async = fault_of(job->comm->rank, "async");
        job->is_stuck = fault_of(job->comm->rank, "late") != 0;
    }
    result = enqueue(launch);
    (void)cuCtxPopCurrent_v2(&before);
    if (result != CU_SUCCESS) {
        return comm_error(NCCL_UNHANDLED_CUDA_ERROR,
                "%s: the launch failed with CUDA error %d", job->function, result);
    }
    job->launch = NULL;
    return job->is_stuck ? NCCL_IN_PROGRESS : NCCL_SUCCESS;
}

nccl_result launch_submit(struct launch *launch)
{
    return job_submit(&(struct job){ .comm = launch->comm,
            .function = function_name(launch->calls[0].function),
            .step = step,
            .launch = launch });
}

nccl_result launch_call(nccl_comm comm, const struct call *call)
{
    struct launch **kept = job_group_launch();
    struct launch *launch = kept == NULL ? NULL : *kept;

    if (launch == NULL) {
        launch = calloc(1, sizeof *launch);
        launch->comm = comm;
    } else if (launch->comm != comm || launch->calls[0].stream != call->stream) {
        comm_report_fatal("a group of several communicators or streams, which is not "
                          "simulated");
    }
    add_call(launch, call);
    if (kept == NULL) {
        return launch_submit(launch);
    }
    *kept = launch;
    return NCCL_SUCCESS;
}
