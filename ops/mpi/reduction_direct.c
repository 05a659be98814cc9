/*
 * Large reductions: a direct reduce-scatter, and what is wanted of an allgather, in
 * chunks.
 *
 * Each rank reduces a share of the batch. A share is cut into slices, and the c-th slices
 * of all shares are chunk c. For each chunk:
 *
 *     operands   slice j of my input goes to rank j, as it is
 *     reduce     when slice `me` of all ranks is here: one reduce_tree over them, so that
 *                fp16 is rounded once
 *     results    my reduced slice goes to all ranks that want it
 *
 *                     shares                          results go to
 *     allreduce       equal                           all ranks
 *     reduce          equal; of two ranks all to      the root
 *                     the root, which gets as many
 *                     bytes and in one hop
 *     reducescatter   what the caller says, so that   nobody
 *                     short ones have no slices in
 *                     the last chunks
 *
 * Of an allreduce 2 (n-1)/n of the batch leave and enter each rank, the minimum, and
 * every step is one hop whatever n is. Up to `depth` chunks are in flight, so the
 * messages of some overlap the reduction of another; the operands received lie in
 * scratch small enough to stay in cache between arrival and reduction.
 *
 * In place: the result of slice j is received over input slice j, which the send to
 * rank j reads. Its owner cannot answer before it has my operand, but MPI forbids a
 * receive into memory that a send still owns, so the receive is posted when that send
 * is complete. My own slice is sent to nobody before it is reduced. The order of chunks
 * is kept in each phase (four counters), because messages of a phase are matched in
 * order; see task.h.
 */
#include "base/mem.h"
#include "ops/mpi/task.h"

/*
 * Chunks in flight, and the operands in scratch that they may come to; with many ranks,
 * whose messages overlap anyway, first the slices get shorter and then the chunks in
 * flight fewer. Measured on a 2-core machine: 64 to 256 KiB slices and depth 2 to 4 are
 * equally good, 16 KiB costs a fifth more, 1 MiB or depth 8 leave the cache.
 */
#define DEPTH_MAX 4
#define DEPTH_MIN 2
#define SLICE_BYTES_MIN ((size_t)32 << 10)
#define SCRATCH_BUDGET ((size_t)4 << 20)

/* The kinds of messages of a chunk; the receives first, as in task->requests. */
enum group {
    RECEIVE_OPERANDS,
    RECEIVE_RESULTS,
    SEND_OPERANDS,
    SEND_RESULTS,
    GROUP_COUNT
};

/* A share or a slice: where it lies in an input, and how long it is. In bytes. */
struct span {
    size_t offset;
    size_t bytes;
};

static int peer_count(const struct mpi_task *task)
{
    return task->batch->set->size - 1;
}

/* What set rank `owner` reduces; may be empty. */
static struct span share_of(const struct mpi_task *task, int owner)
{
    const struct op_batch *batch = task->batch;
    const size_t end = batch->count * task->element_bytes;
    const size_t size = (size_t)batch->set->size;
    size_t length;
    size_t begin;

    if (batch->collective == TUTTI_REDUCESCATTER) {
        const struct op_part *part = &batch->runs[0].sends[owner];

        return (struct span){ .offset = part->offset, .bytes = part->bytes };
    }
    if (batch->collective == TUTTI_REDUCE && size <= 2) {
        return (struct span){ .offset = 0, .bytes = owner == batch->root ? end : 0 };
    }
    length = (batch->count - 1) / size + 1;
    length = size_align(length * task->element_bytes, TASK_ALIGNMENT);
    begin = size_min((size_t)owner * length, end);
    return (struct span){ .offset = begin, .bytes = size_min(length, end - begin) };
}

/* The slice of a share that belongs to a chunk; may be empty in the last chunks. */
static struct span slice_of(const struct mpi_task *task, size_t chunk, int owner)
{
    const struct span share = share_of(task, owner);
    const size_t slice = task->direct.slice_elements * task->element_bytes;
    const size_t skip = size_min(chunk * slice, share.bytes);

    return (struct span){ .offset = share.offset + skip,
        .bytes = size_min(slice, share.bytes - skip) };
}

/* True when a rank gets the results of the others. */
static bool wants_results(const struct op_batch *batch, int rank)
{
    return batch->collective == TUTTI_ALLREDUCE ||
            (batch->collective == TUTTI_REDUCE && rank == batch->root);
}

static int slot_of(const struct mpi_task *task, size_t chunk)
{
    return (int)(chunk % (size_t)task->direct.depth);
}

static int *pending_of(const struct mpi_task *task, enum group group, size_t chunk)
{
    return &task->direct
                    .pending[(int)group * task->direct.depth + slot_of(task, chunk)];
}

