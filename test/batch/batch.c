/*
 * Layout, contents and verdict of batches.
 */
#include "test/batch/batch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ops/exchange.h"
#include "test/batch/reference.h"

#define GAP_BYTES ((size_t)16)
#define GAP_VALUE 0xa5
#define GONE_VALUE 0x77

/** What a block must hold. */
enum moment {
    BEFORE,
    AFTER
};

struct crew batch_crew(const struct batch *batch)
{
    const struct op_set *set = batch->order.set;

    return (struct crew){
        .world = set->world_ranks, .size = set->size, .index = set->rank
    };
}

static size_t element_of(const struct operation *o)
{
    return tutti_dtype_size(o->pattern.dtype);
}

/* Bytes that go from a member to another in an exchange. */
static size_t part_bytes(const struct batch *batch, size_t run, int from, int to)
{
    const struct operation *o = &batch->memory[run].operation;
    const int size = batch->order.set->size;

    return exchange_flows(&batch->op, from, to)
            ? (size_t)operation_part_rows(o, size, from, to) * element_of(o)
            : 0;
}

static size_t input_bytes(const struct batch *batch, size_t run)
{
    const struct op_set *set = batch->order.set;

    return operation_input_bytes(&batch->memory[run].operation, set->size, set->rank);
}

static size_t output_bytes(const struct batch *batch, size_t run)
{
    const struct op_set *set = batch->order.set;

    return operation_output_bytes(&batch->memory[run].operation, set->size, set->rank);
}

/* ------------------------------------------------------------------ layout */

/* Lays parts behind `*end`, each followed by a gap. */
static void lay_part(struct op_part *part, size_t *end)
{
    part->offset = *end;
    *end += part->bytes + GAP_BYTES;
}

/* Not in the order of the receivers. */
static void lay_sends(const struct batch *batch, struct batch_run *memory)
{
    const int size = batch->order.set->size;

    for (int to = size - 1; to >= 0; to--) {
        if (batch->op.collective == TUTTI_ALLGATHER && to < size - 1) {
            memory->sends[to] = memory->sends[size - 1];
        } else {
            lay_part(&memory->sends[to], &memory->input.bytes);
        }
    }
}

static void lay_recvs(const struct batch *batch, struct batch_run *memory)
{
    const int me = batch->order.set->rank;
    size_t *end = memory->is_in_place ? &memory->input.bytes : &memory->output.bytes;

    *end = *end == 0 ? GAP_BYTES : *end;
    for (int from = 0; from < batch->order.set->size; from++) {
        if (memory->is_in_place && from == me) {
            memory->recvs[from].offset = memory->sends[from].offset;
        } else {
            lay_part(&memory->recvs[from], end);
        }
    }
}

/* Makes the block of a store for about half of those that could be of it. */
static void block_make(const struct batch *batch, size_t run, struct batch_block *block)
{
    const struct batch_store *store = batch->order.store;
    const bool is_output = block == &batch->memory[run].output;
    const uint64_t toss = pattern_mix(batch->memory[run].operation.pattern.salt,
            (uint64_t)batch->order.set->rank * 2 + is_output);

    block->store = store != NULL && toss % 2 == 0 ? store : NULL;
    block->memory = block->store != NULL ? store->alloc(store->user, block->bytes)
                                         : mem_alloc(block->bytes);
    assert(block->memory != NULL);
    memset(block->memory, GAP_VALUE, block->bytes);
}

static void block_free(struct batch_block *block)
{
    if (block->memory == NULL) {
        return;
    }
    memset(block->memory, GONE_VALUE, block->bytes);
    if (block->store != NULL) {
        block->store->free(block->store->user, block->memory);
    } else {
        mem_free(block->memory);
    }
    block->memory = NULL;
}

/* ---------------------------------------------------------------- contents */

