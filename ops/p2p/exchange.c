/*
 * Allgather, alltoall, gather and scatter: every part goes straight from the sender's
 * input to the receiver's output.
 *
 *     rank 0   sends to 1, 2, 3     receives from 3, 2, 1
 *     rank 1   sends to 2, 3, 0     receives from 0, 3, 2
 *     ...
 *
 * One hop whatever the number of ranks, and each byte leaves and enters a rank once. The
 * peers are served in circle order, a window of lanes at a time, so that neither a
 * thousand large messages are posted at once nor all ranks send to the same one. It is
 * the right thing for alltoall of any size and for large parts; an allgather of few bytes
 * on thousands of ranks would take a logarithmic algorithm instead of n - 1 messages.
 *
 * The window cannot block: take the earliest place in the circle order at which any
 * message is outstanding. All before it is done, so both its ends are posted.
 *
 * Sizes. Where only the sender knows them, a message with the sizes of all runs is sent
 * to each receiver right before the data, which does not wait for anything: the data
 * waits at the receiver, in MPI, until that knows how much comes from everybody and
 * where it belongs. Both sides post sizes first, so the order of messages tells them from
 * the data. Sizes go to all peers before any data does: behind a window of peers that
 * themselves wait for sizes they might never leave.
 */
#include "base/mem.h"
#include "ops/p2p/task.h"

/* Peers that data is moved to and from at once. */
#define LANES_MAX 32
/* Messages of several runs under way to a peer: they are short. */
#define DEPTH_MAX 4

/* --------------------------------------------------------------------- lanes */

static struct exchange_side *side_of(
        struct p2p_task *task, enum cut_direction direction)
{
    return direction == CUT_SENDS ? &task->exchange.sends : &task->exchange.recvs;
}

static uint8_t *pack_of(const struct exchange_side *side, int slot)
{
    return side->packs + (size_t)slot * CUT_PACK_BYTES;
}

/* Copies the parts of a message to its pack. */
static void pack(const struct p2p_task *task, int peer, const struct cut_piece *piece,
        uint8_t *to)
{
    for (size_t run = piece->run; run < piece->run + piece->runs; run++) {
        const struct op_part part = cut_part(task->batch, CUT_SENDS, peer, run);

        if (part.bytes > 0) {
            mem_copy(to, (const uint8_t *)task->batch->runs[run].input + part.offset,
                    part.bytes);
            to += part.bytes;
        }
    }
}

static void unpack(const struct p2p_task *task, int peer, const struct cut_piece *piece,
        const uint8_t *from)
{
    for (size_t run = piece->run; run < piece->run + piece->runs; run++) {
        const struct op_part part = cut_part(task->batch, CUT_RECVS, peer, run);

        if (part.bytes > 0) {
            mem_copy((uint8_t *)task->batch->runs[run].output + part.offset, from,
                    part.bytes);
            from += part.bytes;
        }
    }
}

/* Posts a message in a free slot. */
static tutti_status post_send(
        struct p2p_task *task, int peer, int slot, const struct cut_piece *piece)
{
    const struct exchange_side *side = &task->exchange.sends;
    const struct op_run *run = &task->batch->runs[piece->run];
    const uint8_t *from =
            (const uint8_t *)run->input + run->sends[peer].offset + piece->offset;

    if (piece->runs > 1) {
        pack(task, peer, piece, pack_of(side, slot));
        from = pack_of(side, slot);
    }
    return task_send(
            task, side->first_request + slot, TASK_OPERANDS, peer, from, piece->bytes);
}

static tutti_status post_receive(
        struct p2p_task *task, int peer, int slot, const struct cut_piece *piece)
{
    const struct exchange_side *side = &task->exchange.recvs;
    const struct op_run *run = &task->batch->runs[piece->run];
    uint8_t *to = (uint8_t *)run->output + run->recvs[peer].offset + piece->offset;

    if (piece->runs > 1) {
        to = pack_of(side, slot);
    }
    return task_receive(
            task, side->first_request + slot, TASK_OPERANDS, peer, to, piece->bytes);
}

/* Gives a lane the next peer of its direction; none is left: -1. */
static void lane_take_peer(
        struct p2p_task *task, enum cut_direction direction, struct exchange_lane *lane)
{
    struct exchange_side *side = side_of(task, direction);
    const struct op_set *set = task->batch->set;

    lane->peer = -1;
    lane->cut = (struct cut){ 0 };
    while (lane->peer < 0 && side->next < set->size - 1) {
        int distance = 1 + side->next++;
        int to = (set->rank + distance) % set->size;
        int from = (set->rank + set->size - distance) % set->size;

        if (direction == CUT_SENDS && exchange_flows(task->batch, set->rank, to)) {
            lane->peer = to;
        } else if (direction == CUT_RECVS &&
                exchange_flows(task->batch, from, set->rank)) {
            lane->peer = from;
        }
    }
}

/* Posts what a lane has room for. */
static tutti_status lane_post(
        struct p2p_task *task, enum cut_direction direction, int index)
{
    struct exchange *x = &task->exchange;
    struct exchange_side *side = side_of(task, direction);
    struct exchange_lane *lane = &side->lanes[index];
    tutti_status status = TUTTI_OK;

