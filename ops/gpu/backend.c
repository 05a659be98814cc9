/*
 * A batch on its way to the GPU:
 *
 *     GPU_PACK     waits for the events of the batch; packs into the slab
 *     GPU_COMM     waits for that (or the events); NCCL
 *     GPU_UNPACK   waits for that; unpacks; the event that is handed back
 *
 * NCCL's part is one group of calls.
 *
 * A batch of a CUDA graph does all of this on one stream of the caller instead, behind the graph's
 * batch before it, and its slab belongs to the graph.
 *
 * What has nothing to do is left out. NCCL may still be putting its part on the stream when
 * ncclGroupEnd() returns; until it has, nothing else is issued.
 */
#include "ops/gpu/backend.h"

#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/mem.h"
#include "ops/gpu/communicator.h"
#include "ops/gpu/flight.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/packing.h"
#include "ops/gpu/script.h"
#include "ops/gpu/types.h"

/** A batch between start() and its end. */
struct gpu_task {
    const struct op_batch *batch; /* borrowed */
    uint64_t number; /* batches that were started before it                  */
    struct gpu_form form; /* of the batch */
    bool is_called; /* its commands are on streams, but for NCCL's and those behind  */
    bool calls; /* CALLED: NCCL may still be issuing                       */
    struct communicator *communicator; /* CALLED: of the set; borrowed           */
    struct gpu_slab *slab; /* CALLED: owned, or the graph's; NULL: none needed */
    struct gpu_graph *graph; /* CALLED: of the batch; borrowed; NULL: none           */
    int64_t since_ns; /* CALLED: when NCCL was called                         */
};

struct gpu_backend {
    struct gpu *gpu; /* borrowed */
    struct op_device_counts *counts; /* borrowed; NULL: nobody reads them */
    uint64_t started, ended; /* batches                                           */
    struct script script; /* of the first one that has not ended              */
    struct packing packing; /* launches */
    struct flight flight; /* what was issued */
    struct gpu_slab *spoilt; /* owned: of batches that failed; back at the end   */
    bool has_met; /* the meeting in work made its communicator          */
    bool failed; /* a batch did: nothing is issued any more              */
    struct device_event *ends[GPU_COPY]; /* owned; of streams, after the abort      */
    int64_t halted_ns; /* when they were made; 0: they are not              */
};

/* How long a halt waits for what is on the streams before NCCL's aborted part. */
#define HALT_NS 10000000000

/* NCCL is asked so often whether it is done before others get their turn, or for so long. */
#define CALL_POLLS 64
#define CALL_POLLS_MAX 1024
#define CALL_NS 200000

static const char issuing[] = "put a batch on the GPU";

/* ------------------------------------------------------------------ open, close */

static tutti_status gpu_backend_open(const struct op_env *env, void **state)
{
    struct gpu *gpu = env->native;
    struct gpu_backend *made;

    if (gpu == NULL || gpu->nccl == NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED, "the GPU backend needs NCCL");
    }
    made = mem_calloc(1, sizeof *made);
    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the GPU backend");
    }
    made->gpu = gpu;
    made->counts = env->counts;
    packing_init(&made->packing, gpu, env->counts);
    *state = made;
    return TUTTI_OK;
}

static void give_spoilt(struct gpu_backend *gb)
{
    while (gb->spoilt != NULL) {
        struct gpu_slab *slab = gb->spoilt;

        gb->spoilt = slab->next;
        slab->next = NULL;
        gpu_slab_give(gb->gpu, slab, NULL);
    }
}

/* NCCL's communicators would wait for the end of graphs that they are in. */
static bool has_graphs(const struct gpu_backend *gb)
{
    const size_t count = gpu_graphs_count(gb->gpu);

    if (count > 0) {
        log_warn(gb->gpu->log,
                "%zu CUDA graphs with operations of tutti exist at its end, so NCCL's "
                "communicators are aborted; destroy graphs and their executables "
                "before tutti_finalize()",
                count);
    }
    return count > 0;
}