static void paint_input(const struct batch *batch, size_t run, uint8_t *block)
{
    const struct batch_run *memory = &batch->memory[run];
    const struct op_set *set = batch->order.set;
    const bool is_cut = batch->op.collective == TUTTI_SCATTER ||
            batch->op.collective == TUTTI_ALLTOALL;
    const size_t bytes = input_bytes(batch, run);
    uint8_t *filled = must_alloc(bytes, 1);
    size_t at = 0;

    operation_fill(&memory->operation, set->world_ranks[set->rank], filled, bytes);
    if (!op_is_exchange(batch->op.collective)) {
        memcpy(block + GAP_BYTES, filled, bytes);
    }
    for (int to = 0; to < set->size && op_is_exchange(batch->op.collective); to++) {
        const struct op_part part = memory->sends[to];

        memcpy(block + part.offset, filled + (is_cut ? at : 0), part.bytes);
        at += part.bytes;
    }
    free(filled);
}

static void expect(const struct batch *batch, size_t run, void *output)
{
    const struct crew crew = batch_crew(batch);

    if (batch->order.expect != NULL) {
        batch->order.expect(batch, run, output);
    } else {
        operation_expect(&batch->memory[run].operation, &crew, NULL, output);
    }
}

/* `to`: what run->output points to. */
static void paint_output(const struct batch *batch, size_t run, uint8_t *to)
{
    const struct batch_run *memory = &batch->memory[run];
    const size_t bytes = output_bytes(batch, run);
    uint8_t *expected = must_alloc(bytes, 1);
    size_t at = 0;

    expect(batch, run, expected);
    if (!op_is_exchange(batch->op.collective)) {
        memcpy(to, expected, bytes);
        at = bytes;
    }
    for (int from = 0; from < batch->order.set->size && at < bytes; from++) {
        const struct op_part part = memory->recvs[from];

        memcpy(to + part.offset, expected + at, part.bytes);
        at += part.bytes;
    }
    free(expected);
}

/* What all bytes of a block must be. */
static void paint(const struct batch *batch, size_t run,
        const struct batch_block *block, enum moment moment, uint8_t *image)
{
    const struct batch_run *memory = &batch->memory[run];
    const uint8_t *output = batch->runs[run].output;
    const bool is_output = block == &memory->output;

    memset(image, GAP_VALUE, block->bytes);
    if (!is_output) {
        paint_input(batch, run, image);
    }
    if (moment == BEFORE || output == NULL || (!is_output && !memory->is_in_place)) {
        return;
    }
    if (is_output &&
            !op_has_output(&batch->op)) { /* of a root: it may be a copy, or not */
        memcpy(image + (output - block->memory), output, output_bytes(batch, run));
    } else {
        paint_output(batch, run, image + (output - block->memory));
    }
}

static const char *block_error(const struct batch *batch, size_t run,
        const struct batch_block *block, enum moment moment)
{
    static _Thread_local char text[240];
    const char *error = NULL;
    uint8_t *image = must_alloc(block->bytes, 1);
    size_t at = 0;

    if (block->memory != NULL) {
        paint(batch, run, block, moment, image);
        while (at < block->bytes && image[at] == block->memory[at]) {
            at++;
        }
    }
    if (at < block->bytes && block->memory != NULL) {
        const int n = snprintf(text, sizeof text,
                "byte %zu of the %s of run %zu is %02x, not %02x: ", at,
                block == &batch->memory[run].output ? "output" : "input", run,
                block->memory[at], image[at]);

        operation_describe(
                &batch->memory[run].operation, text + n, sizeof text - (size_t)n);
        error = text;
    }
    free(image);
    return error;
}

/* -------------------------------------------------------------------- runs */

/* The sizes are here: makes an output for them. */
static tutti_status place(const struct op_batch *op, size_t run)
{
    struct batch *batch = (struct batch *)(uintptr_t)op;
    struct batch_run *memory = &batch->memory[run];

    if (++batch->placed == batch->fail_place_at) {
        return TUTTI_ERR_NO_MEMORY;
    }
    assert(memory->output.memory == NULL);
    lay_recvs(batch, memory);
    block_make(batch, run, &memory->output);
    batch->runs[run].output = memory->output.memory;
    return TUTTI_OK;
}

