/*
 * Launches a batch: describes it to the backend, in place or in a fusion buffer.
 */
#include "run/launch.h"

#include <string.h>

#include "agree/meta.h"
#include "base/mem.h"
#include "observe/observe.h"
#include "run/batch.h"
#include "run/context.h"
#include "run/dispatch.h"
#include "run/fusion.h"
#include "run/operation.h"
#include "run/output.h"
#include "run/rows.h"
#include "run/sizes.h"
#include "run/stage.h"

/* A backend has learned what comes from whom: puts it one behind the other. */
static tutti_status place_run(const struct op_batch *op, size_t run)
{
    struct batch *batch = op->owner;
    struct operation *operation = batch->operations[run];
    const size_t bytes = rows_place(batch->runs[run].recvs, op->set->size);

    if (operation->memory.owns_output &&
            !output_give(batch->context, operation, bytes)) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for the %zu bytes of output of %s \"%s\"", bytes,
                tutti_collective_name(op->collective), operation->request.name);
    }
    if (batch_is_staged(batch)) {
        const tutti_status status = stage_place(batch->context, batch, run, bytes);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    batch->runs[run].output = operation->memory.output;
    return TUTTI_OK;
}

/* The root, as an index into the members of the batch. */
static int root_of(const struct batch *batch, int root)
{
    int member = 0;

    if (batch->present.places == NULL) {
        return root;
    }
    while (member + 1 < batch->present.set.size &&
            batch->present.places[member] != root) {
        member++;
    }
    return member;
}

static enum op_spot spot_of(const struct meta *meta)
{
    return meta->spot == META_SPOT_NONE     ? OP_SPOT_NONE
            : meta->spot == META_SPOT_MIXED ? OP_SPOT_MIXED
                                            : OP_SPOT_SAME;
}

/* The sizes of an exchange are on all ranks what they are here: known, or not. */
static bool sizes_are_known(const struct request *request)
{
    return request->collective != TUTTI_GATHER &&
            request->collective != TUTTI_SCATTER && request->meta.form != META_UNKNOWN;
}

static struct op_run run_of(
        const struct batch *batch, const struct operation *operation)
{
    const int size = batch->set->op.size;
    struct op_run run = { .input = operation->memory.input,
        .output = operation->memory.output,
        .spot = spot_of(&operation->request.meta) };

    if (!meta_has_rows(operation->request.collective)) {
        run.count = meta_reduces(operation->request.collective)
                ? (size_t)operation->request.meta.count
                : operation->memory.bytes;
    } else if (operation->request.collective == TUTTI_REDUCESCATTER) {
        run.count = operation->memory.bytes / tutti_dtype_size(batch->op.dtype);
        run.sends = operation->parts.list;
    } else {
        run.sends = operation->parts.list;
        run.recvs = operation->parts.list + size;
    }
    if (batch->op.collective == TUTTI_REDUCE && batch->op.set->rank != batch->op.root) {
        run.output = NULL;
    }
    return run;
}

/* What the operations of a batch wait for on the device; operations of one group share an event. */
static void list_events(struct batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->operation_count; i++) {
        struct device_event *event = batch->operations[i]->on_device.after;

        if (event != NULL && (count == 0 || batch->events[count - 1] != event)) {
            batch->events[count++] = event;
        }
    }
    batch->op.after_count = count;
}

static void describe_batch(struct batch *batch)
{
    const struct request *first = &batch->operations[0]->request;
    const struct meta *meta = &first->meta;
    const struct op_set *set =
            batch->present.places != NULL ? &batch->present.set : &batch->set->op;

    batch->op = (struct op_batch){ .set = set,
        .sequence = batch->set->sequence++,
        .collective = first->collective == TUTTI_MESSAGE
                ? TUTTI_BROADCAST
                : (tutti_collective)first->collective,
        .dtype = meta_reduces(first->collective) ? meta->dtype : TUTTI_UINT8,
        .op = meta_backend_op(meta->op),
        .divisor = meta->op == TUTTI_SET_AVERAGE ? batch->set->op.size : set->size,
        .prescale = meta->prescale,
        .postscale = meta->postscale,
        .root = root_of(batch, meta->root),
        .runs = batch->runs,
        .space = batch->space,
        .after = batch->events,
        .issued = &batch->issued,
        .stream = batch->operations[0]->on_device.stream,
        .operands = batch->operands,
        .sizes_known = sizes_are_known(first),
        .place = place_run,
        .owner = batch };
    for (size_t i = 0; i < batch->operation_count; i++) {
        operation_advance(batch->operations[i], OPERATION_RUNNING);
        batch->runs[i] = run_of(batch, batch->operations[i]);
        batch->op.count += batch->runs[i].count;
    }
    if (op_memory(batch->space) == OP_DEVICE) {
        list_events(batch);
    }
}

