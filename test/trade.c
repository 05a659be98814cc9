/*
 * Layout, contents and verdict of exchanges.
 */
#include "test/trade.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "ops/exchange.h"

#define GAP_BYTES ((size_t)8)
#define GAP_VALUE 0xa5

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Random bits of what goes from one member to another; an allgather has one receiver. */
static uint64_t random_of(const struct trade_order *order, size_t run, int from, int to)
{
    uint64_t batch = order->sequence * OP_LANES + order->lane;
    uint64_t key = (batch * OP_SETS_MAX + order->set->index) * 64 + run;

    to = order->collective == TUTTI_ALLGATHER ? 0 : to;
    return mix((key * 64 + (uint64_t)from) * 64 + (uint64_t)to + 1);
}

static size_t part_bytes(const struct trade_order *order, size_t run, int from, int to)
{
    const struct op_batch kind = { .collective = order->collective,
        .root = order->root };
    uint64_t random = random_of(order, run, from, to);

    if (!exchange_flows(&kind, from, to) || random % 4 == 0) {
        return 0;
    }
    return (size_t)(random >> 8) % (random % 4 == 1 ? 40 : order->most) + 1;
}

static void paint_part(const struct trade_order *order, size_t run, int from, int to,
        uint8_t *at, size_t bytes)
{
    uint64_t random = random_of(order, run, from, to);

    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)((random + i) * 167 >> 3);
    }
}

/* Lays parts behind `*end`, each followed by a gap. */
static void lay_part(struct op_part *part, size_t *end)
{
    part->offset = *end;
    *end += part->bytes + GAP_BYTES;
}

static void lay_sends(
        const struct trade_order *order, struct op_part *sends, size_t *end)
{
    const int size = order->set->size;

    for (int i = 0; i < size; i++) {
        int to = size - 1 - i; /* not in the order of the receivers */

        if (order->collective == TUTTI_ALLGATHER && i > 0) {
            sends[to] = sends[size - 1];
        } else {
            lay_part(&sends[to], end);
        }
    }
}

static void lay_recvs(const struct trade_order *order, const struct op_part *sends,
        struct op_part *recvs, size_t *end)
{
    for (int from = 0; from < order->set->size; from++) {
        if (order->in_place && from == order->set->rank) {
            recvs[from].offset = sends[from].offset;
        } else {
            lay_part(&recvs[from], end);
        }
    }
}

static uint8_t *painted(uint8_t *block, size_t bytes)
{
    assert(block != NULL);
    memset(block, GAP_VALUE, bytes);
    return block;
}

static uint8_t *block_new(size_t bytes)
{
    return painted(mem_alloc(bytes), bytes);
}

/* Whose memory a run is of; NULL: the heap's. */
static const struct trade_store *store_of(const struct trade_order *order, size_t run)
{
    return (run + (size_t)order->set->rank) % 2 == 0 ? order->store : NULL;
}

static uint8_t *run_block_new(const struct trade_order *order, size_t run, size_t bytes)
{
    const struct trade_store *store = store_of(order, run);

    return store != NULL ? painted(store->alloc(store->user, bytes), bytes)
                         : block_new(bytes);
}

static void run_block_free(const struct trade_order *order, size_t run, uint8_t *block)
{
    const struct trade_store *store = store_of(order, run);

    if (store != NULL) {
        store->free(store->user, block);
    } else {
        mem_free(block);
    }
}

/* As a run's memory looks before the batch, or after it. */
static void paint_sends(const struct trade *trade, size_t run, uint8_t *block)
{
    const struct op_set *set = trade->order.set;

    for (int to = 0; to < set->size; to++) {
        const struct op_part part = trade->memory[run].sends[to];

        paint_part(&trade->order, run, set->rank, to, block + part.offset, part.bytes);
    }
}

static void paint_recvs(const struct trade *trade, size_t run, uint8_t *block)
{
    const struct op_set *set = trade->order.set;

    for (int from = 0; from < set->size; from++) {
        const struct op_part part = trade->memory[run].recvs[from];

        paint_part(
                &trade->order, run, from, set->rank, block + part.offset, part.bytes);
    }
}