    for (int slot = index * x->depth; slot < (index + 1) * x->depth; slot++) {
        struct cut_piece *piece = &side->pieces[slot];

        if (piece->bytes > 0) {
            continue;
        }
        *piece = cut_next(
                &lane->cut, task->batch, direction, lane->peer, TASK_MESSAGE_MAX);
        if (piece->bytes == 0) {
            break;
        }
        status = direction == CUT_SENDS ? post_send(task, lane->peer, slot, piece)
                                        : post_receive(task, lane->peer, slot, piece);
        if (status != TUTTI_OK) {
            break;
        }
        lane->busy++;
        x->pending++;
    }
    return status;
}

/* Keeps a lane busy, with its peer or the next one that gets or sends anything. */
static tutti_status lane_advance(
        struct p2p_task *task, enum cut_direction direction, int index)
{
    struct exchange_lane *lane = &side_of(task, direction)->lanes[index];
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && lane->peer >= 0) {
        status = lane_post(task, direction, index);
        if (lane->busy > 0) {
            break;
        }
        lane_take_peer(task, direction, lane);
    }
    return status;
}

static tutti_status open_lanes(struct p2p_task *task, enum cut_direction direction)
{
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < task->exchange.lane_count && status == TUTTI_OK; i++) {
        lane_take_peer(task, direction, &side_of(task, direction)->lanes[i]);
        status = lane_advance(task, direction, i);
    }
    return status;
}

/* A message of a lane is complete. */
static tutti_status lane_complete(
        struct p2p_task *task, enum cut_direction direction, int slot)
{
    struct exchange *x = &task->exchange;
    struct exchange_side *side = side_of(task, direction);
    struct exchange_lane *lane = &side->lanes[slot / x->depth];
    struct cut_piece *piece = &side->pieces[slot];

    if (direction == CUT_RECVS && piece->runs > 1) {
        unpack(task, lane->peer, piece, pack_of(side, slot));
    }
    *piece = (struct cut_piece){ 0 };
    lane->busy--;
    return lane_advance(task, direction, slot / x->depth);
}

/* --------------------------------------------------------------------- sizes */

static tutti_status receive_sizes(struct p2p_task *task)
{
    struct exchange *x = &task->exchange;
    const struct op_batch *batch = task->batch;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < x->size_peers && status == TUTTI_OK; i++) {
        const int peer = task_peer(task, i);

        if (exchange_flows(batch, peer, batch->set->rank)) {
            x->pending++;
            x->unknown++;
            status = task_receive(task, i, TASK_OPERANDS, peer,
                    x->sizes_in + (size_t)peer * batch->run_count,
                    batch->run_count * sizeof *x->sizes_in);
        }
    }
    return status;
}

static tutti_status send_sizes(struct p2p_task *task, uint64_t *sizes)
{
    struct exchange *x = &task->exchange;
    const struct op_batch *batch = task->batch;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < x->size_peers && status == TUTTI_OK; i++) {
        const int peer = task_peer(task, i);

        if (!exchange_flows(batch, batch->set->rank, peer)) {
            continue;
        }
        for (size_t run = 0; run < batch->run_count; run++) {
            sizes[run] = batch->runs[run].sends[peer].bytes;
        }
        x->pending++;
        status = task_send(task, task->receive_count + i, TASK_OPERANDS, peer, sizes,
                batch->run_count * sizeof *sizes);
        sizes += batch->run_count;
    }
    return status;
}

/* What comes from a rank, now that all sizes are here. */
static size_t size_from(const struct p2p_task *task, int from, size_t run)
{
    const struct op_batch *batch = task->batch;
    const int me = batch->set->rank;

    if (!exchange_flows(batch, from, me)) {
        return 0;
    }
    return from == me
            ? batch->runs[run].sends[me].bytes
            : (size_t)task->exchange.sizes_in[(size_t)from * batch->run_count + run];
}

/* All sizes are here: fills recvs, and has the outputs laid out. */
static tutti_status place(struct p2p_task *task)
{
    const struct op_batch *batch = task->batch;

    task->exchange.placed = true;
    if (!exchange_receives(batch)) {
        return TUTTI_OK;
    }
    for (size_t run = 0; run < batch->run_count; run++) {
        for (int from = 0; from < batch->set->size; from++) {
            batch->runs[run].recvs[from].bytes = size_from(task, from, run);
        }
    }
    return exchange_place(batch);
}

/* --------------------------------------------------------------------- steps */

static tutti_status complete(struct p2p_task *task, int request)
{
    struct exchange *x = &task->exchange;

    x->pending--;
    if (request >= x->sends.first_request) {
        return lane_complete(task, CUT_SENDS, request - x->sends.first_request);
    }
    if (request >= task->receive_count) {
        return TUTTI_OK; /* sizes have left */
    }
    if (request >= x->recvs.first_request) {
        return lane_complete(task, CUT_RECVS, request - x->recvs.first_request);
    }
    x->unknown--;
    return TUTTI_OK;
}

