/*
 * Batches that need no other rank. Those of one rank: a reduction is that of a single operand,
 * which copies, scales and rounds like any other; an exchange copies the own part; a broadcast
 * has nobody to send to. And allreduces of several ranks whose operands are all here.
 */
#include "ops/self/self.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/exchange.h"
#include "ops/reduce/reduce.h"
#include "ops/runs.h"

/* Bytes per step, so that a large tensor does not keep the engine from the others. */
#define STEP_BYTES ((size_t)256 << 10)

struct self_state {
    const struct op_env *env; /* borrowed */
};

struct self_task {
    const struct op_batch *batch;
    bool placed; /* recvs of an exchange are filled */
    union {
        struct runs_cursor reduce; /* what is not yet reduced */
        struct exchange_cursor copy; /* what is not yet copied */
    };
};

static tutti_status self_open(const struct op_env *env, void **state)
{
    struct self_state *self = mem_alloc(sizeof *self);

    if (self == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the backend of one rank");
    }
    self->env = env;
    *state = self;
    return TUTTI_OK;
}

static void self_close(void *state)
{
    mem_free(state);
}

static bool self_accepts(const void *state, const struct op_batch *batch)
{
    (void)state;
    if (batch->set->size != 1 && batch->operands == NULL) {
        return false;
    }
    return op_is_reduction(batch->collective)
            ? reduce_is_supported(batch->dtype, batch->op)
            : batch->collective != TUTTI_BARRIER;
}

static tutti_status self_start(void *state, void *task, const struct op_batch *batch)
{
    struct self_task *self = task;

    (void)state;
    *self = (struct self_task){ .batch = batch, .placed = batch->sizes_known };
    if (!op_is_exchange(batch->collective) && batch->collective != TUTTI_BROADCAST) {
        self->reduce = runs_range(batch, 0, 0, runs_total(batch, 0));
    }
    return TUTTI_OK;
}

/* The operands, `skip` bytes behind their beginning; returns how many there are. */
static int list_inputs(const struct op_batch *batch, const struct op_run *run,
        size_t skip, const void *inputs[OP_OPERANDS_MAX])
{
    const size_t bytes = batch->count * tutti_dtype_size(batch->dtype);

    if (batch->operands == NULL) {
        inputs[0] = (const char *)run->input + skip;
        return 1;
    }
    for (int m = 0; m < batch->set->size; m++) {
        inputs[m] = batch->operands + (size_t)m * bytes + skip;
    }
    return batch->set->size;
}

static tutti_status reduce_some(const struct op_env *env, struct self_task *self)
{
    const struct op_batch *batch = self->batch;
    const struct reduce_spec spec = reduce_spec_of(batch);
    size_t bytes = tutti_dtype_size(batch->dtype);
    size_t budget = STEP_BYTES / bytes;
    const int64_t begin_ns = reduce_clock(env);

    while (self->reduce.left > 0 && budget > 0) {
        size_t piece = runs_piece(&self->reduce, batch, budget);
        const struct op_run *run = &batch->runs[self->reduce.run];
        size_t offset = self->reduce.offset * bytes;
        const void *inputs[OP_OPERANDS_MAX];
        const int n = list_inputs(
                batch, run, runs_begin(batch, 0, self->reduce.run) + offset, inputs);
        void *output = (char *)run->output + offset;

        reduce_tree(&spec, inputs, n, &output, 1, piece);
        runs_advance(&self->reduce, batch, piece);
        budget -= piece;
    }
    reduce_count(env, begin_ns);
    return self->reduce.left == 0 ? TUTTI_OK : TUTTI_AGAIN;
}

static tutti_status exchange_some(struct self_task *self)
{
    const struct op_batch *batch = self->batch;

    if (!self->placed) {
        tutti_status status;

        for (size_t run = 0; run < batch->run_count; run++) {
            batch->runs[run].recvs[0].bytes = batch->runs[run].sends[0].bytes;
        }
        status = exchange_place(batch);
        if (status != TUTTI_OK) {
            return status;
        }
        self->placed = true;
    }
    return exchange_copy_own(batch, &self->copy, STEP_BYTES) ? TUTTI_OK : TUTTI_AGAIN;
}

static tutti_status self_step(void *state, void *task, bool *moved)
{
    const struct self_state *backend = state;
    struct self_task *self = task;

    *moved = true;
    return op_is_exchange(self->batch->collective) ? exchange_some(self)
                                                   : reduce_some(backend->env, self);
}

static bool self_cancel(void *state, void *task)
{
    (void)state;
    (void)task;
    return true;
}

const struct op_backend op_self = {
    .name = "self",
    .takes_runs = 1u << TUTTI_ALLREDUCE | 1u << TUTTI_BROADCAST | 1u << TUTTI_REDUCE |
            1u << TUTTI_REDUCESCATTER | 1u << TUTTI_ALLGATHER | 1u << TUTTI_ALLTOALL |
            1u << TUTTI_GATHER | 1u << TUTTI_SCATTER,
    .task_bytes = sizeof(struct self_task),
    .open = self_open,
    .close = self_close,
    .accepts = self_accepts,
    .start = self_start,
    .step = self_step,
    .cancel = self_cancel,
};