/* The sizes are here: makes an output for them. */
static tutti_status trade_place(const struct op_batch *batch, size_t run)
{
    struct trade *trade = (struct trade *)(uintptr_t)batch;
    struct trade_run *memory = &trade->memory[run];

    if (++trade->placed == trade->fail_place_at) {
        return TUTTI_ERR_NO_MEMORY;
    }
    assert(memory->output == NULL);
    memory->output_bytes = GAP_BYTES;
    lay_recvs(&trade->order, memory->sends, memory->recvs, &memory->output_bytes);
    memory->output = run_block_new(&trade->order, run, memory->output_bytes);
    trade->runs[run].output = memory->output;
    return TUTTI_OK;
}

static void run_make(struct trade *trade, size_t run)
{
    const struct trade_order *order = &trade->order;
    struct trade_run *memory = &trade->memory[run];
    const int me = order->set->rank;

    for (int r = 0; r < order->set->size; r++) {
        memory->sends[r].bytes = part_bytes(order, run, me, r);
        if (order->sizes_known) {
            memory->recvs[r].bytes = part_bytes(order, run, r, me);
        } else if (order->collective != TUTTI_GATHER || me == order->root) {
            memory->recvs[r].bytes = 999999; /* to be filled in */
        }
    }
    memory->input_bytes = GAP_BYTES;
    lay_sends(order, memory->sends, &memory->input_bytes);
    if (order->sizes_known) {
        lay_recvs(order, memory->sends, memory->recvs, &memory->input_bytes);
    }
    memory->input = run_block_new(order, run, memory->input_bytes);
    paint_sends(trade, run, memory->input);
    trade->runs[run] = (struct op_run){ .input = memory->input,
        .output = order->sizes_known ? memory->input : NULL,
        .sends = memory->sends,
        .recvs = memory->recvs };
}

void trade_make(struct trade *trade, const struct trade_order *order, size_t task_bytes)
{
    *trade = (struct trade){ .order = *order,
        .batch = { .set = order->set,
                .sequence = order->sequence,
                .lane = order->lane,
                .collective = order->collective,
                .dtype = TUTTI_UINT8,
                .prescale = 1,
                .postscale = 1,
                .root = order->root,
                .runs = trade->runs,
                .run_count = order->run_count,
                .sizes_known = order->sizes_known,
                .place = trade_place },
        .task = mem_calloc(1, task_bytes) };
    assert(trade->task != NULL && order->set->size <= TRADE_RANKS_MAX &&
            order->run_count <= TRADE_RUNS_MAX);
    for (size_t run = 0; run < order->run_count; run++) {
        run_make(trade, run);
    }
}

static const char *run_error(const struct trade *trade, size_t run)
{
    const struct trade_run *memory = &trade->memory[run];
    const struct op_set *set = trade->order.set;
    uint8_t *input = block_new(memory->input_bytes);
    uint8_t *output = block_new(memory->output_bytes);
    const char *error = NULL;

    for (int from = 0; from < set->size; from++) {
        if (memory->recvs[from].bytes !=
                part_bytes(&trade->order, run, from, set->rank)) {
            error = "a size is wrong";
        }
    }
    if (error == NULL) {
        paint_sends(trade, run, input);
        paint_recvs(trade, run, trade->order.sizes_known ? input : output);
        if (memcmp(input, memory->input, memory->input_bytes) != 0) {
            error = "the memory of the inputs is wrong";
        } else if (memory->output_bytes > 0 &&
                memcmp(output, memory->output, memory->output_bytes) != 0) {
            error = "the output is wrong";
        }
    }
    mem_free(input);
    mem_free(output);
    return error;
}

const char *trade_error(const struct trade *trade)
{
    const struct trade_order *order = &trade->order;
    const bool places = !order->sizes_known && exchange_receives(&trade->batch);
    const char *error = NULL;

    if (trade->placed != (places ? order->run_count : 0)) {
        return "place() was not called once for each run";
    }
    for (size_t run = 0; run < order->run_count && error == NULL; run++) {
        error = run_error(trade, run);
    }
    return error;
}

void trade_free(struct trade *trade)
{
    for (size_t run = 0; run < trade->order.run_count; run++) {
        run_block_free(&trade->order, run, trade->memory[run].input);
        run_block_free(&trade->order, run, trade->memory[run].output);
    }
    mem_free(trade->task);
}
