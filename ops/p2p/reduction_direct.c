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
 *
 * On a narrow wire (d->wire) sums of float32 travel in 16 bits and are computed in float32:
 *
 *     operands   are rounded to scratch when they are posted; they arrive in the last half
 *                of their place, where they are widened, the first element first
 *     reduce     as ever; this rank's own operand is not rounded
 *     results    are rounded to the last operand's place. Of an allreduce their owner takes
 *                the rounded one, too: so all ranks have the same bits. They arrive as
 *                operands do, in the output
 *
 * Only sums and averages: a minimum is one of its operands, which programs may compare with
 * it, and in a product the errors of the operands add up.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "ops/p2p/task.h"

/*
 * Chunks in flight, and the operands in scratch that they may come to; with many ranks,
 * whose messages overlap anyway, first the slices get shorter and then the chunks in
 * flight fewer. Measured on a 2-core machine within a node: 64 to 256 KiB slices and depth 2
 * to 4 are equally good, 16 KiB costs a fifth more, 1 MiB or depth 8 leave the cache. Between
 * nodes the link says what must be in flight, and a slow one does not need the cache.
 */
#define DEPTH_MAX 4
#define LINK_DEPTH_MAX 256
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

static int peer_count(const struct p2p_task *task)
{
    return task->batch->set->size - 1;
}

/* What set rank `owner` reduces; may be empty. */
static struct span share_of(const struct p2p_task *task, int owner)
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
static struct span slice_of(const struct p2p_task *task, size_t chunk, int owner)
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

/* True when this rank sends what it reduced to others. */
static bool sends_results(const struct op_batch *batch)
{
    return batch->collective == TUTTI_ALLREDUCE ||
            (batch->collective == TUTTI_REDUCE && batch->set->rank != batch->root);
}

static bool is_narrow(const struct p2p_task *task)
{
    return task->direct.wire != task->batch->dtype;
}

/* What a slice of so many bytes is on the wire. */
static size_t wire_bytes_of(const struct p2p_task *task, size_t bytes)
{
    return bytes / task->element_bytes * task->direct.wire_bytes;
}

static int slot_of(const struct p2p_task *task, size_t chunk)
{
    return (int)(chunk % (size_t)task->direct.depth);
}

static int *pending_of(const struct p2p_task *task, enum group group, size_t chunk)
{
    return &task->direct
                    .pending[(int)group * task->direct.depth + slot_of(task, chunk)];
}

static int request_of(
        const struct p2p_task *task, enum group group, size_t chunk, int peer_index)
{
    int row = (int)group * task->direct.depth + slot_of(task, chunk);

    return row * peer_count(task) + peer_index;
}

/* Where the operand of peer i for this rank's slice arrives. */
static uint8_t *operand_of(const struct p2p_task *task, size_t chunk, int peer_index)
{
    size_t index = (size_t)slot_of(task, chunk) * (size_t)peer_count(task) +
            (size_t)peer_index;

    return task->direct.slices +
            index *
            size_align(
                    task->direct.slice_elements * task->element_bytes, TASK_ALIGNMENT);
}

/* Where the operand for peer i is rounded to. */
static uint8_t *rounded_of(const struct p2p_task *task, size_t chunk, int peer_index)
{
    size_t index = (size_t)slot_of(task, chunk) * (size_t)peer_count(task) +
            (size_t)peer_index;

    return task->direct.rounded +
            index *
            size_align(task->direct.slice_elements * task->direct.wire_bytes,
                    TASK_ALIGNMENT);
}

/*
 * Where this rank's slice is reduced to: its output, or, when only the root of a REDUCE
 * has one, over the operand of the first peer.
 */
static uint8_t *result_of(const struct p2p_task *task, size_t chunk, struct span mine)
{
    const struct op_batch *batch = task->batch;
    uint8_t *output = batch->runs[0].output;

    if (batch->collective == TUTTI_REDUCESCATTER) {
        return output + chunk * task->direct.slice_elements * task->element_bytes;
    }
    return wants_results(batch, batch->set->rank) ? output + mine.offset
                                                  : operand_of(task, chunk, 0);
}

/*
 * Where the result is rounded to: a place whose operand is reduced already. Of a REDUCE it is
 * not the place of the result, as of two ranks the one that has no output reduces nothing.
 */
static uint8_t *rounded_result_of(const struct p2p_task *task, size_t chunk)
{
    return operand_of(task, chunk, peer_count(task) - 1);
}

/* True when a message of a group goes to, or comes from, a peer at all. */
static bool group_has(const struct p2p_task *task, enum group group, int peer)
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

/* Where the slice that comes from peer i belongs: an operand of mine, or a result. */
static uint8_t *place_of(const struct p2p_task *task, enum group group, size_t chunk,
        int peer_index, struct span span)
{
    return group == RECEIVE_OPERANDS
            ? operand_of(task, chunk, peer_index)
            : (uint8_t *)task->batch->runs[0].output + span.offset;
}