static void gpu_backend_close(void *state)
{
    struct gpu_backend *gb = state;
    const bool entered = gpu_enter(gb->gpu) == TUTTI_OK;
    const bool in_peace = entered && !gb->failed && gb->started == gb->ended &&
            flight_sweep(&gb->flight, gb->gpu) == TUTTI_OK && gb->flight.count == 0 &&
            !has_graphs(gb);

    communicators_end(gb->gpu, in_peace);
    for (int i = 0; i < GPU_COPY; i++) {
        gpu_event_release(gb->gpu, gb->ends[i]);
    }
    give_spoilt(gb);
    flight_fini(&gb->flight, gb->gpu);
    script_fini(&gb->script);
    if (entered) {
        gpu_leave(gb->gpu);
    }
    mem_free(gb);
}

/* ---------------------------------------------------------------------- accepts */

static bool form_of(const struct gpu_backend *gb, const struct op_batch *batch,
        struct gpu_form *form)
{
    return gpu_form_of(
            batch, gb->gpu->config->gpu_half_sums == CONFIG_GPU_HALF_SUMS_FLOAT, form);
}

static bool gpu_accepts(const void *state, const struct op_batch *batch)
{
    const struct gpu_backend *gb = state;
    struct gpu_form form;

    return !batch->set->partial && !op_is_pair(batch->set) &&
            form_of(gb, batch, &form) &&
            (gb->gpu->has_kernels || !gpu_form_needs_kernels(&form));
}

static tutti_status gpu_start(void *state, void *task, const struct op_batch *batch)
{
    struct gpu_backend *gb = state;
    struct gpu_task *added = task;

    *added = (struct gpu_task){ .batch = batch, .number = gb->started };
    if (!form_of(gb, batch, &added->form)) {
        return error_set(TUTTI_ERR_INTERNAL, "the GPU backend does not take a %s of %s",
                tutti_collective_name(batch->collective),
                tutti_dtype_name(batch->dtype));
    }
    gb->started++;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------ calls */

static cu_stream stream_of(const struct gpu_backend *gb, const struct gpu_task *task,
        enum gpu_stream stream)
{
    return task->graph != NULL ? task->batch->stream : gb->gpu->streams[stream];
}

static void *address(const struct gpu_task *task, struct script_place place)
{
    const uint64_t base = place.in_slab ? task->slab->stretch.base : 0;

    return (void *)(uintptr_t)(base + place.at); // NOLINT(performance-no-int-to-ptr)
}

static nccl_result call_nccl(const struct gpu_backend *gb, const struct gpu_task *task,
        const struct script_call *call)
{
    const struct nccl_api *nccl = gb->gpu->nccl;
    cu_stream stream = stream_of(gb, task, GPU_COMM);
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
static tutti_status copy_own(struct gpu_backend *gb, const struct gpu_task *task)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < gb->script.call_count && status == TUTTI_OK; i++) {
        const struct script_call *call = &gb->script.calls[i];

        if (call->verb == SCRIPT_COPY) {
            status = gpu_check(gb->gpu,
                    gb->gpu->cuda->memcpy_dtod_async(
                            (cu_pointer)(uintptr_t)address(task, call->output),
                            (cu_pointer)(uintptr_t)address(task, call->input),
                            call->count, stream_of(gb, task, GPU_COMM)),
                    "copy a rank's own part");
        }
    }
    return status;
}

/* A group is ended even if a call in it has failed. */
static tutti_status call_all(struct gpu_backend *gb, const struct gpu_task *task)
{
    const struct nccl_api *nccl = gb->gpu->nccl;
    nccl_result result = nccl->group_start();
    nccl_result ended;

    if (result != NCCL_SUCCESS) {
        return communicator_check(gb->gpu, task->communicator, result, issuing);
    }
    for (size_t i = 0; i < gb->script.call_count; i++) {
        const struct script_call *call = &gb->script.calls[i];

        if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
            result = call_nccl(gb, task, call);
        }
    }
    ended = nccl->group_end();
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
        result = ended;
    }
    return communicator_check(gb->gpu, task->communicator, result, issuing);
}

