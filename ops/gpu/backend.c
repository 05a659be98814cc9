/*
 * The slots of the backend: the order of batches, meetings, and the end.
 */
#include "ops/gpu/backend.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/communicator.h"
#include "ops/gpu/issue.h"

struct gpu_backend {
    struct gpu *gpu; /* borrowed */
    struct issuer issuer; /* of the first batch that has not ended */
    uint64_t started, ended; /* batches                                           */
    bool has_met; /* the meeting in work made its communicator          */
    bool failed; /* a batch did: nothing is issued any more              */
    struct device_event *ends[GPU_COPY]; /* owned; of streams, after the abort      */
    int64_t halted_ns; /* when they were made; 0: they are not              */
};

/* How long a halt waits for what is on the streams before NCCL's aborted part. */
#define HALT_NS 10000000000

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
    issue_init(&made->issuer, gpu, env->counts);
    *state = made;
    return TUTTI_OK;
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
            flight_sweep(&gb->issuer.flight, gb->gpu) == TUTTI_OK &&
            gb->issuer.flight.count == 0 && !has_graphs(gb);

    communicators_end(gb->gpu, in_peace);
    for (int i = 0; i < GPU_COPY; i++) {
        gpu_event_release(gb->gpu, gb->ends[i]);
    }
    issue_fini(&gb->issuer);
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

/* In order: one after the other. The slab of one that fails is not used again. */
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
        status = issue_move(&gb->issuer, own, moved);
        gpu_leave(gb->gpu);
    }
    if (status == TUTTI_AGAIN) {
        return status;
    }
    gb->ended++;
    *moved = true;
    gb->failed = status != TUTTI_OK;
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
    (void)task;
    return gpu_quit(state);
}

static tutti_status gpu_watch(void *state)
{
    struct gpu_backend *gb = state;
    tutti_status status = communicators_watch(gb->gpu);

    if (status == TUTTI_OK && gb->issuer.flight.count > 0) {
        status = flight_sweep(&gb->issuer.flight, gb->gpu);
    }
    return status == TUTTI_OK ? flight_check(&gb->issuer.flight, gb->gpu) : status;
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
    tutti_status status = flight_sweep(&gb->issuer.flight, gb->gpu);

    if (status == TUTTI_OK && gb->issuer.flight.count > 0) {
        status = flight_check(&gb->issuer.flight, gb->gpu);
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