/* The slice that a message is about: the receiver's operand, or the sender's result. */
static struct span span_of(
        const struct p2p_task *task, enum group group, size_t chunk, int peer_index)
{
    const bool mine = group == RECEIVE_OPERANDS || group == SEND_RESULTS;

    return slice_of(
            task, chunk, mine ? task->batch->set->rank : task_peer(task, peer_index));
}

/* What is sent to peer i; an operand is rounded now, a result was. */
static const uint8_t *parcel_of(const struct p2p_task *task, enum group group,
        size_t chunk, int peer_index, struct span span)
{
    const uint8_t *operand = (const uint8_t *)task->batch->runs[0].input + span.offset;
    uint8_t *rounded;

    if (group == SEND_RESULTS) {
        return is_narrow(task) ? rounded_result_of(task, chunk)
                               : result_of(task, chunk, span);
    }
    if (!is_narrow(task)) {
        return operand;
    }
    rounded = rounded_of(task, chunk, peer_index);
    reduce_narrow(
            task->direct.wire, rounded, operand, span.bytes / task->element_bytes);
    return rounded;
}

/* Posts one message of a chunk, unless it is empty. */
static tutti_status post(struct p2p_task *task, enum group group, size_t chunk, int i)
{
    const enum task_phase phase = group == RECEIVE_OPERANDS || group == SEND_OPERANDS
            ? TASK_OPERANDS
            : TASK_RESULTS;
    const struct span span = span_of(task, group, chunk, i);
    const size_t bytes = wire_bytes_of(task, span.bytes);
    int peer = task_peer(task, i);
    int index = request_of(task, group, chunk, i);

    if (span.bytes == 0 || !group_has(task, group, peer)) {
        return TUTTI_OK;
    }
    (*pending_of(task, group, chunk))++;
    if (group == SEND_OPERANDS || group == SEND_RESULTS) {
        return task_send(task, index, phase, peer,
                parcel_of(task, group, chunk, i, span), bytes);
    }
    if (group == RECEIVE_OPERANDS && meter_is_on(task->meter)) {
        meter_await(task->meter, task->batch->set->world_ranks[peer], clock_ns());
    }
    return task_receive(task, index, phase, peer,
            place_of(task, group, chunk, i, span) + span.bytes - bytes, bytes);
}

static tutti_status post_group(struct p2p_task *task, enum group group, size_t chunk)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < peer_count(task) && status == TUTTI_OK; i++) {
        status = post(task, group, chunk, i);
    }
    return status;
}

/* Keeps `depth` chunks in flight. */
static tutti_status issue(struct p2p_task *task)
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

/* Rounds this rank's result for those who want it; all of them get the same bits. */
static void round_result(const struct p2p_task *task, size_t chunk, struct span span)
{
    const tutti_dtype wire = task->direct.wire;
    const size_t count = span.bytes / task->element_bytes;
    uint8_t *result = result_of(task, chunk, span);
    uint8_t *rounded = rounded_result_of(task, chunk);

    reduce_narrow(wire, rounded, result, count);
    if (wants_results(task->batch, task->batch->set->rank)) {
        reduce_widen(wire, result, rounded, count);
    }
}

static void reduce_slice(const struct p2p_task *task, size_t chunk)
{
    const struct op_set *set = task->batch->set;
    struct span span = slice_of(task, chunk, set->rank);
    int64_t begin_ns;
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
    begin_ns = reduce_clock(task->env);
    reduce_tree(&task->spec, task->direct.operands, set->size, &result, 1,
            span.bytes / task->element_bytes);
    reduce_count(task->env, begin_ns);
    if (is_narrow(task) && sends_results(task->batch)) {
        round_result(task, chunk, span);
    }
}

/* Reduces at most one chunk whose operands are here, and sends the result. */
static tutti_status reduce_next(struct p2p_task *task, bool *moved)
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
static tutti_status open_results(struct p2p_task *task)
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

static void retire(struct direct *d, const struct p2p_task *task)
{
    size_t ready = size_min(d->reduced, d->opened);

    while (d->finished < ready && *pending_of(task, SEND_RESULTS, d->finished) == 0 &&
            *pending_of(task, RECEIVE_RESULTS, d->finished) == 0) {
        d->finished++;
    }
}

/* The chunk in flight that has a slot. */
static size_t chunk_in(const struct direct *d, size_t slot)
{
    const size_t depth = (size_t)d->depth;
    const size_t chunk = d->finished - d->finished % depth + slot;

    return chunk < d->finished ? chunk + depth : chunk;
}

