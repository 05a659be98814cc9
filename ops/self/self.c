/*
 * Batches of one rank: an allreduce is the reduction of a single operand, which copies,
 * scales and rounds like any other; a broadcast has nobody to send to.
 */
#include "ops/self/self.h"

#include "ops/reduce/reduce.h"
#include "ops/runs.h"

/* Bytes per step, so that a large tensor does not keep the engine from the others. */
#define STEP_BYTES ((size_t)256 << 10)

struct self_task {
    const struct op_batch *batch;
    struct runs_cursor rest; /* what is not yet reduced */
};

static tutti_status self_open(const struct op_env *env, void **state)
{
    (void)env;
    *state = NULL;
    return TUTTI_OK;
}

static void self_close(void *state)
{
    (void)state;
}

static bool self_accepts(const void *state, const struct op_batch *batch)
{
    (void)state;
    if (batch->set->size != 1) {
        return false;
    }
    if (batch->collective == TUTTI_ALLREDUCE) {
        return reduce_is_supported(batch->dtype, batch->op);
    }
    return batch->collective == TUTTI_BROADCAST;
}

static tutti_status self_start(void *state, void *task, const struct op_batch *batch)
{
    struct self_task *self = task;
    size_t count = batch->collective == TUTTI_ALLREDUCE ? batch->count : 0;

    (void)state;
    self->batch = batch;
    self->rest = runs_range(batch, 0, count);
    return TUTTI_OK;
}

static tutti_status self_step(void *state, void *task, bool *moved)
{
    struct self_task *self = task;
    const struct op_batch *batch = self->batch;
    const struct reduce_spec spec = { .dtype = batch->dtype,
        .op = batch->op,
        .prescale = batch->prescale,
        .postscale = batch->postscale };
    size_t bytes = tutti_dtype_size(batch->dtype);
    size_t budget = STEP_BYTES / bytes;

    (void)state;
    *moved = true;
    while (self->rest.left > 0 && budget > 0) {
        size_t piece = runs_piece(&self->rest, batch, budget);
        const struct op_run *run = &batch->runs[self->rest.run];
        const void *input = (const char *)run->input + self->rest.offset * bytes;
        void *output = (char *)run->output + self->rest.offset * bytes;

        reduce_tree(&spec, &input, 1, &output, 1, piece);
        runs_advance(&self->rest, batch, piece);
        budget -= piece;
    }
    return self->rest.left == 0 ? TUTTI_OK : TUTTI_AGAIN;
}

static bool self_cancel(void *state, void *task)
{
    (void)state;
    (void)task;
    return true;
}

const struct op_backend op_self = {
    .name = "self",
    .capabilities = OP_TAKES_RUNS,
    .task_bytes = sizeof(struct self_task),
    .open = self_open,
    .close = self_close,
    .accepts = self_accepts,
    .start = self_start,
    .step = self_step,
    .cancel = self_cancel,
};