/* ---------------------------------------------------------------------- issuing */

/* tutti_alloc() rounds sizes up; what it adds belongs to nobody. */
static bool is_padding(void *user, uint64_t at, size_t bytes)
{
    return gpu_memory_is_padding(user, at, bytes);
}

static tutti_status write_script(struct gpu_backend *gb, const struct gpu_task *task)
{
    const struct script_view view = { .batch = task->batch,
        .form = &task->form,
        .kernels = gb->gpu->has_kernels,
        .registers = gpu_registers(gb->gpu, task->batch->set),
        .is_padding = is_padding,
        .user = gb->gpu };

    script_reset(&gb->script);
    return op_is_reduction(task->batch->collective)
            ? script_reduction(&gb->script, &view)
            : script_exchange(&gb->script, &view);
}

static tutti_status follow_events(const struct gpu_backend *gb,
        const struct gpu_task *task, enum gpu_stream stream)
{
    const struct op_batch *batch = task->batch;
    tutti_status status = TUTTI_OK;

    if (FAULT(REMOVED_EVENT_WAIT)) {
        return TUTTI_OK;
    }
    if (task->graph != NULL) {
        return gpu_graph_follow(
                gb->gpu, task->graph, batch->stream, batch->after, batch->after_count);
    }
    for (size_t i = 0; i < batch->after_count && status == TUTTI_OK; i++) {
        status = gpu_follow(gb->gpu, gb->gpu->streams[stream], batch->after[i]);
    }
    return status;
}

/* One stream waits for what is on another now. */
static tutti_status chain(const struct gpu_backend *gb, const struct gpu_task *task,
        enum gpu_stream behind, enum gpu_stream before)
{
    struct gpu *gpu = gb->gpu;
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

static tutti_status pack(struct gpu_backend *gb, const struct gpu_task *task)
{
    const struct packing_work work = { .pieces = &gb->script.gathers,
        .form = &task->form,
        .direction = PACK_GATHER,
        .slab = task->slab != NULL ? task->slab->stretch.base : 0,
        .stream = stream_of(gb, task, GPU_PACK) };
    tutti_status status = packing_run(&gb->packing, &work);

    return status == TUTTI_OK ? chain(gb, task, GPU_COMM, GPU_PACK) : status;
}

static tutti_status find_communicator(
        const struct gpu_backend *gb, struct gpu_task *task)
{
    const uint32_t set = task->batch->set->id;

    task->communicator = communicators_find(gb->gpu, set);
    return task->communicator != NULL
            ? TUTTI_OK
            : error_set(TUTTI_ERR_INTERNAL,
                      "rank %d: the ranks of process set %u have not met",
                      gb->gpu->rank, set);
}

/* True where NCCL gets memory that is registered with it: not where parts are sent, nor in a
 * graph, whose slabs are its own. */
static bool registers(const struct gpu_backend *gb, const struct gpu_task *task)
{
    const tutti_collective collective = task->batch->collective;

    return task->graph == NULL && gpu_registers(gb->gpu, task->batch->set) &&
            collective != TUTTI_ALLTOALL && collective != TUTTI_GATHER &&
            collective != TUTTI_SCATTER;
}

static tutti_status take_slab(
        struct gpu_backend *gb, struct gpu_task *task, enum gpu_stream stream)
{
    const size_t bytes = gb->script.slab_bytes;

    if (bytes == 0) {
        return TUTTI_OK;
    }
    if (task->graph != NULL) {
        task->slab = gpu_graph_slab(gb->gpu, task->graph, bytes);
    } else if (registers(gb, task)) {
        task->slab = gpu_slab_take_turn(gb->gpu, bytes, gb->gpu->streams[stream]);
    } else {
        task->slab = gpu_slab_take(gb->gpu, bytes, gb->gpu->streams[stream]);
    }
    if (task->slab == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    if (registers(gb, task) && !task->slab->stretch.of_nccl) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "rank %d: ncclMemAlloc() has no memory for a buffer of %zu bytes on "
                "GPU "
                "%d (%s), and all ranks must register theirs; gpu_register=false does "
                "without",
                gb->gpu->rank, task->slab->stretch.bytes, gb->gpu->ordinal,
                gb->gpu->pci);
    }
    return TUTTI_OK;
}

