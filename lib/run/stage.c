/*
 * Device batches that go through host memory: copies before and after the backend.
 */
#include "run/stage.h"

#include "agree/meta.h"
#include "base/mem.h"
#include "observe/observe.h"
#include "run/batch.h"
#include "run/context.h"

static size_t output_bytes(const struct batch *batch, const struct operation *operation)
{
    const int size = batch->set->op.size;
    size_t bytes = 0;

    if (!meta_has_rows(operation->request.collective)) {
        return operation->memory.bytes;
    }
    if (operation->request.collective == TUTTI_REDUCESCATTER) {
        return operation->parts.list[batch->set->op.rank].bytes;
    }
    for (int m = 0; m < size; m++) {
        const struct op_part *part = &operation->parts.list[size + m];

        bytes = part->bytes > 0 ? size_max(bytes, part->offset + part->bytes) : bytes;
    }
    return bytes;
}

/* The size and the memory of the output are known. */
static bool has_place(const struct op_batch *op, const struct operation *operation)
{
    return operation->memory.output != NULL && !operation->memory.owns_output &&
            (!op_is_exchange(op->collective) || op->sizes_known);
}

static tutti_status take_buffer(struct tutti *t, const struct batch *batch, size_t i,
        size_t bytes, void **memory)
{
    *memory = t->device.host_alloc(t->device.state, size_max(bytes, 1));
    return *memory != NULL
            ? TUTTI_OK
            : error_set(TUTTI_ERR_NO_MEMORY,
                      "no pinned host memory for the %zu bytes of %s \"%s\"", bytes,
                      tutti_collective_name(batch->op.collective),
                      batch->operations[i]->request.name);
}

static tutti_status take_memory(struct tutti *t, struct batch *batch, size_t i)
{
    const struct operation *operation = batch->operations[i];
    struct staged *staged = &batch->staging.tensors[i];
    tutti_status status = TUTTI_OK;

    if (staged->input != NULL) {
        status = take_buffer(t, batch, i, staged->input_bytes, &staged->host_input);
    }
    if (status != TUTTI_OK || !has_place(&batch->op, operation)) {
        return status;
    }
    staged->output_bytes = output_bytes(batch, operation);
    /* Collectives that take and leave one piece of memory, when the caller gives one. */
    if (!meta_has_rows(operation->request.collective) &&
            staged->input == staged->output) {
        staged->host_output = staged->host_input;
        return TUTTI_OK;
    }
    return take_buffer(t, batch, i, staged->output_bytes, &staged->host_output);
}

static tutti_status fetch(struct tutti *t, struct batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->staging.count && op_has_input(&batch->op); i++) {
        const struct staged *staged = &batch->staging.tensors[i];

        if (staged->host_input != NULL && staged->input_bytes > 0) {
            batch->staging.copies[count++] =
                    (struct device_copy){ .to = staged->host_input,
                        .from = staged->input,
                        .bytes = staged->input_bytes };
        }
    }
    return t->device.copy(t->device.state, DEVICE_TO_HOST, batch->staging.copies, count,
            batch->op.after, batch->op.after_count, &batch->issued);
}

static void say_once(struct tutti *t, const struct batch *batch)
{
    const struct op_batch *op = &batch->op;

    if (t->dispatcher.has_said_staged) {
        return;
    }
    t->dispatcher.has_said_staged = true;
    log_warn(&t->log,
            "%s \"%s\" is copied to host memory and back, as no backend for GPUs takes "
            "a %s of %s on %d ranks; others may be, too (statistics: device_staged)",
            tutti_collective_name(op->collective), batch->operations[0]->request.name,
            tutti_collective_name(op->collective),
            tutti_dtype_name(batch->operations[0]->request.meta.dtype), op->set->size);
}

tutti_status stage_in(struct tutti *t, struct batch *batch)
{
    const size_t count = batch->operation_count;
    tutti_status status = TUTTI_OK;

    if (!mem_grow(&batch->staging.tensors, &batch->staging.capacity, count,
                sizeof *batch->staging.tensors) ||
            !mem_grow(&batch->staging.copies, &batch->staging.copy_capacity, count,
                    sizeof *batch->staging.copies)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to stage %zu tensors", count);
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        const struct operation *operation = batch->operations[i];

        batch->staging.tensors[i] = (struct staged){ .input = operation->memory.input,
            .input_bytes = operation->memory.bytes,
            .output = operation->memory.output };
        batch->staging.count = i + 1;
        status = take_memory(t, batch, i);
    }
    if (status == TUTTI_OK) {
        status = fetch(t, batch);
    }
    if (status != TUTTI_OK) {
        batch_unstage(batch);
        return status;
    }
    batch_advance(batch, BATCH_FETCHING);
    observe(t, batch, EVENT_STAGED);
    say_once(t, batch);
    return TUTTI_OK;
}

tutti_status stage_look(struct tutti *t, struct batch *batch)
{
    const tutti_status status = t->device.passed(t->device.state, batch->issued);

    if (status != TUTTI_OK) {
        return status;
    }
    t->device.release(t->device.state, batch->issued);
    batch->issued = NULL;
    return TUTTI_OK;
}

void stage_on_host(struct batch *batch)
{
    batch_advance(batch, BATCH_LAUNCHED);
    for (size_t i = 0; i < batch->operation_count; i++) {
        batch->operations[i]->memory.input = batch->staging.tensors[i].host_input;
        batch->operations[i]->memory.output = batch->staging.tensors[i].host_output;
    }
}

tutti_status stage_place(struct tutti *t, struct batch *batch, size_t i, size_t bytes)
{
    struct staged *staged = &batch->staging.tensors[i];
    struct operation *operation = batch->operations[i];
    tutti_status status;

    if (operation->memory.owns_output) {
        staged->output = operation->memory.output;
    }
    if (staged->output == NULL) {
        return TUTTI_OK; /* this rank gets nothing */
    }
    staged->output_bytes = bytes;
    status = take_buffer(t, batch, i, bytes, &staged->host_output);
    operation->memory.output = staged->host_output;
    return status;
}

/* The operations have their memory on the device again, where the outputs go. */
tutti_status stage_out(struct tutti *t, struct batch *batch)
{
    size_t count = 0;
    tutti_status status;

    for (size_t i = 0; i < batch->operation_count; i++) {
        const struct staged *staged = &batch->staging.tensors[i];

        batch->operations[i]->memory.input = staged->input;
        batch->operations[i]->memory.output = staged->output;
        if (op_has_output(&batch->op) && staged->host_output != NULL &&
                staged->output_bytes > 0) {
            batch->staging.copies[count++] = (struct device_copy){ .to = staged->output,
                .from = staged->host_output,
                .bytes = staged->output_bytes };
        }
    }
    status = t->device.copy(t->device.state, HOST_TO_DEVICE, batch->staging.copies,
            count, NULL, 0, &batch->issued);
    if (status != TUTTI_OK) {
        return status;
    }
    batch_advance(batch, BATCH_RETURNING);
    return TUTTI_OK;
}
