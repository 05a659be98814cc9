#include "ops/gpu/issue.h"

#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/faults.h"
#include "ops/gpu/communicator.h"

/* NCCL is asked so often whether it is done before others get their turn, or for so long. */
#define CALL_POLLS 64
#define CALL_POLLS_MAX 1024
#define CALL_NS 200000

static const char issuing[] = "put a batch on the GPU";

void issue_init(struct issuer *issuer, struct gpu *gpu, struct op_device_counts *counts)
{
    issuer->gpu = gpu;
    issuer->counts = counts;
    packing_init(&issuer->packing, gpu, counts);
}

void issue_fini(struct issuer *issuer)
{
    flight_fini(&issuer->flight, issuer->gpu);
    script_fini(&issuer->script);
}

/* ------------------------------------------------------------------------ calls */

static cu_stream stream_of(const struct issuer *issuer, const struct gpu_task *task,
        enum gpu_stream stream)
{
    return task->graph != NULL ? task->batch->stream : issuer->gpu->streams[stream];
}

static void *address(const struct gpu_task *task, struct script_place place)
{
    const uint64_t base = place.in_slab ? task->slab->stretch.base : 0;

    return (void *)(uintptr_t)(base + place.at); // NOLINT(performance-no-int-to-ptr)
}

static nccl_result call_nccl(const struct issuer *issuer, const struct gpu_task *task,
        const struct script_call *call)
{
    const struct nccl_api *nccl = issuer->gpu->nccl;
    cu_stream stream = stream_of(issuer, task, GPU_COMM);
    nccl_comm comm = task->communicator->comm;
    const nccl_dtype dtype = task->form.nccl;
    const nccl_op op = task->form.op;
    void *output = address(task, call->output);
    const void *input = address(task, call->input);

    switch (call->verb) {
    case SCRIPT_ALL_REDUCE:
        return nccl->all_reduce(input, output, call->count, dtype, op, comm, stream);
    case SCRIPT_REDUCE:
        return nccl->reduce(
                input, output, call->count, dtype, op, call->peer, comm, stream);
    case SCRIPT_REDUCE_SCATTER:
        return nccl->reduce_scatter(
                input, output, call->count, dtype, op, comm, stream);
    case SCRIPT_BROADCAST:
        return nccl->broadcast(
                input, output, call->count, dtype, call->peer, comm, stream);
    case SCRIPT_ALL_GATHER:
        return nccl->all_gather(input, output, call->count, dtype, comm, stream);
    case SCRIPT_SEND:
        return nccl->send(input, call->count, dtype, call->peer, comm, stream);
    case SCRIPT_RECV:
        return nccl->recv(output, call->count, dtype, call->peer, comm, stream);
    case SCRIPT_COPY:
        break;
    }
    return NCCL_SUCCESS;
}

/* Copies stay outside of the group. */
static tutti_status copy_own(struct issuer *issuer, const struct gpu_task *task)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < issuer->script.call_count && status == TUTTI_OK; i++) {
        const struct script_call *call = &issuer->script.calls[i];

        if (call->verb == SCRIPT_COPY) {
            status = gpu_check(issuer->gpu,
                    issuer->gpu->cuda->memcpy_dtod_async(
                            (cu_pointer)(uintptr_t)address(task, call->output),
                            (cu_pointer)(uintptr_t)address(task, call->input),
                            call->count, stream_of(issuer, task, GPU_COMM)),
                    "copy a rank's own part");
        }
    }
    return status;
}

/* A group is ended even if a call in it has failed. */
static tutti_status call_all(struct issuer *issuer, const struct gpu_task *task)
{
    const struct nccl_api *nccl = issuer->gpu->nccl;
    nccl_result result = nccl->group_start();
    nccl_result ended;

    if (result != NCCL_SUCCESS) {
        return communicator_check(issuer->gpu, task->communicator, result, issuing);
    }
    for (size_t i = 0; i < issuer->script.call_count; i++) {
        const struct script_call *call = &issuer->script.calls[i];

        if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
            result = call_nccl(issuer, task, call);
        }
    }
    ended = nccl->group_end();
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
        result = ended;
    }
    return communicator_check(issuer->gpu, task->communicator, result, issuing);
}