static tutti_status exchange_step(struct p2p_task *task, bool *moved)
{
    struct exchange *x = &task->exchange;
    bool copied = false;
    int count = 0;
    tutti_status status = TUTTI_OK;

    if (x->pending > 0) {
        status = task_poll(task, &count);
    }
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        status = complete(task, task->done[i]);
    }
    *moved = *moved || count > 0;
    if (status == TUTTI_OK && !x->placed && x->unknown == 0) {
        *moved = true;
        status = place(task);
        if (status == TUTTI_OK) {
            status = open_lanes(task, CUT_RECVS);
        }
    }
    if (status != TUTTI_OK || !x->placed) {
        return status == TUTTI_OK ? TUTTI_AGAIN : status;
    }
    if (exchange_piece(task->batch, task->batch->set->rank, &x->own, 1) > 0) {
        *moved = true;
    }
    copied = exchange_copy_own(task->batch, &x->own, x->own_bytes);
    return copied && x->pending == 0 ? TUTTI_OK : TUTTI_AGAIN;
}

/* --------------------------------------------------------------------- start */

/* Takes `bytes` off the front of memory, on a boundary of TASK_ALIGNMENT. */
static void *carve(uint8_t **memory, size_t bytes)
{
    uint8_t *piece = *memory;

    *memory += size_align(bytes, TASK_ALIGNMENT);
    return piece;
}

static void side_init(const struct exchange *x, struct exchange_side *side,
        uint8_t **memory, size_t pack_bytes)
{
    const size_t slots = (size_t)x->lane_count * (size_t)x->depth;

    side->next = 0;
    side->lanes = carve(memory, (size_t)x->lane_count * sizeof *side->lanes);
    side->pieces = carve(memory, slots * sizeof *side->pieces);
    side->packs = carve(memory, slots * pack_bytes);
    for (int i = 0; i < x->lane_count; i++) {
        side->lanes[i] = (struct exchange_lane){ .peer = -1 };
    }
    for (size_t i = 0; i < slots; i++) {
        side->pieces[i] = (struct cut_piece){ 0 };
    }
}

/* Takes scratch for lanes and tables. @return the sizes to send; NULL: out of memory */
static uint64_t *lay_out(struct p2p_state *state, struct p2p_task *task)
{
    struct exchange *x = &task->exchange;
    const struct op_batch *batch = task->batch;
    const int peers = batch->set->size - 1;
    const size_t pack_bytes = batch->run_count > 1 ? CUT_PACK_BYTES : 0;
    size_t side_bytes;
    size_t table_bytes;
    size_t slots;
    uint8_t *memory;

    x->lane_count = peers < LANES_MAX ? peers : LANES_MAX;
    x->depth = 1;
    if (batch->run_count > 1 && peers > 0) {
        x->depth = (int)size_min(DEPTH_MAX, LANES_MAX / (size_t)x->lane_count);
    }
    x->size_peers = batch->sizes_known ? 0 : peers;
    x->own_bytes = state->message_bytes;
    slots = (size_t)x->lane_count * (size_t)x->depth;
    table_bytes = (size_t)x->size_peers * batch->run_count * sizeof *x->sizes_in;
    table_bytes += batch->sizes_known ? 0 : batch->run_count * sizeof *x->sizes_in;
    table_bytes = size_align(table_bytes, TASK_ALIGNMENT);
    side_bytes =
            size_align((size_t)x->lane_count * sizeof *x->sends.lanes, TASK_ALIGNMENT) +
            size_align(slots * sizeof *x->sends.pieces, TASK_ALIGNMENT) +
            slots * pack_bytes;
    memory = task_prepare(state, task, x->size_peers + (int)slots,
            x->size_peers + (int)slots, 2 * side_bytes + 2 * table_bytes);
    if (memory == NULL) {
        return NULL;
    }
    side_init(x, &x->sends, &memory, pack_bytes);
    side_init(x, &x->recvs, &memory, pack_bytes);
    x->recvs.first_request = x->size_peers;
    x->sends.first_request = task->receive_count + x->size_peers;
    x->sizes_in = carve(&memory, table_bytes);
    return carve(&memory, table_bytes);
}

static tutti_status exchange_start(struct p2p_state *state, struct p2p_task *task)
{
    uint64_t *sizes_out = lay_out(state, task);
    tutti_status status = TUTTI_OK;

    if (sizes_out == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    task->exchange.placed = task->batch->sizes_known;
    if (!task->batch->sizes_known) {
        status = receive_sizes(task);
        if (status == TUTTI_OK) {
            status = send_sizes(task, sizes_out);
        }
    }
    /* Sends first: posting a receive may move its whole message there and then. */
    if (status == TUTTI_OK) {
        status = open_lanes(task, CUT_SENDS);
    }
    if (status == TUTTI_OK && task->batch->sizes_known) {
        status = open_lanes(task, CUT_RECVS);
    }
    return status;
}

const struct p2p_algorithm exchange_direct = {
    .name = "exchange",
    .bytes_most = SIZE_MAX,
    .start = exchange_start,
    .step = exchange_step,
};
