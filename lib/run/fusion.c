/*
 * Packing and unpacking.
 *
 *     allreduce, broadcast, reduce   the tensors one behind the other
 *     reducescatter                  by member, and for each member its part of each
 *                                    tensor; the parts of members that have joined are
 *                                    left out
 *     alltoall in place              a copy of the inputs, which the outputs overwrite
 *
 * Device memory is packed by its backend: nothing here may touch it.
 *
 * The other exchanges are never packed here: backends take their runs.
 */
#include "run/fusion.h"

#include "base/mem.h"
#include "observe/observe.h"
#include "run/batch.h"
#include "run/context.h"
#include "run/rows.h"

/* ------------------------------------------------------- spare buffers */

static struct fusion_buffer buffer_take(struct dispatcher *dispatcher, size_t bytes)
{
    for (int i = 0; i < dispatcher->buffer_count; i++) {
        struct fusion_buffer *spare = &dispatcher->buffers[i];

        if (spare->bytes >= bytes) {
            const struct fusion_buffer taken = *spare;

            *spare = dispatcher->buffers[--dispatcher->buffer_count];
            return taken;
        }
    }
    return (struct fusion_buffer){ .memory = dispatcher->memory->alloc(
                                           dispatcher->memory->user, bytes),
        .bytes = bytes };
}

/* Keeps the largest ones: they fit the most batches, and those that need them come back. */
static void buffer_give(struct dispatcher *dispatcher, struct fusion_buffer buffer)
{
    if (dispatcher->buffer_count < DISPATCHER_BUFFERS_MAX) {
        dispatcher->buffers[dispatcher->buffer_count++] = buffer;
        return;
    }
    for (int i = 0; i < dispatcher->buffer_count; i++) {
        if (dispatcher->buffers[i].bytes < buffer.bytes) {
            const struct fusion_buffer smaller = dispatcher->buffers[i];

            dispatcher->buffers[i] = buffer;
            buffer = smaller;
        }
    }
    dispatcher->memory->give_back(dispatcher->memory->user, buffer.memory);
}

void fusion_release(struct dispatcher *dispatcher, struct batch *batch)
{
    buffer_give(dispatcher, batch->buffer);
    observe(batch->context, batch, EVENT_UNBUFFERED);
    batch->buffer.memory = NULL;
}

/* ------------------------------------------------------------- whole tensors */

static void pack_whole(struct batch *batch)
{
    char *to = batch->buffer.memory;

    if (op_has_input(&batch->op)) {
        for (size_t i = 0; i < batch->operation_count; i++) {
            mem_copy(to, batch->operations[i]->memory.input,
                    batch->operations[i]->memory.bytes);
            to += batch->operations[i]->memory.bytes;
        }
    }
    batch->runs[0] = (struct op_run){ .input = batch->buffer.memory,
        .output = op_has_output(&batch->op) || batch->op.collective == TUTTI_BROADCAST
                ? batch->buffer.memory
                : NULL,
        .count = batch->op.count };
}

static void unpack_whole(const struct batch *batch)
{
    const char *from = batch->buffer.memory;

    if (!op_has_output(&batch->op)) {
        return;
    }
    for (size_t i = 0; i < batch->operation_count; i++) {
        mem_copy(batch->operations[i]->memory.output, from,
                batch->operations[i]->memory.bytes);
        from += batch->operations[i]->memory.bytes;
    }
}

/* ------------------------------------------------------------- reducescatter */

/* The place in the process set of a member of the batch. */
static int place_in_set(const struct batch *batch, int member)
{
    return batch->present.places != NULL ? batch->present.places[member] : member;
}

static tutti_status pack_parts(struct batch *batch)
{
    const int members = batch->op.set->size;
    struct op_part *sends = batch_parts(batch, (size_t)members);
    char *to = batch->buffer.memory;
    size_t bytes;

    if (sends == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a batch");
    }
    for (int m = 0; m < members; m++) {
        const int place = place_in_set(batch, m);

        sends[m].bytes = 0;
        for (size_t i = 0; i < batch->operation_count; i++) {
            const struct operation *operation = batch->operations[i];
            const struct op_part *part = &operation->parts.list[place];

            mem_copy(to, (const char *)operation->memory.input + part->offset,
                    part->bytes);
            to += part->bytes;
            sends[m].bytes += part->bytes;
        }
    }
    bytes = rows_place(sends, members);
    batch->op.count = bytes / tutti_dtype_size(batch->op.dtype);
    batch->runs[0] = (struct op_run){ .input = batch->buffer.memory,
        .output = (char *)batch->buffer.memory + sends[batch->op.set->rank].offset,
        .count = batch->op.count,
        .sends = sends };
    return TUTTI_OK;
}

static void unpack_parts(const struct batch *batch)
{
    const int place = place_in_set(batch, batch->op.set->rank);
    const char *from = batch->runs[0].output;

    for (size_t i = 0; i < batch->operation_count; i++) {
        const size_t bytes = batch->operations[i]->parts.list[place].bytes;

        mem_copy(batch->operations[i]->memory.output, from, bytes);
        from += bytes;
    }
}

/* --------------------------------------------------------- alltoall in place */

static bool is_in_place_alltoall(const struct batch *batch, size_t i)
{
    const struct operation *operation = batch->operations[i];

    return batch->op.space == OP_HOST &&
            operation->request.collective == TUTTI_ALLTOALL &&
            operation->memory.input == operation->memory.output &&
            operation->memory.bytes > 0;
}

static void copy_inputs(struct batch *batch)
{
    char *to = batch->buffer.memory;

    for (size_t i = 0; i < batch->operation_count; i++) {
        if (is_in_place_alltoall(batch, i)) {
            mem_copy(to, batch->operations[i]->memory.input,
                    batch->operations[i]->memory.bytes);
            batch->runs[i].input = to;
            batch->runs[i].scratch = true;
            to += batch->operations[i]->memory.bytes;
        }
    }
}

/* ------------------------------------------------------------------- all */

static bool is_packed(const struct batch *batch)
{
    return batch->op.run_count < batch->operation_count ||
            (batch->op.collective == TUTTI_REDUCESCATTER &&
                    batch->present.places != NULL);
}

bool fusion_is_needed(const struct batch *batch)
{
    for (size_t i = 0; i < batch->operation_count; i++) {
        if (is_in_place_alltoall(batch, i)) {
            return true;
        }
    }
    return is_packed(batch);
}

tutti_status fusion_pack(struct dispatcher *dispatcher, struct batch *batch)
{
    size_t bytes = 0;

    for (size_t i = 0; i < batch->operation_count; i++) {
        bytes += batch->operations[i]->memory.bytes;
    }
    batch->buffer = buffer_take(dispatcher, bytes);
    if (batch->buffer.memory == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for a fusion buffer of %zu bytes", bytes);
    }
    batch->buffer.set = batch->set->id;
    observe(batch->context, batch, EVENT_BUFFERED);
    if (!is_packed(batch)) {
        copy_inputs(batch);
        return TUTTI_OK;
    }
    batch->op.run_count = 1;
    if (batch->op.collective == TUTTI_REDUCESCATTER) {
        return pack_parts(batch);
    }
    pack_whole(batch);
    return TUTTI_OK;
}

void fusion_unpack(const struct batch *batch)
{
    if (batch->op.collective == TUTTI_ALLTOALL) {
        return;
    }
    if (batch->op.collective == TUTTI_REDUCESCATTER) {
        unpack_parts(batch);
    } else {
        unpack_whole(batch);
    }
}