/* ---------------------------------------------------------------------- issuing */

/* tutti_alloc() rounds sizes up; what it adds belongs to nobody. */
static bool is_padding(void *user, uint64_t at, size_t bytes)
{
    return gpu_memory_is_padding(user, at, bytes);
}

static tutti_status write_script(struct issuer *issuer, const struct gpu_task *task)
{
    const struct script_view view = { .batch = task->batch,
        .form = &task->form,
        .kernels = issuer->gpu->has_kernels,
        .registers = gpu_registers(issuer->gpu, task->batch->set),
        .is_padding = is_padding,
        .user = issuer->gpu };

    script_reset(&issuer->script);
    return op_is_reduction(task->batch->collective)
            ? script_reduction(&issuer->script, &view)
            : script_exchange(&issuer->script, &view);
}

static tutti_status follow_events(const struct issuer *issuer,
        const struct gpu_task *task, enum gpu_stream stream)
{
    const struct op_batch *batch = task->batch;
    tutti_status status = TUTTI_OK;

    if (FAULT(REMOVED_EVENT_WAIT)) {
        return TUTTI_OK;
    }
    if (task->graph != NULL) {
        return gpu_graph_follow(issuer->gpu, task->graph, batch->stream, batch->after,
                batch->after_count);
    }
    for (size_t i = 0; i < batch->after_count && status == TUTTI_OK; i++) {
        status = gpu_follow(issuer->gpu, issuer->gpu->streams[stream], batch->after[i]);
    }
    return status;
}

/* One stream waits for what is on another now. */
static tutti_status chain(const struct issuer *issuer, const struct gpu_task *task,
        enum gpu_stream behind, enum gpu_stream before)
{
    struct gpu *gpu = issuer->gpu;
    struct device_event *event = NULL;
    tutti_status status;

    if (task->graph != NULL) {
        return TUTTI_OK; /* they are the same */
    }
    status = gpu_record(gpu, gpu->streams[before], &event);
    if (status == TUTTI_OK) {
        status = gpu_follow(gpu, gpu->streams[behind], event);
    }
    gpu_event_release(gpu, event);
    return status;
}

static tutti_status pack(struct issuer *issuer, const struct gpu_task *task)
{
    const struct packing_work work = { .pieces = &issuer->script.gathers,
        .form = &task->form,
        .direction = PACK_GATHER,
        .slab = task->slab != NULL ? task->slab->stretch.base : 0,
        .stream = stream_of(issuer, task, GPU_PACK) };
    tutti_status status = packing_run(&issuer->packing, &work);

    return status == TUTTI_OK ? chain(issuer, task, GPU_COMM, GPU_PACK) : status;
}

static tutti_status find_communicator(
        const struct issuer *issuer, struct gpu_task *task)
{
    const uint32_t set = task->batch->set->id;

    task->communicator = communicators_find(issuer->gpu, set);
    return task->communicator != NULL
            ? TUTTI_OK
            : error_set(TUTTI_ERR_INTERNAL,
                      "rank %d: the ranks of process set %u have not met",
                      issuer->gpu->rank, set);
}

/* True where NCCL gets memory that is registered with it: not where parts are sent, nor in a
 * graph, whose slabs are its own. */
static bool registers(const struct issuer *issuer, const struct gpu_task *task)
{
    const tutti_collective collective = task->batch->collective;

    return task->graph == NULL && gpu_registers(issuer->gpu, task->batch->set) &&
            collective != TUTTI_ALLTOALL && collective != TUTTI_GATHER &&
            collective != TUTTI_SCATTER;
}

