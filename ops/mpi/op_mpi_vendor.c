/*
 * The MPI library's own collectives behind the interface of a backend.
 *
 * Taken are batches of the world set (index 0) whose reduction MPI does with the meaning of
 * tutti.h. All ranks must start the collectives of a communicator in one order, and only
 * batches of one set have that:
 *
 *     float32, float64   SUM, AVERAGE, PRODUCT, any scale
 *     integers           PRODUCT; SUM from 32 bits on; MIN, MAX of signed ones
 *     bool               MIN, MAX
 *     broadcast          everything
 *
 * Not taken, so that the core uses op_p2p: float16 and bfloat16 (no MPI type), MIN and
 * MAX of floats (MPI leaves NaN open), AVERAGE of integers (64-bit sum), SUM of 8 and
 * 16 bits (the AVX kernels of Open MPI 4.1 saturate where others wrap), MIN and MAX of
 * unsigned integers (MPICH 4.0 compares them as signed ones).
 *
 * MPI wants MPI_IN_PLACE at all ranks or at none, but every rank of tutti decides by itself
 * whether its output is its input. So MPI always works in place: an input elsewhere is
 * brought to the output first, which MPI would do itself. A prescale is part of that pass;
 * AVERAGE and postscale cost one over the output afterwards. Batches beyond an MPI count
 * go in portions, one after the other. Collectives must be posted in one order on all
 * ranks, though batches become ready at different times (a pass, a portion): each batch
 * draws a ticket when it starts, which is in one order, and posts only in its
 * turn, which ends when its last portion is posted.
 */
#include <mpi.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "fabric/mpi/mpi_fabric.h"
#include "ops/mpi/vendor.h"
#include "ops/p2p/task.h"

struct vendor_state {
    MPI_Comm comm; /* borrowed */
    uint64_t tickets; /* drawn so far */
    uint64_t turn; /* ticket of the batch that may post */
    int world_size;
    size_t pass_bytes; /* of a scaling pass per step */
};

enum vendor_phase {
    VENDOR_PREPARE,
    VENDOR_COLLECT,
    VENDOR_SCALE
};

struct vendor_task {
    const struct op_batch *batch;
    size_t element_bytes;
    enum vendor_phase phase;
    uint64_t ticket;
    size_t at; /* elements that the phase has dealt with */
    MPI_Request request; /* MPI_REQUEST_NULL: none */
    int64_t cancelled_ns; /* when it was given up; 0: it was not */
};

static MPI_Datatype vendor_dtype(tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_UINT8:
    case TUTTI_BOOL:
        return MPI_UINT8_T;
    case TUTTI_INT8:
        return MPI_INT8_T;
    case TUTTI_UINT16:
        return MPI_UINT16_T;
    case TUTTI_INT16:
        return MPI_INT16_T;
    case TUTTI_UINT32:
        return MPI_UINT32_T;
    case TUTTI_INT32:
        return MPI_INT32_T;
    case TUTTI_UINT64:
        return MPI_UINT64_T;
    case TUTTI_INT64:
        return MPI_INT64_T;
    case TUTTI_FLOAT32:
        return MPI_FLOAT;
    case TUTTI_FLOAT64:
        return MPI_DOUBLE;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        break;
    }
    return MPI_DATATYPE_NULL;
}

static MPI_Op vendor_op(tutti_reduce_op op)
{
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVERAGE:
        return MPI_SUM;
    case TUTTI_MIN:
        return MPI_MIN;
    case TUTTI_MAX:
        return MPI_MAX;
    case TUTTI_PRODUCT:
        return MPI_PROD;
    case TUTTI_SET_AVERAGE:
        break;
    }
    return MPI_OP_NULL;
}

static tutti_status vendor_open(const struct op_env *env, void **state)
{
    const MPI_Comm *comm = env->native;
    struct vendor_state *made = mem_calloc(1, sizeof *made);

    if (made == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the MPI vendor backend");
    }
    made->comm = *comm;
    made->world_size = env->world_size;
    made->pass_bytes = size_max(env->chunk_bytes, TASK_ALIGNMENT);
    *state = made;
    return TUTTI_OK;
}

