/*
 * Device batches that go through host memory: copies before and after the backend.
 */
#include "run/stage.h"

#include "run/context.h"

static size_t output_bytes(const struct batch *batch, const struct operation *operation)
{
    const int size = batch->set->op.size;
    size_t bytes = 0;

    if (!meta_has_rows(operation->request.collective)) {
        return operation->bytes;
    }
    if (operation->request.collective == TUTTI_REDUCESCATTER) {
        return operation->parts[batch->set->op.rank].bytes;
    }
    for (int m = 0; m < size; m++) {
        const struct op_part *part = &operation->parts[size + m];

        bytes = part->bytes > 0 ? size_max(bytes, part->offset + part->bytes) : bytes;
    }
    return bytes;
}

/* The size and the memory of the output are known. */
static bool has_place(const struct op_batch *op, const struct operation *operation)
{
    return operation->output != NULL && !operation->owns_output &&
            (!op_is_exchange(op->collective) || op->sizes_known);
}

static struct staged describe(
        const struct batch *batch, const struct operation *operation)
{
    const bool is_known = has_place(&batch->op, operation);

    return (struct staged){ .name = operation->request.name,
        .input = operation->input,
        .input_bytes = operation->bytes,
        .output = operation->output,
        .output_bytes = is_known ? output_bytes(batch, operation) : 0,
        .is_known = is_known,
        /* Collectives that take and leave one piece of memory, when the caller gives one. */
        .is_shared = !meta_has_rows(operation->request.collective) &&
                operation->input == operation->output };
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
    struct staged *items = staging_items(&batch->staging, batch->operation_count);
    tutti_status status;

    if (items == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to stage %zu tensors",
                batch->operation_count);
    }
    for (size_t i = 0; i < batch->operation_count; i++) {
        items[i] = describe(batch, batch->operations[i]);
    }
    status = staging_fetch(&batch->staging, &t->device, &batch->op);
    if (status != TUTTI_OK) {
        return status;
    }
    batch_advance(batch, BATCH_FETCHING);
    counter_add(&t->counters.device_staged, 1);
    say_once(t, batch);
    return TUTTI_OK;
}

void stage_on_host(struct batch *batch)
{
    batch_advance(batch, BATCH_LAUNCHED);
    for (size_t i = 0; i < batch->operation_count; i++) {
        batch->operations[i]->input = batch->staging.items[i].host_input;
        batch->operations[i]->output = batch->staging.items[i].host_output;
    }
}

tutti_status stage_place(struct tutti *t, struct batch *batch, size_t i, size_t bytes)
{
    struct staged *staged = &batch->staging.items[i];
    struct operation *operation = batch->operations[i];
    tutti_status status;

    if (operation->owns_output) {
        staged->output = operation->output;
    }
    status = staging_place(&batch->staging, &t->device, &batch->op, i, bytes);
    if (staged->output != NULL) {
        operation->output = staged->host_output;
    }
    return status;
}

tutti_status stage_out(struct tutti *t, struct batch *batch)
{
    tutti_status status;

    for (size_t i = 0; i < batch->operation_count; i++) {
        batch->operations[i]->input = batch->staging.items[i].input;
        batch->operations[i]->output = batch->staging.items[i].output;
    }
    status = staging_send_back(&batch->staging, &t->device, &batch->op);
    if (status == TUTTI_OK) {
        batch_advance(batch, BATCH_RETURNING);
    }
    return status;
}
