/*
 * Batches of device memory on backends of host memory.
 */
#include "core/staging.h"

#include "base/mem.h"
#include "core/context.h"
#include "core/dispatcher.h"
#include "core/launch.h"

static tutti_status no_memory(const struct work *work, size_t bytes)
{
    return error_set(TUTTI_ERR_NO_MEMORY,
            "no pinned host memory for the %zu bytes of %s \"%s\"", bytes,
            meta_collective_name(work->request.collective), work->request.name);
}

static bool has_input(const struct op_batch *op)
{
    if (op->collective == TUTTI_BROADCAST || op->collective == TUTTI_SCATTER) {
        return op->set->rank == op->root;
    }
    return true;
}

static bool has_output(const struct op_batch *op)
{
    if (op->collective == TUTTI_REDUCE || op->collective == TUTTI_GATHER) {
        return op->set->rank == op->root;
    }
    return op->collective != TUTTI_BROADCAST || op->set->rank != op->root;
}

/* Collectives that take and leave one piece of memory, when the caller gives one. */
static bool shares_memory(const struct work *work)
{
    return !rows_apply(work->request.collective) && work->input == work->output;
}

static size_t output_bytes(const struct batch *batch, const struct work *work)
{
    const int size = batch->set->op.size;
    size_t bytes = 0;

    if (!rows_apply(work->request.collective)) {
        return work->bytes;
    }
    if (work->request.collective == TUTTI_REDUCESCATTER) {
        return work->parts[batch->set->op.rank].bytes;
    }
    for (int m = 0; m < size; m++) {
        const struct op_part *part = &work->parts[size + m];

        bytes = part->bytes > 0 ? size_max(bytes, part->offset + part->bytes) : bytes;
    }
    return bytes;
}

/* ------------------------------------------------------------------ begin */

static tutti_status make_room(struct batch *batch)
{
    const size_t works = batch->work_count;

    if (!mem_grow(&batch->staged, &batch->staged_capacity, works,
                sizeof *batch->staged) ||
            !mem_grow(&batch->copies, &batch->copy_capacity, works,
                    sizeof *batch->copies)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to stage %zu tensors", works);
    }
    for (size_t i = 0; i < works; i++) {
        batch->staged[i] = (struct staged_work){ .input = batch->works[i]->input,
            .output = batch->works[i]->output };
    }
    batch->staged_count = works;
    return TUTTI_OK;
}

static tutti_status take(
        struct tutti *t, const struct work *work, size_t bytes, void **memory)
{
    *memory = t->device.host_alloc(t->device.state, size_max(bytes, 1));
    return *memory != NULL ? TUTTI_OK : no_memory(work, bytes);
}

/* A place on the host for the output, where its size and its memory are known. */
static tutti_status take_output(struct tutti *t, struct batch *batch, size_t i)
{
    struct staged_work *staged = &batch->staged[i];
    struct work *work = batch->works[i];

    if (work->output == NULL || work->owns_output ||
            (op_is_exchange(batch->op.collective) && !batch->op.sizes_known)) {
        return TUTTI_OK;
    }
    staged->output_bytes = output_bytes(batch, work);
    if (shares_memory(work)) {
        staged->host_output = staged->host_input;
        return TUTTI_OK;
    }
    return take(t, work, staged->output_bytes, &staged->host_output);
}

static tutti_status take_memory(struct tutti *t, struct batch *batch)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < batch->work_count && status == TUTTI_OK; i++) {
        struct staged_work *staged = &batch->staged[i];

        if (staged->input != NULL) {
            status = take(
                    t, batch->works[i], batch->works[i]->bytes, &staged->host_input);
        }
        if (status == TUTTI_OK) {
            status = take_output(t, batch, i);
        }
    }
    return status;
}

static tutti_status fetch(struct tutti *t, struct batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->work_count && has_input(&batch->op); i++) {
        const struct staged_work *staged = &batch->staged[i];

        if (staged->host_input != NULL && batch->works[i]->bytes > 0) {
            batch->copies[count++] = (struct device_copy){ .to = staged->host_input,
                .from = staged->input,
                .bytes = batch->works[i]->bytes };
        }
    }
    return t->device.copy(t->device.state, DEVICE_TO_HOST, batch->copies, count,
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
            tutti_collective_name(op->collective), batch->works[0]->request.name,
            tutti_collective_name(op->collective),
            tutti_dtype_name(batch->works[0]->request.meta.dtype), op->set->size);
}

tutti_status staging_begin(struct tutti *t, struct batch *batch)
{
    tutti_status status = make_room(batch);

    if (status != TUTTI_OK) {
        return status;
    }
    batch->stage = STAGE_IN;
    status = take_memory(t, batch);
    if (status == TUTTI_OK) {
        status = fetch(t, batch);
    }
    if (status != TUTTI_OK) {
        staging_release(t, batch);
        return status;
    }
    counter_add(&t->counters.device_staged, 1);
    say_once(t, batch);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------- steps */

static void move_to_host(struct batch *batch)
{
    for (size_t i = 0; i < batch->work_count; i++) {
        batch->works[i]->input = batch->staged[i].host_input;
        batch->works[i]->output = batch->staged[i].host_output;
    }
}

tutti_status staging_step(struct tutti *t, struct batch *batch, bool *moved)
{
    tutti_status status = t->device.passed(t->device.state, batch->issued);

    if (status != TUTTI_OK) {
        return status;
    }
    *moved = true;
    t->device.release(t->device.state, batch->issued);
    batch->issued = NULL;
    if (batch->stage == STAGE_OUT) {
        return TUTTI_OK;
    }
    batch->stage = STAGE_HOST;
    move_to_host(batch);
    return launch_staged(t, batch);
}

tutti_status staging_place(
        struct tutti *t, struct batch *batch, size_t work, size_t bytes)
{
    struct staged_work *staged = &batch->staged[work];
    struct work *placed = batch->works[work];
    tutti_status status;

    if (placed->owns_output) {
        staged->output = placed->output;
    }
    if (staged->output == NULL) {
        return TUTTI_OK; /* this rank gets nothing */
    }
    staged->output_bytes = bytes;
    status = take(t, placed, bytes, &staged->host_output);
    placed->output = staged->host_output;
    return status;
}

tutti_status staging_send_back(struct tutti *t, struct batch *batch)
{
    tutti_status status;
    size_t count = 0;

    for (size_t i = 0; i < batch->work_count; i++) {
        const struct staged_work *staged = &batch->staged[i];

        if (has_output(&batch->op) && staged->host_output != NULL &&
                staged->output_bytes > 0) {
            batch->copies[count++] = (struct device_copy){ .to = staged->output,
                .from = staged->host_output,
                .bytes = staged->output_bytes };
        }
        batch->works[i]->input = staged->input;
        batch->works[i]->output = staged->output;
    }
    status = t->device.copy(t->device.state, HOST_TO_DEVICE, batch->copies, count, NULL,
            0, &batch->issued);
    batch->stage = status == TUTTI_OK ? STAGE_OUT : batch->stage;
    return status;
}

void staging_release(struct tutti *t, struct batch *batch)
{
    const struct device *device = &t->device;

    for (size_t i = 0; i < batch->staged_count; i++) {
        struct staged_work *staged = &batch->staged[i];

        if (staged->host_output != staged->host_input) {
            device->host_give_back(device->state, staged->host_output);
        }
        device->host_give_back(device->state, staged->host_input);
    }
    device->release(device->state, batch->issued);
    batch->issued = NULL;
    batch->staged_count = 0;
    batch->stage = STAGE_NONE;
}