static void vendor_close(void *state)
{
    mem_free(state);
}

/* While ranks have joined, batches of index 0 run without them: that is not the world. */
static bool is_world(const struct op_set *set, int world_size)
{
    if (set->index != 0 || set->size != world_size) {
        return false;
    }
    for (int i = 0; i < set->size; i++) {
        if (set->world_ranks[i] != i) {
            return false;
        }
    }
    return true;
}

/* The reductions of a type, as bits 1 << tutti_reduce_op. */
static unsigned vendor_reductions(tutti_dtype dtype)
{
    const unsigned sum = 1u << TUTTI_SUM;
    const unsigned product = 1u << TUTTI_PRODUCT;
    const unsigned extremes = 1u << TUTTI_MIN | 1u << TUTTI_MAX;

    switch (dtype) {
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
        return sum | product | 1u << TUTTI_AVERAGE;
    case TUTTI_INT32:
    case TUTTI_INT64:
        return sum | product | extremes;
    case TUTTI_UINT32:
    case TUTTI_UINT64:
        return sum | product;
    case TUTTI_INT8:
    case TUTTI_INT16:
        return product | extremes;
    case TUTTI_UINT8:
    case TUTTI_UINT16:
        return product;
    case TUTTI_BOOL:
        return extremes;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        break;
    }
    return 0;
}

static bool vendor_accepts(const void *state, const struct op_batch *batch)
{
    const struct vendor_state *owner = state;

    if (batch->run_count != 1 || !is_world(batch->set, owner->world_size)) {
        return false;
    }
    return batch->collective == TUTTI_BROADCAST ||
            (batch->collective == TUTTI_ALLREDUCE &&
                    (vendor_reductions(batch->dtype) >> batch->op & 1u) != 0);
}

/* A rank that is alone has nothing to sum. */
static bool vendor_follows_ranks(const void *state, const struct op_set *set)
{
    const struct vendor_state *owner = state;

    return set->size == 1 || !is_world(set, owner->world_size);
}

/* What AVERAGE and postscale leave to do after MPI's sum. */
static double scale_after(const struct op_batch *batch)
{
    if (batch->collective == TUTTI_BROADCAST) {
        return 1;
    }
    return batch->op == TUTTI_AVERAGE ? batch->postscale / batch->divisor
                                      : batch->postscale;
}

/* The input must be brought to the output, scaled, before MPI works on that in place. */
static bool needs_prepare(const struct op_batch *batch)
{
    const bool elsewhere =
            batch->count > 0 && batch->runs[0].input != batch->runs[0].output;

    if (batch->collective == TUTTI_BROADCAST) {
        return batch->set->rank == batch->root && elsewhere;
    }
    return batch->prescale != 1 || elsewhere;
}

static size_t elements_of(const struct vendor_task *task, size_t bytes)
{
    return size_min(task->batch->count - task->at, bytes / task->element_bytes);
}

/* Copies or scales the next piece; true when the phase has seen all elements. */
static bool pass_over(const struct vendor_state *owner, struct vendor_task *task,
        const void *input, double scale)
{
    const struct op_batch *batch = task->batch;
    size_t offset = task->at * task->element_bytes;
    size_t count = elements_of(task, owner->pass_bytes);
    const void *from = (const uint8_t *)input + offset;
    void *to = (uint8_t *)batch->runs[0].output + offset;

    if (scale == 1) {
        memcpy(to, from, count * task->element_bytes);
    } else {
        const struct reduce_spec spec = {
            .dtype = batch->dtype, .op = TUTTI_SUM, .prescale = scale, .postscale = 1
        };

        reduce_tree(&spec, &from, 1, &to, 1, count);
    }
    task->at += count;
    return task->at == batch->count;
}

static void enter(struct vendor_task *task, enum vendor_phase phase)
{
    task->phase = phase;
    task->at = 0;
}

