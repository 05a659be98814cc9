/*
 * What a rank publishes of a batch, the shared memory that it needs for it, and how ranks tell how
 * far they are (the table in shm.c).
 */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/shm/shm_task.h"

/* Bytes of a table of a slot at least. */
#define TABLE_BYTES_MIN ((size_t)512)

/* ------------------------------------------------------------- who waits for whom */

/** True when only the root's memory is read. */
static bool is_from_root(const struct op_batch *batch)
{
    return batch->collective == TUTTI_BROADCAST || batch->collective == TUTTI_SCATTER;
}

struct shm_members shm_awaited(const struct op_batch *batch, enum shm_stage stage)
{
    if ((stage == SHM_ARRIVED && is_from_root(batch)) ||
            (stage == SHM_RELEASED && batch->collective == TUTTI_GATHER)) {
        return (struct shm_members){ .first = batch->root, .count = 1 };
    }
    return (struct shm_members){ .first = 0, .count = batch->set->size };
}

bool shm_member_works(const struct op_batch *batch, int member)
{
    if (is_from_root(batch)) {
        return member != batch->root;
    }
    if (batch->collective == TUTTI_GATHER) {
        return member == batch->root;
    }
    return op_is_exchange(batch->collective) || shm_reduce_has_share(batch, member);
}

bool shm_member_waits(const struct op_batch *batch, int member, enum shm_stage stage)
{
    if (stage == SHM_ARRIVED) {
        return shm_member_works(batch, member);
    }
    if (is_from_root(batch)) {
        return member == batch->root;
    }
    return batch->collective != TUTTI_GATHER || member != batch->root;
}

bool shm_member_reached(const struct shm_state *shm, const struct op_batch *batch,
        int member, enum shm_stage stage, uint64_t rounds)
{
    const struct shm_rank *rank = shm_member(shm, batch, member);
    const struct shm_slot *slot = shm_slot_of(rank, batch);

    /*
     * All three are sequentially consistent so that the last one knows it, see shm.c.
     * Pairs with the store in shm_row_claim(): reading a row makes no memory for it.
     */
    if (batch->set->index >=
            atomic_load_explicit(
                    &rank->segment->rows[batch->set->bank], memory_order_seq_cst)) {
        return false;
    }
    /* Pairs with the store in slot_claim(): counts of a former set are gone. */
    if (atomic_load_explicit(&slot->set, memory_order_seq_cst) != batch->set->id) {
        return false;
    }
    /* Pairs with the store in shm_reach() or publish(), whose data it makes visible. */
    return atomic_load_explicit(&slot->reached[stage], memory_order_seq_cst) >=
            shm_flag(batch, rounds);
}

bool shm_all_reached(
        const struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    struct shm_members awaited = shm_awaited(task->batch, stage);

    while (task->seen[stage] < awaited.count) {
        int member = awaited.first + task->seen[stage];

        if (!shm_member_reached(shm, task->batch, member, stage, 0)) {
            return false;
        }
        task->seen[stage]++;
    }
    return true;
}

void shm_reach(struct shm_state *shm, struct shm_task *task, enum shm_stage stage)
{
    const struct op_batch *batch = task->batch;
    const struct op_set *set = batch->set;
    const struct shm_members awaited = shm_awaited(batch, stage);
    struct shm_slot *slot = shm_slot_of(shm_member(shm, batch, set->rank), batch);

    if (set->rank < awaited.first || set->rank >= awaited.first + awaited.count) {
        return;
    }
    /* Pairs with the load in shm_member_reached(). */
    atomic_store_explicit(
            &slot->reached[stage], shm_flag(batch, 0), memory_order_seq_cst);
    if (!shm_all_reached(shm, task, stage)) {
        return;
    }
    for (int member = 0; member < set->size; member++) {
        if (member != set->rank &&
                (task->phase == SHM_ONCE || shm_member_waits(batch, member, stage))) {
            shm_wake(shm, batch, member);
        }
    }
}

/* -------------------------------------------------------------------- arriving */

/**
 * True when nobody reads operands in a slot of this rank any more; else those who still
 * will wake it.
 */
static bool is_claimable(struct shm_slot *slot)
{
    /* Pairs with the counting in shm_once_work(), as does the one below. */
    uint32_t read = atomic_load_explicit(&slot->read, memory_order_acquire);

    if (read == slot->due) {
        return true;
    }
    if ((read & SHM_OWNER_WAITS) == 0) {
        /* One word, so who has not counted yet sees that it is waited for. */
        read = atomic_fetch_or_explicit(
                &slot->read, SHM_OWNER_WAITS, memory_order_acquire);
    }
    if ((read & ~SHM_OWNER_WAITS) != slot->due) {
        return false;
    }
    /* Nobody else writes it until this rank arrives, which publishes it. */
    atomic_store_explicit(&slot->read, slot->due, memory_order_relaxed);
    return true;
}