static int request_of(
        const struct mpi_task *task, enum group group, size_t chunk, int peer_index)
{
    int row = (int)group * task->direct.depth + slot_of(task, chunk);

    return row * peer_count(task) + peer_index;
}

/* Where the operand of peer i for this rank's slice arrives. */
static uint8_t *operand_of(const struct mpi_task *task, size_t chunk, int peer_index)
{
    size_t index = (size_t)slot_of(task, chunk) * (size_t)peer_count(task) +
            (size_t)peer_index;

    return task->direct.slices +
            index *
            size_align(
                    task->direct.slice_elements * task->element_bytes, TASK_ALIGNMENT);
}

/*
 * Where this rank's slice is reduced to: its output, or, when only the root of a REDUCE
 * has one, over the operand of the first peer.
 */
static uint8_t *result_of(const struct mpi_task *task, size_t chunk, struct span mine)
{
    const struct op_batch *batch = task->batch;
    uint8_t *output = batch->runs[0].output;

    if (batch->collective == TUTTI_REDUCESCATTER) {
        return output + chunk * task->direct.slice_elements * task->element_bytes;
    }
    return wants_results(batch, batch->set->rank) ? output + mine.offset
                                                  : operand_of(task, chunk, 0);
}

/* True when a message of a group goes to, or comes from, a peer at all. */
static bool group_has(const struct mpi_task *task, enum group group, int peer)
{
    const struct op_batch *batch = task->batch;

    switch (group) {
    case RECEIVE_RESULTS:
        return wants_results(batch, batch->set->rank);
    case SEND_RESULTS:
        return wants_results(batch, peer);
    case RECEIVE_OPERANDS:
    case SEND_OPERANDS:
    case GROUP_COUNT:
        break;
    }
    return true;
}

/* Posts one message of a chunk, unless it is empty. */
static tutti_status post(struct mpi_task *task, enum group group, size_t chunk, int i)
{
    const struct op_run *run = &task->batch->runs[0];
    int me = task->batch->set->rank;
    int peer = task_peer(task, i);
    bool mine = group == RECEIVE_OPERANDS || group == SEND_RESULTS;
    struct span span = slice_of(task, chunk, mine ? me : peer);
    int index = request_of(task, group, chunk, i);

    if (span.bytes == 0 || !group_has(task, group, peer)) {
        return TUTTI_OK;
    }
    (*pending_of(task, group, chunk))++;
    switch (group) {
    case RECEIVE_RESULTS:
        return task_receive(task, index, TASK_RESULTS, peer,
                (uint8_t *)run->output + span.offset, span.bytes);
    case SEND_RESULTS:
        return task_send(task, index, TASK_RESULTS, peer, result_of(task, chunk, span),
                span.bytes);
    case RECEIVE_OPERANDS:
        return task_receive(task, index, TASK_OPERANDS, peer,
                operand_of(task, chunk, i), span.bytes);
    case SEND_OPERANDS:
        return task_send(task, index, TASK_OPERANDS, peer,
                (const uint8_t *)run->input + span.offset, span.bytes);
    case GROUP_COUNT:
        break;
    }
    return TUTTI_ERR_INTERNAL;
}

static tutti_status post_group(struct mpi_task *task, enum group group, size_t chunk)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < peer_count(task) && status == TUTTI_OK; i++) {
        status = post(task, group, chunk, i);
    }
    return status;
}

/* Keeps `depth` chunks in flight. */
static tutti_status issue(struct mpi_task *task)
{
    struct direct *d = &task->direct;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && d->issued < d->chunk_count &&
            d->issued - d->finished < (size_t)d->depth) {
        /* Sends first: posting a receive may move its whole message there and then. */
        status = post_group(task, SEND_OPERANDS, d->issued);
        if (status == TUTTI_OK) {
            status = post_group(task, RECEIVE_OPERANDS, d->issued);
        }
        d->issued++;
    }
    return status;
}

static void reduce_slice(const struct mpi_task *task, size_t chunk)
{
    const struct op_set *set = task->batch->set;
    struct span span = slice_of(task, chunk, set->rank);
    void *result;

    if (span.bytes == 0) {
        return;
    }
    task->direct.operands[set->rank] =
            (const uint8_t *)task->batch->runs[0].input + span.offset;
    for (int i = 0; i < peer_count(task); i++) {
        task->direct.operands[task_peer(task, i)] = operand_of(task, chunk, i);
    }
    result = result_of(task, chunk, span);
    reduce_shared(task->env,
            &(struct reduce_job){ .spec = &task->spec,
                    .inputs = task->direct.operands,
                    .n = set->size,
                    .outputs = &result,
                    .m = 1,
                    .count = span.bytes / task->element_bytes });
}

