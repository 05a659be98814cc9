/*
 * The work of what only moves bytes: a member copies what comes to it straight from the
 * senders' inputs to its own output.
 *
 * For a broadcast that is all of the root's runs. Of an exchange each sender has
 * published the table of its parts, which says where what comes from it lies and, to a
 * receiver that does not know, how long it is. A member begins with its own part and goes
 * on in a circle, so that not all read the same memory at once.
 */
#include <string.h>

#include "base/mem.h"
#include "ops/shm/shm_task.h"

/* Bytes that a step copies at least. */
#define STEP_BYTES_MIN ((size_t)4096)

static size_t step_bytes(const struct shm_state *shm)
{
    return size_max(shm->env->chunk_bytes, STEP_BYTES_MIN);
}

tutti_status shm_broadcast_work(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct shm_rank *root = shm_member(shm, batch, batch->root);
    const struct shm_run *runs = shm_member_runs(shm, batch, batch->root);
    const size_t bytes = tutti_dtype_size(batch->dtype);
    size_t budget = step_bytes(shm) / bytes;

    while (task->rest.left > 0 && budget > 0) {
        size_t piece = runs_piece(&task->rest, batch, budget);
        size_t offset = task->rest.offset * bytes;
        size_t run = task->rest.run;

        memcpy((char *)batch->runs[run].output + offset,
                shm_address(root, runs[run].input + offset), piece * bytes);
        runs_advance(&task->rest, batch, piece);
        budget -= piece;
    }
    return task->rest.left == 0 ? TUTTI_OK : TUTTI_AGAIN;
}

/** The part of a run of another member that comes here. */
static const struct op_part *part_from(
        const struct shm_state *shm, const struct op_batch *batch, int from, size_t run)
{
    const struct shm_run *runs = shm_member_runs(shm, batch, from);
    const struct op_part *sends =
            shm_address(shm_member(shm, batch, from), runs[run].sends);

    return &sends[batch->set->rank];
}

/** Fills recvs from the senders' tables and lays out the outputs. */
static tutti_status learn_sizes(
        const struct shm_state *shm, const struct op_batch *batch)
{
    if (!exchange_receives(batch)) {
        return TUTTI_OK;
    }
    for (int from = 0; from < batch->set->size; from++) {
        bool flows = exchange_flows(batch, from, batch->set->rank);

        for (size_t run = 0; run < batch->run_count; run++) {
            batch->runs[run].recvs[from].bytes =
                    flows ? part_from(shm, batch, from, run)->bytes : 0;
        }
    }
    return exchange_place(batch);
}

/** Copies at most `budget` bytes of one run from a member. @return bytes; 0: no more */
static size_t copy_from(
        const struct shm_state *shm, struct shm_task *task, int from, size_t budget)
{
    const struct op_batch *batch = task->batch;
    struct exchange_cursor *at = &task->exchange.at;
    size_t bytes = exchange_piece(batch, from, at, budget);

    if (bytes > 0) {
        const struct shm_run *run = &shm_member_runs(shm, batch, from)[at->run];
        const struct op_part *part = part_from(shm, batch, from, at->run);

        exchange_copy(batch, from, at,
                shm_address(shm_member(shm, batch, from), run->input + part->offset),
                bytes);
    }
    return bytes;
}

tutti_status shm_exchange_work(struct shm_state *shm, struct shm_task *task)
{
    struct shm_exchange *exchange = &task->exchange;
    const struct op_set *set = task->batch->set;
    size_t budget = step_bytes(shm);

    if (!exchange->placed) {
        tutti_status status = learn_sizes(shm, task->batch);

        if (status != TUTTI_OK) {
            return status;
        }
        exchange->placed = true;
    }
    while (exchange->visited < set->size && budget > 0) {
        int from = (set->rank + exchange->visited) % set->size;
        size_t bytes = copy_from(shm, task, from, budget);

        budget -= bytes;
        if (bytes == 0) {
            exchange->visited++;
            exchange->at = (struct exchange_cursor){ 0 };
        }
    }
    return exchange->visited == set->size ? TUTTI_OK : TUTTI_AGAIN;
}