/** Makes a slot of this rank count for a set. */
static void slot_claim(struct shm_slot *slot, const struct op_set *set)
{
    if (atomic_load_explicit(&slot->set, memory_order_relaxed) == set->id) {
        return;
    }
    for (int stage = 0; stage < SHM_STAGES; stage++) {
        atomic_store_explicit(&slot->reached[stage], 0, memory_order_relaxed);
    }
    /* Pairs with the load in shm_member_reached(). */
    atomic_store_explicit(&slot->set, set->id, memory_order_seq_cst);
}

bool shm_row_claim(const struct shm_rank *mine, const struct op_set *set)
{
    struct shm_segment *segment = mine->segment;
    struct shm_slot(*bank)[OP_INFLIGHT_MAX] = segment->slots[set->bank];
    const uint32_t rows =
            atomic_load_explicit(&segment->rows[set->bank], memory_order_relaxed);
    const uint32_t wanted = (set->index / SHM_ROWS_IN_PAGE + 1) * SHM_ROWS_IN_PAGE;

    if (set->index < rows) {
        return true;
    }
    if (mine->reservation.base != NULL &&
            !reservation_commit(&mine->reservation,
                    (size_t)((char *)bank[rows] - (char *)segment),
                    (wanted - rows) * sizeof bank[0])) {
        return false;
    }
    /* Pairs with the load in shm_member_reached(). */
    atomic_store_explicit(&segment->rows[set->bank], wanted, memory_order_seq_cst);
    return true;
}

/** Room for the table of a batch in a slot of this rank; NULL when out of memory. */
static void *slot_table(struct shm_state *shm, const struct shm_rank *mine,
        struct shm_slot *slot, size_t bytes)
{
    size_t capacity = size_max(shm->table_bytes, TABLE_BYTES_MIN);
    void *table;

    if (bytes <= sizeof slot->single) {
        return &slot->single;
    }
    if (bytes <= slot->table_bytes) {
        return slot->table;
    }
    while (capacity < bytes && capacity <= SIZE_MAX / 2) {
        capacity *= 2;
    }
    table = shm_alloc(mine, capacity);
    if (table != NULL) {
        shm_free(mine, slot->table);
        slot->table = table;
        slot->table_bytes = capacity;
        shm->table_bytes = capacity;
    }
    return table;
}

/** The bytes of the input of a run that others may read, from its first on. */
static size_t input_bytes(const struct op_batch *batch, const struct op_run *run)
{
    size_t bytes = 0;

    if (!op_is_exchange(batch->collective)) {
        return run->count * tutti_dtype_size(batch->dtype);
    }
    for (int to = 0; to < batch->set->size; to++) {
        bytes = size_max(bytes, run->sends[to].offset + run->sends[to].bytes);
    }
    return bytes;
}

/** The bytes of the output that a reduction writes. Other outputs are written by their owner. */
static size_t output_bytes(const struct op_batch *batch, const struct op_run *run)
{
    if (!op_is_reduction(batch->collective) || run->output == NULL) {
        return 0;
    }
    return batch->collective == TUTTI_REDUCESCATTER
            ? run->sends[batch->set->rank].bytes
            : run->count * tutti_dtype_size(batch->dtype);
}

/** True for memory that is not of the arena but was published. */
static bool is_alias(const struct shm_rank *mine, const void *memory, uint64_t offset)
{
    return offset != SHM_PRIVATE && shm_offset(mine, memory) == SHM_PRIVATE;
}

/** Writes where a run lies. @return true when memory of the application is in the arena */
static bool run_fill(struct shm_rank *mine, struct shm_run *to,
        const struct op_batch *batch, const struct op_run *run)
{
    to->input = shm_offset(mine, run->input);
    to->output = shm_offset(mine, run->output);
    if (to->input == SHM_PRIVATE) {
        to->input = aliases_begin(
                &mine->aliases, run->input, input_bytes(batch, run), true);
    }
    if (to->output == SHM_PRIVATE) {
        to->output = aliases_begin(
                &mine->aliases, run->output, output_bytes(batch, run), false);
    }
    to->scratch = run->scratch;
    return is_alias(mine, run->input, to->input) ||
            is_alias(mine, run->output, to->output);
}