/* Reduces at most one chunk whose operands are here, and sends the result. */
static tutti_status reduce_next(struct mpi_task *task, bool *moved)
{
    struct direct *d = &task->direct;

    if (d->reduced == d->issued ||
            *pending_of(task, RECEIVE_OPERANDS, d->reduced) > 0) {
        return TUTTI_OK;
    }
    reduce_slice(task, d->reduced);
    d->reduced++;
    *moved = true;
    return post_group(task, SEND_RESULTS, d->reduced - 1);
}

/* Receives results, if wanted, over the operands whose sends are complete. */
static tutti_status open_results(struct mpi_task *task)
{
    struct direct *d = &task->direct;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && d->opened < d->issued &&
            *pending_of(task, SEND_OPERANDS, d->opened) == 0) {
        status = post_group(task, RECEIVE_RESULTS, d->opened);
        d->opened++;
    }
    return status;
}

static void retire(struct direct *d, const struct mpi_task *task)
{
    size_t ready = size_min(d->reduced, d->opened);

    while (d->finished < ready && *pending_of(task, SEND_RESULTS, d->finished) == 0 &&
            *pending_of(task, RECEIVE_RESULTS, d->finished) == 0) {
        d->finished++;
    }
}

/* What has arrived. */
static tutti_status take_messages(struct mpi_task *task, bool *moved)
{
    int count = 0;
    tutti_status status = task_poll(task, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    for (int i = 0; i < count; i++) {
        task->direct.pending[task->done[i] / peer_count(task)]--;
    }
    *moved = *moved || count > 0;
    return TUTTI_OK;
}

static tutti_status direct_step(struct mpi_task *task, bool *moved)
{
    struct direct *d = &task->direct;
    tutti_status status = take_messages(task, moved);

    if (status != TUTTI_OK) {
        return status;
    }
    status = open_results(task);
    if (status == TUTTI_OK) {
        status = reduce_next(task, moved);
    }
    if (status == TUTTI_OK) {
        retire(d, task);
        status = issue(task);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    return d->finished == d->chunk_count ? TUTTI_OK : TUTTI_AGAIN;
}

/* The longest slice; a multiple of TASK_ALIGNMENT. */
static size_t longest_slice(const struct mpi_state *state, size_t size)
{
    size_t affordable = SCRATCH_BUDGET / (DEPTH_MIN * size);

    affordable -= affordable % TASK_ALIGNMENT;
    return size_min(state->message_bytes, size_max(affordable, SLICE_BYTES_MIN));
}

/* Elements of the largest share; at least 1. */
static size_t largest_share(const struct mpi_task *task)
{
    size_t largest = 0;

    for (int r = 0; r < task->batch->set->size; r++) {
        largest = size_max(largest, share_of(task, r).bytes);
    }
    return largest / task->element_bytes;
}

/* Cuts the shares into equal slices, as many as the largest needs. */
static void lay_out(const struct mpi_state *state, struct mpi_task *task)
{
    struct direct *d = &task->direct;
    size_t size = (size_t)task->batch->set->size;
    size_t longest = longest_slice(state, size) / task->element_bytes;
    size_t share = largest_share(task);
    size_t chunks = (share - 1) / longest + 1;
    size_t depth;

    d->slice_elements =
            size_align((share - 1) / chunks + 1, TASK_ALIGNMENT / task->element_bytes);
    d->chunk_count = (share - 1) / d->slice_elements + 1;
    depth = SCRATCH_BUDGET / (d->slice_elements * size * task->element_bytes);
    depth = size_min(size_max(depth, DEPTH_MIN), DEPTH_MAX);
    d->depth = (int)size_min(depth, d->chunk_count);
}

static tutti_status direct_start(struct mpi_state *state, struct mpi_task *task)
{
    struct direct *d = &task->direct;
    int peers = peer_count(task);
    size_t pointers;
    size_t counters;
    size_t slices;
    uint8_t *extra;

    lay_out(state, task);
    pointers = size_align((size_t)(peers + 1) * sizeof *d->operands, TASK_ALIGNMENT);
    counters = GROUP_COUNT * (size_t)d->depth * sizeof *d->pending;
    counters = size_align(counters, TASK_ALIGNMENT);
    slices = size_align(d->slice_elements * task->element_bytes, TASK_ALIGNMENT);
    slices *= (size_t)peers * (size_t)d->depth;
    extra = task_prepare(state, task, 2 * peers * d->depth, 2 * peers * d->depth,
            pointers + counters + slices);
    if (extra == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    d->operands = (const void **)(void *)extra;
    d->pending = (int *)(void *)(extra + pointers);
    d->slices = extra + pointers + counters;
    for (int i = 0; i < GROUP_COUNT * d->depth; i++) {
        d->pending[i] = 0;
    }
    return issue(task);
}

const struct mpi_algorithm reduction_direct = {
    .name = "direct",
    .start = direct_start,
    .step = direct_step,
};