static void make_exchange(struct batch *batch, size_t run)
{
    struct batch_run *memory = &batch->memory[run];
    const int me = batch->order.set->rank;
    const bool places = !batch->op.sizes_known;

    for (int r = 0; r < batch->order.set->size; r++) {
        memory->sends[r].bytes = part_bytes(batch, run, me, r);
        if (!places) {
            memory->recvs[r].bytes = part_bytes(batch, run, r, me);
        } else if (exchange_receives(&batch->op)) {
            memory->recvs[r].bytes = 999999; /* to be filled in */
        }
    }
    memory->is_in_place = batch->order.operation.in_place && !places;
    lay_sends(batch, memory);
    if (!places) {
        lay_recvs(batch, memory);
    }
    block_make(batch, run, &memory->input);
    if (!places && !memory->is_in_place) {
        block_make(batch, run, &memory->output);
    }
    batch->runs[run] = (struct op_run){ .input = memory->input.memory,
        .output = memory->is_in_place ? memory->input.memory : memory->output.memory,
        .sends = memory->sends,
        .recvs = memory->recvs };
}

/* What a REDUCESCATTER gives each member, and where this one's begins. */
static size_t lay_scattered(const struct batch *batch, size_t run)
{
    struct batch_run *memory = &batch->memory[run];
    size_t at = 0;

    for (int r = 0; r < batch->order.set->size; r++) {
        memory->sends[r].offset = at;
        memory->sends[r].bytes =
                operation_output_bytes(&memory->operation, batch->order.set->size, r);
        at += memory->sends[r].bytes;
    }
    return memory->sends[batch->order.set->rank].offset;
}

static void make_whole(struct batch *batch, size_t run)
{
    const bool is_cut = batch->op.collective == TUTTI_REDUCESCATTER;
    const bool has_output =
            batch->op.collective != TUTTI_REDUCE || op_has_output(&batch->op);
    struct batch_run *memory = &batch->memory[run];
    size_t own = is_cut ? lay_scattered(batch, run) : 0;
    uint8_t *output = NULL;

    memory->is_in_place = batch->order.operation.in_place && has_output;
    memory->input.bytes = input_bytes(batch, run) + 2 * GAP_BYTES;
    block_make(batch, run, &memory->input);
    if (memory->is_in_place) {
        output = memory->input.memory + GAP_BYTES + own;
    } else if (has_output) {
        memory->output.bytes = output_bytes(batch, run) + 2 * GAP_BYTES;
        block_make(batch, run, &memory->output);
        output = memory->output.memory + GAP_BYTES;
    }
    batch->runs[run] = (struct op_run){ .input = memory->input.memory + GAP_BYTES,
        .output = output,
        .count = input_bytes(batch, run) / element_of(&memory->operation),
        .sends = is_cut ? memory->sends : NULL };
    batch->op.count += batch->runs[run].count;
}

static void make_run(struct batch *batch, size_t run)
{
    const struct batch_order *order = &batch->order;
    struct batch_run *memory = &batch->memory[run];
    const uint64_t key = order->operation.pattern.salt != 0
            ? order->operation.pattern.salt
            : order->sequence;

    memory->operation = order->operation;
    memory->operation.row_count = 1;
    memory->operation.count =
            order->run_count > 0 ? order->counts[run] : order->operation.count;
    memory->operation.pattern.salt =
            (uint32_t)pattern_mix(key, (uint64_t)order->set->index * 64 + run);
    /* A batch is not empty, a run may be. */
    while (run == 0 && batch->op.collective == TUTTI_REDUCESCATTER &&
            input_bytes(batch, run) == 0) {
        memory->operation.pattern.salt++;
    }
    if (op_is_exchange(batch->op.collective)) {
        make_exchange(batch, run);
    } else {
        make_whole(batch, run);
    }
    paint_input(batch, run, memory->input.memory);
}