void shm_release_aliases(const struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    struct shm_rank *mine = shm_member(shm, batch, batch->set->rank);
    const struct shm_run *runs;

    if (!task->has_aliases) {
        return;
    }
    task->has_aliases = false;
    runs = shm_member_runs(shm, batch, batch->set->rank);
    for (size_t i = 0; i < batch->run_count; i++) {
        const struct op_run *run = &batch->runs[i];

        if (is_alias(mine, run->output, runs[i].output)) {
            aliases_end(&mine->aliases, run->output, output_bytes(batch, run));
        }
    }
}

/** Writes where the runs of a batch lie, and a copy of their parts, into a slot. */
static tutti_status slot_fill(struct shm_state *shm, struct shm_rank *mine,
        struct shm_slot *slot, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    const size_t size = (size_t)batch->set->size;
    const size_t parts = op_is_exchange(batch->collective) ? size : 0;
    const size_t bytes = batch->run_count *
            (sizeof(struct shm_run) + parts * sizeof(struct op_part));
    struct shm_run *runs = slot_table(shm, mine, slot, bytes);
    struct op_part *sends;

    if (runs == NULL) {
        return shm_no_memory(mine, "tables of a batch", bytes);
    }
    sends = (struct op_part *)(void *)(runs + batch->run_count);
    for (size_t i = 0; i < batch->run_count; i++) {
        task->has_aliases |= run_fill(mine, &runs[i], batch, &batch->runs[i]);
        runs[i].sends = shm_offset(mine, sends);
        if (parts > 0) {
            memcpy(sends, batch->runs[i].sends, parts * sizeof *sends);
            sends += parts;
        }
    }
    slot->runs = shm_offset(mine, runs);
    return TUTTI_OK;
}

/** Gives a task staging memory. */
static tutti_status ring_take(
        struct shm_state *shm, const struct shm_rank *mine, struct shm_task *task)
{
    struct shm_ring *ring = shm->rings;

    if (ring != NULL) {
        shm->rings = ring->next;
    } else {
        ring = shm_alloc(mine, shm->ring_bytes);
    }
    if (ring == NULL) {
        return shm_no_memory(mine, "staging", shm->ring_bytes);
    }
    task->staging = (char *)ring;
    return TUTTI_OK;
}

void shm_ring_give(struct shm_state *shm, struct shm_task *task)
{
    struct shm_ring *ring = (struct shm_ring *)(void *)task->staging;

    if (ring != NULL) {
        ring->next = shm->rings;
        shm->rings = ring;
        task->staging = NULL;
    }
}

/** What a rank has to do of a batch. */
static void work_init(const struct shm_state *shm, struct shm_task *task)
{
    task->placed = true;
    if (op_is_reduction(task->batch->collective)) {
        shm_reduce_init(shm, task);
    } else if (task->batch->collective == TUTTI_BROADCAST) {
        shm_broadcast_init(shm, task);
    } else {
        task->placed = false;
        shm_exchange_init(shm, task);
    }
}

/** Prepares the slot and the work; nothing is published. */
static tutti_status prepare(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    struct shm_rank *mine = shm_member(shm, batch, batch->set->rank);
    struct shm_slot *slot = shm_slot_of(mine, batch);
    tutti_status status;

    if (shm_once_applies(batch)) {
        return shm_once_give(shm, task);
    }
    status = slot_fill(shm, mine, slot, task);
    if (status != TUTTI_OK) {
        return status;
    }
    work_init(shm, task);
    if (task->stage.all >= shm_rounds_max(batch)) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "a batch of %zu tensors is too long for pieces of %zu bytes; raise "
                "chunk_bytes",
                batch->run_count, task->piece);
    }
    if (task->stage.all > 0) {
        status = ring_take(shm, mine, task);
    }
    slot->staging = task->staging != NULL ? shm_offset(mine, task->staging) : 0;
    return status;
}

tutti_status shm_arrive(struct shm_state *shm, struct shm_task *task)
{
    const struct op_batch *batch = task->batch;
    struct shm_slot *slot =
            shm_slot_of(shm_member(shm, batch, batch->set->rank), batch);
    tutti_status status;

    if (!is_claimable(slot)) {
        return TUTTI_OK;
    }
    status = prepare(shm, task);
    if (status == TUTTI_OK) {
        task->phase = shm_once_applies(batch) ? SHM_ONCE : SHM_WORKING;
        slot_claim(slot, batch->set);
        shm_reach(shm, task, SHM_ARRIVED);
    }
    return status;
}
