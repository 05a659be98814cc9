/*
 * Small allreduces: each rank publishes its operands and reduces those of all by itself.
 *
 * That takes one synchronisation instead of two, and nobody waits for others to be done
 * with its memory. The operands lie in the slot, or in a block that belongs to it; a rank
 * uses them again OP_INFLIGHT_MAX batches of the set later, when counters show that all
 * have read them.
 */
#include "base/error.h"
#include "base/mem.h"
#include "ops/reduce/reduce.h"
#include "ops/shm/shm_task.h"

/*
 * With p ranks each reads p operands instead of about two, so it pays up to a size that
 * falls with the square of p.
 */
#define ONCE_BYTES_MAX ((size_t)8192)

/** Bytes up to which operands are published. */
static size_t bytes_max(const struct op_set *set)
{
    const size_t others = size_max((size_t)set->size - 1, 1);

    return size_max(ONCE_BYTES_MAX / (others * others), SHM_INLINE_BYTES);
}

bool shm_once_applies(const struct op_batch *batch)
{
    return batch->collective == TUTTI_ALLREDUCE &&
            batch->count <= bytes_max(batch->set) / tutti_dtype_size(batch->dtype);
}

static bool is_tiny(const struct op_batch *batch)
{
    return batch->count <= SHM_TINY_BYTES / tutti_dtype_size(batch->dtype);
}

/** Where the operands of a member are that has arrived. */
static char *operands_of(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    const struct shm_rank *rank = shm_member(shm, batch, member);
    struct shm_slot *slot = shm_slot_of(rank, batch);

    return is_tiny(batch) ? (char *)slot->tiny : shm_address(rank, slot->operands);
}

/** Memory for operands in a slot of this rank; NULL when there is none. */
static void *room_for(const struct shm_rank *mine, struct shm_slot *slot,
        const struct op_batch *batch)
{
    const size_t bytes = batch->count * tutti_dtype_size(batch->dtype);

    if (is_tiny(batch)) {
        return slot->tiny;
    }
    if (bytes <= sizeof slot->payload) {
        return slot->payload;
    }
    if (slot->block_bytes < bytes) {
        const size_t most = bytes_max(batch->set);
        void *block = shm_alloc(mine, most);

        if (block == NULL) {
            return NULL;
        }
        shm_free(mine, slot->block);
        slot->block = block;
        slot->block_bytes = (uint32_t)most;
    }
    return slot->block;
}

tutti_status shm_once_give(const struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const struct shm_rank *mine = shm_member(shm, batch, batch->set->rank);
    struct shm_slot *slot = shm_slot_of(mine, batch);
    char *to = room_for(mine, slot, batch);

    if (to == NULL) {
        return shm_no_memory(mine, "small operands", bytes_max(batch->set));
    }
    if (!is_tiny(batch)) {
        slot->operands = shm_offset(mine, to);
    }
    slot->due += SHM_HAS_READ * ((uint32_t)batch->set->size - 1);
    for (size_t run = 0; run < batch->run_count; run++) {
        const size_t bytes = batch->runs[run].count * tutti_dtype_size(batch->dtype);

        if (bytes > 0) {
            mem_copy(to, batch->runs[run].input, bytes);
            to += bytes;
        }
    }
    return TUTTI_OK;
}

/** Reduces the elements of one run, which begin at a byte of the operands. */
static void reduce_run(struct shm_state *shm, const struct op_batch *batch,
        const struct op_run *run, size_t first)
{
    const struct reduce_spec spec = reduce_spec_of(batch);
    void *output = run->output;

    for (int member = 0; member < batch->set->size; member++) {
        shm->inputs[member] = operands_of(shm, batch, member) + first;
    }
    /* The own copy may be handed back just now. */
    shm->inputs[batch->set->rank] = run->input;
    reduce_tree(&spec, shm->inputs, batch->set->size, &output, 1, run->count);
    if (batch->set->size == 2 && !is_tiny(batch)) {
        shm_hand_back(operands_of(shm, batch, 1 - batch->set->rank) + first,
                run->count * tutti_dtype_size(batch->dtype));
    }
}

/** The operands of a member are read; it may be waiting for that. */
static void count_reading(
        const struct shm_state *shm, const struct op_batch *batch, int member)
{
    struct shm_slot *slot = shm_slot_of(shm_member(shm, batch, member), batch);
    /* Pairs with the loads in is_claimable(): what was read may be overwritten. */
    const uint32_t before =
            atomic_fetch_add_explicit(&slot->read, SHM_HAS_READ, memory_order_release);

    if ((before & SHM_OWNER_WAITS) != 0) {
        shm_wake(shm, batch, member);
    }
}

void shm_once_work(struct shm_state *shm, const struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const int64_t begin_ns = reduce_clock(shm->env);
    size_t first = 0;

    for (size_t run = 0; run < batch->run_count; run++) {
        reduce_run(shm, batch, &batch->runs[run], first);
        first += batch->runs[run].count * tutti_dtype_size(batch->dtype);
    }
    reduce_count(shm->env, begin_ns);
    for (int member = 0; member < batch->set->size; member++) {
        if (member != batch->set->rank) {
            count_reading(shm, batch, member);
        }
    }
}