void batch_make(struct batch *batch, const struct batch_order *order, size_t task_bytes)
{
    const struct operation *o = &order->operation;

    *batch = (struct batch){ .order = *order,
        .op = { .set = order->set,
                .sequence = order->sequence,
                .collective = o->collective,
                .dtype = o->pattern.dtype,
                .op = o->pattern.op,
                .divisor = order->set->size,
                .prescale = o->scales.pre != 0 ? o->scales.pre : 1,
                .postscale = o->scales.post != 0 ? o->scales.post : 1,
                .root = o->root,
                .runs = batch->runs,
                .run_count = order->run_count > 0 ? order->run_count : 1,
                .sizes_known = op_is_exchange(o->collective) && o->form != FORM_UNKNOWN,
                .place = place },
        .task = must_alloc(1, task_bytes) };
    batch->order.operation.scales =
            (struct scales){ batch->op.prescale, batch->op.postscale };
    assert(order->set->size <= BATCH_RANKS_MAX &&
            batch->op.run_count <= BATCH_RUNS_MAX);
    batch->memory = must_alloc(batch->op.run_count, sizeof *batch->memory);
    for (size_t run = 0; run < batch->op.run_count; run++) {
        make_run(batch, run);
    }
}

static bool sizes_are_right(const struct batch *batch, size_t run)
{
    const int me = batch->order.set->rank;

    for (int from = 0; from < batch->order.set->size; from++) {
        if (batch->memory[run].recvs[from].bytes != part_bytes(batch, run, from, me)) {
            return false;
        }
    }
    return true;
}

const char *batch_error(const struct batch *batch)
{
    const bool is_exchange = op_is_exchange(batch->op.collective);
    const bool places =
            is_exchange && !batch->op.sizes_known && exchange_receives(&batch->op);
    const char *error = NULL;

    if (batch->placed != (places ? batch->op.run_count : 0)) {
        return "place() was not called once for each run";
    }
    for (size_t run = 0; run < batch->op.run_count && error == NULL; run++) {
        const struct batch_run *memory = &batch->memory[run];

        if (is_exchange && !sizes_are_right(batch, run)) {
            return "a size is wrong";
        }
        error = block_error(batch, run, &memory->input, AFTER);
        error = error != NULL ? error : block_error(batch, run, &memory->output, AFTER);
    }
    return error;
}

const char *batch_touched(const struct batch *batch)
{
    const char *error = NULL;

    for (size_t run = 0; run < batch->op.run_count && error == NULL; run++) {
        const struct batch_run *memory = &batch->memory[run];

        error = block_error(batch, run, &memory->input, BEFORE);
        error = error != NULL ? error
                              : block_error(batch, run, &memory->output, BEFORE);
    }
    return error;
}

void batch_free(struct batch *batch)
{
    for (size_t run = 0; run < batch->op.run_count; run++) {
        block_free(&batch->memory[run].input);
        block_free(&batch->memory[run].output);
    }
    free(batch->memory);
    free(batch->task);
    batch->task = NULL;
}

/* What it becomes when elements are not combined: bytes. */
static void move_bytes(struct operation *o, uint64_t number)
{
    o->pattern.dtype = TUTTI_UINT8;
    o->pattern.op = TUTTI_SUM;
    o->form = number % 2 == 0 ? FORM_UNKNOWN : FORM_LISTED;
}

struct batch_order batch_order_random(int size, uint64_t number)
{
    struct batch_order order = { .run_count = 1 + number % 4 };
    uint64_t most = number / 4 % 2 == 0 ? 20 : 3000;
    const uint64_t kind = number / 8 % 8;
    struct operation *o = &order.operation;

    do {
        *o = operation_random(size, pattern_mix(number++, 1));
    } while (o->pattern.op == TUTTI_SET_AVERAGE);
    o->is_sparse = true;
    o->owns_output = false;
    o->in_place = number / 64 % 2 == 0;
    o->pattern.salt = 0;
    if (!operation_reduces(o)) {
        move_bytes(o, number / 128);
        most *= 7;
    } else if (kind < 4) {
        o->collective = TUTTI_ALLREDUCE;
    } else {
        o->form = FORM_LISTED;
    }
    for (size_t run = 0; run < order.run_count; run++) {
        order.counts[run] = (int64_t)(pattern_mix(number, 100 + run) % most);
    }
    order.counts[0]++; /* a batch is not empty, a run may be */
    return order;
}