/* The bug: a rank goes on without what the others do together. */
static bool is_forgotten(const struct gpu_backend *gb, const struct gpu_task *task)
{
    return FAULT(SKIPPED_COLLECTIVE) && gb->gpu->rank == 0 &&
            op_is_reduction(task->batch->collective);
}

static tutti_status register_place(const struct gpu_backend *gb,
        const struct gpu_task *task, struct script_place place)
{
    struct gpu_stretch *stretch = place.in_slab ? &task->slab->stretch
                                                : gpu_memory_stretch(gb->gpu, place.at);

    return stretch != NULL ? communicator_register(gb->gpu, task->communicator, stretch)
                           : TUTTI_OK;
}

/* What the calls use, unless it is registered, in an order that is the same on all ranks. */
static tutti_status register_all(
        const struct gpu_backend *gb, const struct gpu_task *task)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < gb->script.call_count && status == TUTTI_OK; i++) {
        status = register_place(gb, task, gb->script.calls[i].input);
        if (status == TUTTI_OK) {
            status = register_place(gb, task, gb->script.calls[i].output);
        }
    }
    return status;
}

static tutti_status call(struct gpu_backend *gb, struct gpu_task *task)
{
    tutti_status status = TUTTI_OK;

    task->calls = gb->script.call_count > 0 && !is_forgotten(gb, task);
    if (!task->calls) {
        return TUTTI_OK;
    }
    if (registers(gb, task)) {
        status = register_all(gb, task);
    }
    task->since_ns = clock_ns();
    return status == TUTTI_OK ? call_all(gb, task) : status;
}