static tutti_status take_slab(
        struct issuer *issuer, struct gpu_task *task, enum gpu_stream stream)
{
    const size_t bytes = issuer->script.slab_bytes;

    if (bytes == 0) {
        return TUTTI_OK;
    }
    if (task->graph != NULL) {
        task->slab = gpu_graph_slab(issuer->gpu, task->graph, bytes);
    } else if (registers(issuer, task)) {
        task->slab =
                gpu_slab_take_turn(issuer->gpu, bytes, issuer->gpu->streams[stream]);
    } else {
        task->slab = gpu_slab_take(issuer->gpu, bytes, issuer->gpu->streams[stream]);
    }
    if (task->slab == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    if (registers(issuer, task) && !task->slab->stretch.of_nccl) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "rank %d: ncclMemAlloc() has no memory for a buffer of %zu bytes on "
                "GPU "
                "%d (%s), and all ranks must register theirs; gpu_register=false does "
                "without",
                issuer->gpu->rank, task->slab->stretch.bytes, issuer->gpu->ordinal,
                issuer->gpu->pci);
    }
    return TUTTI_OK;
}

/* The bug: a rank goes on without what the others do together. */
static bool is_forgotten(const struct issuer *issuer, const struct gpu_task *task)
{
    return FAULT(SKIPPED_COLLECTIVE) && issuer->gpu->rank == 0 &&
            op_is_reduction(task->batch->collective);
}

static tutti_status register_place(const struct issuer *issuer,
        const struct gpu_task *task, struct script_place place)
{
    struct gpu_stretch *stretch = place.in_slab
            ? &task->slab->stretch
            : gpu_memory_stretch(issuer->gpu, place.at);

    return stretch != NULL
            ? communicator_register(issuer->gpu, task->communicator, stretch)
            : TUTTI_OK;
}

/* What the calls use, unless it is registered, in an order that is the same on all ranks. */
static tutti_status register_all(
        const struct issuer *issuer, const struct gpu_task *task)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < issuer->script.call_count && status == TUTTI_OK; i++) {
        status = register_place(issuer, task, issuer->script.calls[i].input);
        if (status == TUTTI_OK) {
            status = register_place(issuer, task, issuer->script.calls[i].output);
        }
    }
    return status;
}

static tutti_status call(struct issuer *issuer, struct gpu_task *task)
{
    tutti_status status = TUTTI_OK;

    task->calls = issuer->script.call_count > 0 && !is_forgotten(issuer, task);
    if (!task->calls) {
        return TUTTI_OK;
    }
    if (registers(issuer, task)) {
        status = register_all(issuer, task);
    }
    task->since_ns = clock_ns();
    return status == TUTTI_OK ? call_all(issuer, task) : status;
}