/* `run_count` runs, or one at a time. */
static const struct dispatcher_backend *choose(
        const struct dispatcher *dispatcher, struct batch *batch, size_t run_count)
{
    for (int b = 0; b < dispatcher->backend_count; b++) {
        const struct dispatcher_backend *backend = &dispatcher->backends[b];
        const bool takes_runs =
                (backend->ops->takes_runs & 1u << batch->op.collective) != 0;

        if (backend->ops->space != op_memory(batch->op.space)) {
            continue;
        }
        batch->op.run_count = takes_runs ? run_count : 1;
        if ((takes_runs || !op_is_exchange(batch->op.collective)) &&
                backend->ops->accepts(backend->state, &batch->op)) {
            return backend;
        }
    }
    return NULL;
}

/* Outputs that requests own, where their size is known. */
static tutti_status give_outputs(const struct batch *batch)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < batch->operation_count && status == TUTTI_OK; i++) {
        if (batch->operations[i]->memory.owns_output && batch->op.sizes_known) {
            status = place_run(&batch->op, i);
        }
    }
    return status;
}

static tutti_status start(struct batch *batch)
{
    tutti_status status;

    memset(batch->task, 0, batch->backend->ops->task_bytes);
    status = batch->backend->ops->start(batch->backend->state, batch->task, &batch->op);
    if (status == TUTTI_OK) {
        batch_advance(batch, BATCH_RUNNING);
    }
    return status;
}

static tutti_status begin(struct tutti *t, struct batch *batch)
{
    tutti_status status = give_outputs(batch);

    if (status == TUTTI_OK && fusion_is_needed(batch)) {
        observe(t, batch, EVENT_PACKS);
        status = fusion_pack(&t->dispatcher, batch);
        observe(t, batch, EVENT_PACKED);
    }
    return status == TUTTI_OK ? start(batch) : status;
}

static tutti_status refused(const struct batch *batch)
{
    return error_set(TUTTI_ERR_INTERNAL, "no backend takes a %s of %s on %d ranks",
            tutti_collective_name(batch->op.collective),
            tutti_dtype_name(batch->op.dtype), batch->op.set->size);
}

static tutti_status ask_sizes(const struct tutti *t, struct batch *batch)
{
    const tutti_status status = sizes_ask(batch);

    if (status != TUTTI_OK) {
        return status;
    }
    batch->backend = choose(&t->dispatcher, batch, 1);
    return batch->backend != NULL ? start(batch) : refused(batch);
}

/* Of device memory; the host's backends learn sizes themselves. */
static bool must_ask_sizes(const struct batch *batch)
{
    return batch->op.space != OP_HOST && op_is_exchange(batch->op.collective) &&
            !batch->op.sizes_known;
}

static tutti_status refuse_staged(const struct batch *batch)
{
    return error_set(TUTTI_ERR_UNSUPPORTED,
            "%s \"%s\" cannot be part of a CUDA graph, for it needs the host (the "
            "table "
            "of docs/gpu.md says what does not): do it outside of the capture",
            tutti_collective_name(batch->op.collective),
            batch->operations[0]->request.name);
}

static tutti_status choose_and_begin(struct tutti *t, struct batch *batch)
{
    batch->backend = choose(&t->dispatcher, batch, batch->operation_count);
    if (batch->space == OP_CAPTURED) {
        if (batch->backend == NULL || must_ask_sizes(batch)) {
            return refuse_staged(batch);
        }
        (void)atomic_fetch_add_explicit(&t->engine.capturing, 1, memory_order_relaxed);
    }
    if (batch->backend == NULL) {
        return batch->op.space == OP_DEVICE ? stage_in(t, batch) : refused(batch);
    }
    return must_ask_sizes(batch) ? ask_sizes(t, batch) : begin(t, batch);
}

tutti_status launch_batch(struct tutti *t, struct batch *batch)
{
    batch_advance(batch, BATCH_LAUNCHED);
    describe_batch(batch);
    return choose_and_begin(t, batch);
}

tutti_status launch_sized(struct tutti *t, struct batch *batch)
{
    sizes_take(batch);
    batch_advance(batch, BATCH_LAUNCHED);
    return choose_and_begin(t, batch);
}

/* The operations are where the backends of host memory find them. */
tutti_status launch_staged(struct tutti *t, struct batch *batch)
{
    batch->op.space = OP_HOST;
    batch->op.after_count = 0;
    for (size_t i = 0; i < batch->operation_count; i++) {
        batch->runs[i] = run_of(batch, batch->operations[i]);
    }
    return choose_and_begin(t, batch);
}