/* Up to NCCL's part. */
static tutti_status issue(struct gpu_backend *gb, struct gpu_task *task)
{
    enum gpu_stream first;
    tutti_status status;

    if (gb->flight.count == FLIGHT_MAX) {
        return TUTTI_AGAIN;
    }
    status = find_communicator(gb, task);
    if (status == TUTTI_OK && task->batch->space == OP_CAPTURED) {
        status = gpu_graph_find(gb->gpu, task->batch->stream, &task->graph);
        task->communicator->is_captured = true;
    }
    if (status == TUTTI_OK) {
        status = write_script(gb, task);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    first = gb->script.gathers.count > 0 ? GPU_PACK : GPU_COMM;
    status = take_slab(gb, task, first);
    if (status == TUTTI_OK) {
        status = follow_events(gb, task, first);
    }
    if (status == TUTTI_OK && first == GPU_PACK) {
        status = pack(gb, task);
    }
    if (status == TUTTI_OK) {
        status = copy_own(gb, task);
    }
    task->is_called = true;
    return status == TUTTI_OK ? call(gb, task) : status;
}

static void count_paths(const struct gpu_backend *gb, const struct gpu_task *task)
{
    if (gb->counts == NULL) {
        return;
    }
    if (task->slab != NULL) {
        (void)atomic_fetch_add_explicit(&gb->counts->packed, 1, memory_order_relaxed);
    } else if (task->batch->run_count > 1) {
        (void)atomic_fetch_add_explicit(&gb->counts->in_place, 1, memory_order_relaxed);
    }
}

/* What comes after NCCL's part. */
static tutti_status finish(struct gpu_backend *gb, struct gpu_task *task)
{
    struct gpu *gpu = gb->gpu;
    const bool scatters = gb->script.scatters.count > 0;
    const enum gpu_stream last = scatters ? GPU_UNPACK : GPU_COMM;
    const struct packing_work work = { .pieces = &gb->script.scatters,
        .form = &task->form,
        .direction = PACK_SCATTER,
        .slab = task->slab != NULL ? task->slab->stretch.base : 0,
        .stream = stream_of(gb, task, GPU_UNPACK) };
    struct device_event *event = NULL;
    tutti_status status = TUTTI_OK;

    if (scatters) {
        status = chain(gb, task, GPU_UNPACK, GPU_COMM);
    }
    if (status == TUTTI_OK && scatters) {
        status = packing_run(&gb->packing, &work);
    }
    if (status == TUTTI_OK) {
        status = task->graph != NULL
                ? gpu_graph_record(gpu, task->graph, task->batch->stream, &event)
                : gpu_record(gpu, gpu->streams[last], &event);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    count_paths(gb, task);
    if (task->graph == NULL) {
        flight_add(&gb->flight, task->batch, event);
    }
    if (task->graph == NULL && task->slab != NULL) {
        gpu_slab_give(gpu, task->slab, event);
    }
    task->slab = NULL;
    *task->batch->issued = event;
    return TUTTI_OK;
}

/* NCCL has put everything on the stream, or goes on with that. */
static tutti_status poll_calls(
        const struct gpu_backend *gb, const struct gpu_task *task)
{
    const struct gpu *gpu = gb->gpu;
    const double limit_s = gpu->config->gpu_timeout_s;
    const double age_s = (double)(clock_ns() - task->since_ns) * 1e-9;
    const tutti_status status = communicator_poll(gb->gpu, task->communicator, issuing);

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
        const struct gpu_backend *gb, const struct gpu_task *task)
{
    const int64_t until_ns = task->since_ns + CALL_NS;
    tutti_status status = poll_calls(gb, task);

    for (int polls = 0; status == TUTTI_AGAIN &&
            (polls < CALL_POLLS || (polls < CALL_POLLS_MAX && clock_ns() < until_ns));
            polls++) {
        (void)sched_yield();
        status = poll_calls(gb, task);
    }
    return status;
}

static tutti_status move(struct gpu_backend *gb, struct gpu_task *task, bool *moved)
{
    tutti_status status = TUTTI_OK;

    if (!task->is_called) {
        status = flight_sweep(&gb->flight, gb->gpu);
        if (status == TUTTI_OK) {
            status = issue(gb, task);
        }
        *moved = *moved || status == TUTTI_OK;
    }
    if (status == TUTTI_OK && task->calls) {
        status = await_calls(gb, task);
    }
    return status == TUTTI_OK ? finish(gb, task) : status;
}

static void spoil(struct gpu_backend *gb, struct gpu_task *task)
{
    if (task->graph == NULL && task->slab != NULL) {
        task->slab->next = gb->spoilt;
        gb->spoilt = task->slab;
    }
    task->slab = NULL;
}

/* In order: one after the other. */
static tutti_status gpu_step(void *state, void *task, bool *moved)
{
    struct gpu_backend *gb = state;
    struct gpu_task *own = task;
    tutti_status status;

    if (gb->failed || own->number != gb->ended) {
        return TUTTI_AGAIN;
    }
    status = gpu_enter(gb->gpu);
    if (status == TUTTI_OK) {
        status = move(gb, own, moved);
        gpu_leave(gb->gpu);
    }
    if (status == TUTTI_AGAIN) {
        return status;
    }
    gb->ended++;
    *moved = true;
    if (status != TUTTI_OK) {
        gb->failed = true;
        spoil(gb, own);
    }
    return status;
}

/* ---------------------------------------------------------------------- failure */

static void record_ends(struct gpu_backend *gb)
{
    for (int i = 0; i < GPU_COPY; i++) {
        if (gpu_record(gb->gpu, gb->gpu->streams[i], &gb->ends[i]) != TUTTI_OK) {
            gb->ends[i] = NULL;
        }
    }
    gb->halted_ns = clock_ns();
}

/* Also true when the device is lost: then nothing runs there. */
static bool has_ended(const struct gpu_backend *gb)
{
    for (int i = 0; i < GPU_COPY; i++) {
        if (gb->ends[i] != NULL && gpu_passed(gb->gpu, gb->ends[i]) == TUTTI_AGAIN) {
            return false;
        }
    }
    return true;
}

/* NCCL's kernels end by the abort; what else is on the streams has to be carried out. */
static bool gpu_quit(void *state)
{
    struct gpu_backend *gb = state;

    gb->failed = true;
    if (!communicators_abort(gb->gpu)) {
        return false;
    }
    if (gb->halted_ns == 0) {
        record_ends(gb);
    }
    if (has_ended(gb)) {
        return true;
    }
    if (clock_ns() - gb->halted_ns < HALT_NS) {
        return false;
    }
    log_warn(gb->gpu->log, "GPU %d (%s) is busy after all communicators were aborted",
            gb->gpu->ordinal, gb->gpu->pci);
    return true;
}

static bool gpu_cancel(void *state, void *task)
{
    struct gpu_backend *gb = state;

    if (!gpu_quit(gb)) {
        return false;
    }
    spoil(gb, task);
    return true;
}

static tutti_status gpu_watch(void *state)
{
    struct gpu_backend *gb = state;
    tutti_status status = communicators_watch(gb->gpu);

    if (status == TUTTI_OK && gb->flight.count > 0) {
        status = flight_sweep(&gb->flight, gb->gpu);
    }
    return status == TUTTI_OK ? flight_check(&gb->flight, gb->gpu) : status;
}

/* ---------------------------------------------------------------------- meeting */

static tutti_status gpu_token(void *state, uint8_t token[OP_TOKEN_BYTES])
{
    const struct gpu_backend *gb = state;

    return gpu_connect_token(gb->gpu, token);
}

/* NCCL takes and gives back memory meanwhile, which may wait for kernels. */
static tutti_status meet_alone(struct gpu_backend *gb, const struct op_set *set,
        const uint8_t token[OP_TOKEN_BYTES], bool everyone)
{
    tutti_status status = flight_sweep(&gb->flight, gb->gpu);

    if (status == TUTTI_OK && gb->flight.count > 0) {
        status = flight_check(&gb->flight, gb->gpu);
        return status == TUTTI_OK ? TUTTI_AGAIN : status;
    }
    if (status == TUTTI_OK && !gb->has_met) {
        status = communicators_meet(gb->gpu, set, token, 1, everyone);
        gb->has_met = status == TUTTI_OK;
    }
    /* To end one waits for the other ranks of it: only now, when they have come. */
    if (status == TUTTI_OK && everyone && !communicators_tidy(gb->gpu, set->id)) {
        return TUTTI_AGAIN;
    }
    if (status == TUTTI_OK) {
        gb->has_met = false;
    }
    return status;
}

static tutti_status gpu_meet(void *state, const struct op_set *set,
        const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved)
{
    struct gpu_backend *gb = state;
    tutti_status status = gpu_enter(gb->gpu);

    if (status == TUTTI_OK) {
        status = meet_alone(gb, set, token, everyone);
        gpu_leave(gb->gpu);
    }
    gb->failed = gb->failed || (status != TUTTI_OK && status != TUTTI_AGAIN);
    *moved = *moved || status == TUTTI_OK;
    return status;
}

static void gpu_part(void *state, const struct op_set *set, uint32_t next)
{
    struct gpu_backend *gb = state;

    communicators_part(gb->gpu, set->id, next);
}

const struct op_backend op_gpu = {
    .name = "nccl",
    .takes_runs = 1u << TUTTI_ALLREDUCE | 1u << TUTTI_BROADCAST | 1u << TUTTI_REDUCE |
            1u << TUTTI_REDUCESCATTER | 1u << TUTTI_ALLGATHER | 1u << TUTTI_ALLTOALL |
            1u << TUTTI_GATHER | 1u << TUTTI_SCATTER,
    .task_bytes = sizeof(struct gpu_task),
    .space = OP_DEVICE,
    .open = gpu_backend_open,
    .close = gpu_backend_close,
    .accepts = gpu_accepts,
    .start = gpu_start,
    .step = gpu_step,
    .cancel = gpu_cancel,
    .watch = gpu_watch,
    .token = gpu_token,
    .meet = gpu_meet,
    .part = gpu_part,
    .quit = gpu_quit,
};