/* Up to NCCL's part. */
static tutti_status issue(struct issuer *issuer, struct gpu_task *task)
{
    enum gpu_stream first;
    tutti_status status;

    if (issuer->flight.count == FLIGHT_MAX) {
        return TUTTI_AGAIN;
    }
    status = find_communicator(issuer, task);
    if (status == TUTTI_OK && task->batch->space == OP_CAPTURED) {
        status = gpu_graph_find(issuer->gpu, task->batch->stream, &task->graph);
        task->communicator->is_captured = true;
    }
    if (status == TUTTI_OK) {
        status = write_script(issuer, task);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    first = issuer->script.gathers.count > 0 ? GPU_PACK : GPU_COMM;
    status = take_slab(issuer, task, first);
    if (status == TUTTI_OK) {
        status = follow_events(issuer, task, first);
    }
    if (status == TUTTI_OK && first == GPU_PACK) {
        status = pack(issuer, task);
    }
    if (status == TUTTI_OK) {
        status = copy_own(issuer, task);
    }
    task->is_called = true;
    return status == TUTTI_OK ? call(issuer, task) : status;
}

static void count_paths(const struct issuer *issuer, const struct gpu_task *task)
{
    if (issuer->counts == NULL) {
        return;
    }
    if (task->slab != NULL) {
        (void)atomic_fetch_add_explicit(
                &issuer->counts->packed, 1, memory_order_relaxed);
    } else if (task->batch->run_count > 1) {
        (void)atomic_fetch_add_explicit(
                &issuer->counts->in_place, 1, memory_order_relaxed);
    }
}

/* What comes after NCCL's part. */
static tutti_status finish(struct issuer *issuer, struct gpu_task *task)
{
    struct gpu *gpu = issuer->gpu;
    const bool scatters = issuer->script.scatters.count > 0;
    const enum gpu_stream last = scatters ? GPU_UNPACK : GPU_COMM;
    const struct packing_work work = { .pieces = &issuer->script.scatters,
        .form = &task->form,
        .direction = PACK_SCATTER,
        .slab = task->slab != NULL ? task->slab->stretch.base : 0,
        .stream = stream_of(issuer, task, GPU_UNPACK) };
    struct device_event *event = NULL;
    tutti_status status = TUTTI_OK;

    if (scatters) {
        status = chain(issuer, task, GPU_UNPACK, GPU_COMM);
    }
    if (status == TUTTI_OK && scatters) {
        status = packing_run(&issuer->packing, &work);
    }
    if (status == TUTTI_OK) {
        status = task->graph != NULL
                ? gpu_graph_record(gpu, task->graph, task->batch->stream, &event)
                : gpu_record(gpu, gpu->streams[last], &event);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    count_paths(issuer, task);
    if (task->graph == NULL) {
        flight_add(&issuer->flight, task->batch, event);
    }
    if (task->graph == NULL && task->slab != NULL) {
        gpu_slab_give(gpu, task->slab, event);
    }
    task->slab = NULL;
    *task->batch->issued = event;
    return TUTTI_OK;
}

/* NCCL has put everything on the stream, or goes on with that. */
static tutti_status poll_calls(const struct issuer *issuer, const struct gpu_task *task)
{
    const struct gpu *gpu = issuer->gpu;
    const double limit_s = gpu->config->gpu_timeout_s;
    const double age_s = (double)(clock_ns() - task->since_ns) * 1e-9;
    const tutti_status status =
            communicator_poll(issuer->gpu, task->communicator, issuing);

    if (status != TUTTI_AGAIN || limit_s <= 0 || age_s < limit_s) {
        return status;
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "rank %d: NCCL has not put the %s of process set %u on GPU %d (%s) for "
            "%.1f s "
            "(gpu_timeout_s=%g): does every rank of the set take part, and live?",
            gpu->rank, tutti_collective_name(task->batch->collective),
            task->batch->set->id, gpu->ordinal, gpu->pci, age_s, limit_s);
}

/* It takes some tens of microseconds, in a thread of NCCL: less than a nap, which AGAIN leads to. */
static tutti_status await_calls(
        const struct issuer *issuer, const struct gpu_task *task)
{
    const int64_t until_ns = task->since_ns + CALL_NS;
    tutti_status status = poll_calls(issuer, task);

    for (int polls = 0; status == TUTTI_AGAIN &&
            (polls < CALL_POLLS || (polls < CALL_POLLS_MAX && clock_ns() < until_ns));
            polls++) {
        (void)sched_yield();
        status = poll_calls(issuer, task);
    }
    return status;
}

tutti_status issue_move(struct issuer *issuer, struct gpu_task *task, bool *moved)
{
    tutti_status status = TUTTI_OK;

    if (!task->is_called) {
        status = flight_sweep(&issuer->flight, issuer->gpu);
        if (status == TUTTI_OK) {
            status = issue(issuer, task);
        }
        *moved = *moved || status == TUTTI_OK;
    }
    if (status == TUTTI_OK && task->calls) {
        status = await_calls(issuer, task);
    }
    return status == TUTTI_OK ? finish(issuer, task) : status;
}