static int post_portion(const struct vendor_state *owner, struct vendor_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct op_run *run = &batch->runs[0];
    size_t count = elements_of(task, TASK_MESSAGE_MAX);
    size_t offset = task->at * task->element_bytes;
    void *output = (uint8_t *)run->output + offset;

    task->at += count;
    if (batch->collective == TUTTI_BROADCAST) {
        return MPI_Ibcast(output, (int)(count * task->element_bytes), MPI_BYTE,
                batch->root, owner->comm, &task->request);
    }
    return MPI_Iallreduce(MPI_IN_PLACE, output, (int)count, vendor_dtype(batch->dtype),
            vendor_op(batch->op), owner->comm, &task->request);
}

/* Posts the next portion in this batch's turn, or tests the one in flight. */
static tutti_status collect(
        struct vendor_state *owner, struct vendor_task *task, bool *moved)
{
    int done = 0;
    int code;

    if (task->request == MPI_REQUEST_NULL) {
        if (owner->turn != task->ticket) {
            return TUTTI_AGAIN;
        }
        code = post_portion(owner, task);
        if (code != MPI_SUCCESS) {
            return mpi_error(code, "starting a collective of the MPI library");
        }
        if (task->at == task->batch->count) {
            owner->turn++;
        }
        *moved = true;
    }
    code = MPI_Test(&task->request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
        return mpi_error(code, "a collective of the MPI library");
    }
    if (done != 0) {
        task->request = MPI_REQUEST_NULL;
        *moved = true;
        if (task->at == task->batch->count) {
            enter(task, VENDOR_SCALE);
        }
    }
    return TUTTI_AGAIN;
}

static tutti_status vendor_step(void *state, void *storage, bool *moved)
{
    struct vendor_state *owner = state;
    struct vendor_task *task = storage;
    const struct op_run *run = &task->batch->runs[0];

    if (task->phase == VENDOR_PREPARE) {
        double scale =
                task->batch->collective == TUTTI_BROADCAST ? 1 : task->batch->prescale;

        *moved = true;
        if (!pass_over(owner, task, run->input, scale)) {
            return TUTTI_AGAIN;
        }
        enter(task, VENDOR_COLLECT);
    }
    if (task->phase == VENDOR_COLLECT) {
        tutti_status status = collect(owner, task, moved);

        if (status != TUTTI_AGAIN || task->phase == VENDOR_COLLECT) {
            return status;
        }
    }
    if (scale_after(task->batch) == 1) {
        return TUTTI_OK;
    }
    *moved = true;
    return pass_over(owner, task, run->output, scale_after(task->batch)) ? TUTTI_OK
                                                                         : TUTTI_AGAIN;
}

static tutti_status vendor_start(
        void *state, void *storage, const struct op_batch *batch)
{
    struct vendor_state *owner = state;
    struct vendor_task *task = storage;
    bool moved = false;
    tutti_status status = TUTTI_AGAIN;

    *task = (struct vendor_task){
        .batch = batch,
        .element_bytes = tutti_dtype_size(batch->dtype),
        .phase = needs_prepare(batch) ? VENDOR_PREPARE : VENDOR_COLLECT,
        .ticket = owner->tickets,
        .request = MPI_REQUEST_NULL,
    };
    owner->tickets++;
    if (task->phase == VENDOR_COLLECT) {
        status = collect(owner, task, &moved);
    }
    return status == TUTTI_AGAIN ? TUTTI_OK : status;
}

/*
 * MPI can neither cancel nor free a non-blocking collective. It may end while the other
 * ranks live; what does not is left to MPI.
 */
static bool vendor_cancel(void *state, void *storage)
{
    struct vendor_task *task = storage;
    const int64_t now = clock_ns();
    int done = 0;

    (void)state;
    if (task->cancelled_ns == 0) {
        task->cancelled_ns = now;
    }
    (void)MPI_Test(&task->request, &done, MPI_STATUS_IGNORE);
    if (done == 0 && now - task->cancelled_ns < TASK_CANCEL_NS) {
        return false;
    }
    task->request = MPI_REQUEST_NULL;
    return true;
}

const struct op_backend op_mpi_vendor = {
    .name = "vendor",
    .takes_runs = 0,
    .task_bytes = sizeof(struct vendor_task),
    .open = vendor_open,
    .close = vendor_close,
    .accepts = vendor_accepts,
    .follows_ranks = vendor_follows_ranks,
    .start = vendor_start,
    .step = vendor_step,
    .cancel = vendor_cancel,
};