/* Counts a message that is complete, and widens what it brought. */
static void take_message(struct p2p_task *task, int index)
{
    struct direct *d = &task->direct;
    const int row = index / peer_count(task);
    const int i = index % peer_count(task);
    const enum group group = (enum group)(row / d->depth);

    const size_t chunk = chunk_in(d, (size_t)(row % d->depth));
    const struct span span = span_of(task, group, chunk, i);

    d->pending[row]--;
    if (group == RECEIVE_OPERANDS && meter_is_on(task->meter)) {
        meter_arrived(task->meter, task->batch->set->world_ranks[task_peer(task, i)],
                wire_bytes_of(task, span.bytes), clock_ns());
    }
    if (is_narrow(task) && index < task->receive_count) {
        uint8_t *place = place_of(task, group, chunk, i, span);

        reduce_widen(d->wire, place,
                place + span.bytes - wire_bytes_of(task, span.bytes),
                span.bytes / task->element_bytes);
    }
}

/* What has arrived. */
static tutti_status take_messages(struct p2p_task *task, bool *moved)
{
    int count = 0;
    tutti_status status = task_poll(task, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    for (int i = 0; i < count; i++) {
        take_message(task, task->done[i]);
    }
    *moved = *moved || count > 0;
    return TUTTI_OK;
}

static tutti_status direct_step(struct p2p_task *task, bool *moved)
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

static size_t budget(const struct p2p_state *state)
{
    return state->window_bytes > 0 ? state->window_bytes : SCRATCH_BUDGET;
}

/* The bytes of the longest message; a multiple of TASK_ALIGNMENT. */
static size_t longest_message(const struct p2p_state *state, size_t size)
{
    size_t affordable = budget(state) / (DEPTH_MIN * size);

    affordable -= affordable % TASK_ALIGNMENT;
    return size_min(state->message_bytes, size_max(affordable, SLICE_BYTES_MIN));
}

/* Elements of the largest share; at least 1. */
static size_t largest_share(const struct p2p_task *task)
{
    size_t largest = 0;

    for (int r = 0; r < task->batch->set->size; r++) {
        largest = size_max(largest, share_of(task, r).bytes);
    }
    return largest / task->element_bytes;
}

/* Cuts the shares into equal slices, as many as the largest needs. */
static void lay_out(const struct p2p_state *state, struct p2p_task *task)
{
    struct direct *d = &task->direct;
    size_t size = (size_t)task->batch->set->size;
    size_t longest = longest_message(state, size) / d->wire_bytes;
    size_t share = largest_share(task);
    size_t chunks = (share - 1) / longest + 1;
    size_t depth;

    d->slice_elements =
            size_align((share - 1) / chunks + 1, TASK_ALIGNMENT / task->element_bytes);
    d->chunk_count = (share - 1) / d->slice_elements + 1;
    depth = budget(state) / (d->slice_elements * size * d->wire_bytes);
    depth = size_min(size_max(depth, DEPTH_MIN),
            state->window_bytes > 0 ? LINK_DEPTH_MAX : DEPTH_MAX);
    d->depth = (int)size_min(depth, d->chunk_count);
}

static tutti_status direct_start(struct p2p_state *state, struct p2p_task *task)
{
    struct direct *d = &task->direct;
    int peers = peer_count(task);
    size_t pointers;
    size_t counters;
    size_t slices;
    size_t rounded;
    uint8_t *extra;

    d->wire = p2p_wire_of(state, task->batch);
    d->wire_bytes = tutti_dtype_size(d->wire);
    lay_out(state, task);
    pointers = size_align((size_t)(peers + 1) * sizeof *d->operands, TASK_ALIGNMENT);
    counters = GROUP_COUNT * (size_t)d->depth * sizeof *d->pending;
    counters = size_align(counters, TASK_ALIGNMENT);
    slices = size_align(d->slice_elements * task->element_bytes, TASK_ALIGNMENT);
    slices *= (size_t)peers * (size_t)d->depth;
    rounded = size_align(d->slice_elements * d->wire_bytes, TASK_ALIGNMENT);
    rounded *= is_narrow(task) ? (size_t)peers * (size_t)d->depth : 0;
    extra = task_prepare(state, task, 2 * peers * d->depth, 2 * peers * d->depth,
            pointers + counters + slices + rounded);
    if (extra == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    d->operands = (const void **)(void *)extra;
    d->pending = (int *)(void *)(extra + pointers);
    d->slices = extra + pointers + counters;
    d->rounded = d->slices + slices;
    for (int i = 0; i < GROUP_COUNT * d->depth; i++) {
        d->pending[i] = 0;
    }
    return issue(task);
}

const struct p2p_algorithm reduction_direct = {
    .name = "direct",
    .bytes_most = SIZE_MAX,
    .start = direct_start,
    .step = direct_step,
};
