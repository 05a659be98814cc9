/*
 * The work of reductions: a member reads its share of everybody's inputs and writes the
 * result where it is wanted.
 *
 *     allreduce       a slice of the batch, to all outputs
 *     reduce          a slice of the batch, to the root's output
 *     reducescatter   this member's parts, to its own output
 *
 * Small batches have fewer slices than the set has ranks; the ranks take turns at them.
 */
#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "ops/shm/shm_task.h"

#define CACHE_LINE ((size_t)64)
/* Below this one rank is as fast as several, and less ringing. Measured with two. */
#define SLICE_BYTES_MIN ((size_t)2048)
/* Bytes of one operand that a step works on at least, however many operands there are. */
#define STEP_BYTES_MIN ((size_t)4096)

/** A range of the elements of a batch. */
struct slice {
    size_t first;
    size_t count;
};

/** A member's slice of an allreduce or a reduce. */
static struct slice slice_of(const struct op_batch *batch, int member)
{
    size_t bytes = tutti_dtype_size(batch->dtype);
    size_t size = (size_t)batch->set->size;
    size_t turn = (size_t)((batch->sequence + (uint64_t)member) % size);
    size_t share = batch->count / size + (batch->count % size != 0);
    size_t length =
            size_max(size_align(share, CACHE_LINE / bytes), SLICE_BYTES_MIN / bytes);
    size_t first = size_min(batch->count, turn * length);

    return (struct slice){ .first = first,
        .count = size_min(length, batch->count - first) };
}

bool shm_reduce_has_share(const struct op_batch *batch, int member)
{
    if (batch->collective != TUTTI_REDUCESCATTER) {
        return slice_of(batch, member).count > 0;
    }
    for (size_t run = 0; run < batch->run_count; run++) {
        if (batch->runs[run].sends[member].bytes > 0) {
            return true;
        }
    }
    return false;
}

struct runs_cursor shm_reduce_share(const struct op_batch *batch)
{
    struct slice slice = { .first = 0, .count = 0 };

    if (batch->collective == TUTTI_REDUCESCATTER) {
        slice.count = runs_total(batch);
    } else {
        slice = slice_of(batch, batch->set->rank);
    }
    return runs_range(batch, slice.first, slice.count);
}

/** Points shm->outputs to where the elements at the cursor go. @return how many */
static int find_outputs(struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    size_t offset = task->rest.offset * tutti_dtype_size(batch->dtype);
    int first = batch->collective == TUTTI_REDUCE ? batch->root : 0;
    int count = batch->collective == TUTTI_REDUCE ? 1 : batch->set->size;

    if (batch->collective == TUTTI_REDUCESCATTER) {
        shm->outputs[0] = (char *)batch->runs[task->rest.run].output + offset;
        return 1;
    }
    for (int i = 0; i < count; i++) {
        const struct shm_run *runs = shm_member_runs(shm, batch, first + i);

        shm->outputs[i] = shm_address(shm_member(shm, batch, first + i),
                runs[task->rest.run].output + offset);
    }
    return count;
}

/** Reduces the elements at the cursor from all inputs to where they go. */
static void reduce_piece(
        struct shm_state *shm, const struct shm_task *task, size_t piece)
{
    const struct op_batch *batch = task->batch;
    const struct reduce_spec spec = { .dtype = batch->dtype,
        .op = batch->op,
        .prescale = batch->prescale,
        .postscale = batch->postscale };
    size_t run = task->rest.run;
    size_t offset =
            runs_begin(batch, run) + task->rest.offset * tutti_dtype_size(batch->dtype);
    int size = batch->set->size;
    int outputs = find_outputs(shm, task);

    for (int member = 0; member < size; member++) {
        shm->inputs[member] = shm_address(shm_member(shm, batch, member),
                shm_member_runs(shm, batch, member)[run].input + offset);
    }
    reduce_tree(&spec, shm->inputs, size, shm->outputs, outputs, piece);
}

tutti_status shm_reduce_work(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    size_t operands = (size_t)batch->set->size;
    size_t step_bytes = size_max(shm->env->chunk_bytes / operands, STEP_BYTES_MIN);
    size_t budget = step_bytes / tutti_dtype_size(batch->dtype);

    while (task->rest.left > 0 && budget > 0) {
        size_t piece = runs_piece(&task->rest, batch, budget);

        reduce_piece(shm, task, piece);
        runs_advance(&task->rest, batch, piece);
        budget -= piece;
    }
    return task->rest.left == 0 ? TUTTI_OK : TUTTI_AGAIN;
}
