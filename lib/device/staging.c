/*
 * Batches of device memory on backends of host memory.
 */
#include "device/staging.h"

#include "base/error.h"
#include "base/mem.h"

struct staged *staging_items(struct staging *staging, size_t count)
{
    if (!mem_grow(&staging->items, &staging->capacity, count, sizeof *staging->items) ||
            !mem_grow(&staging->copies, &staging->copy_capacity, count,
                    sizeof *staging->copies)) {
        return NULL;
    }
    staging->count = count;
    return staging->items;
}

static tutti_status take(const struct device *device, const struct op_batch *op,
        const char *name, size_t bytes, void **memory)
{
    *memory = device->host_alloc(device->state, size_max(bytes, 1));
    return *memory != NULL
            ? TUTTI_OK
            : error_set(TUTTI_ERR_NO_MEMORY,
                      "no pinned host memory for the %zu bytes of %s \"%s\"", bytes,
                      tutti_collective_name(op->collective), name);
}

static tutti_status take_memory(
        const struct device *device, const struct op_batch *op, struct staged *item)
{
    tutti_status status = TUTTI_OK;

    if (item->input != NULL) {
        status = take(device, op, item->name, item->input_bytes, &item->host_input);
    }
    if (status != TUTTI_OK || !item->is_known) {
        return status;
    }
    if (item->is_shared) {
        item->host_output = item->host_input;
        return TUTTI_OK;
    }
    return take(device, op, item->name, item->output_bytes, &item->host_output);
}

static tutti_status fetch(
        struct staging *staging, const struct device *device, const struct op_batch *op)
{
    size_t count = 0;

    for (size_t i = 0; i < staging->count && op_has_input(op); i++) {
        const struct staged *item = &staging->items[i];

        if (item->host_input != NULL && item->input_bytes > 0) {
            staging->copies[count++] = (struct device_copy){
                .to = item->host_input, .from = item->input, .bytes = item->input_bytes
            };
        }
    }
    return device->copy(device->state, DEVICE_TO_HOST, staging->copies, count,
            op->after, op->after_count, op->issued);
}

tutti_status staging_fetch(
        struct staging *staging, const struct device *device, const struct op_batch *op)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < staging->count && status == TUTTI_OK; i++) {
        status = take_memory(device, op, &staging->items[i]);
    }
    if (status == TUTTI_OK) {
        status = fetch(staging, device, op);
    }
    if (status != TUTTI_OK) {
        staging_release(staging, device, op->issued);
    }
    return status;
}

tutti_status staging_look(const struct device *device, const struct op_batch *op)
{
    const tutti_status status = device->passed(device->state, *op->issued);

    if (status == TUTTI_OK) {
        device->release(device->state, *op->issued);
        *op->issued = NULL;
    }
    return status;
}

tutti_status staging_place(struct staging *staging, const struct device *device,
        const struct op_batch *op, size_t item, size_t bytes)
{
    struct staged *staged = &staging->items[item];

    if (staged->output == NULL) {
        return TUTTI_OK; /* this rank gets nothing */
    }
    staged->output_bytes = bytes;
    return take(device, op, staged->name, bytes, &staged->host_output);
}

tutti_status staging_send_back(
        struct staging *staging, const struct device *device, const struct op_batch *op)
{
    size_t count = 0;

    for (size_t i = 0; i < staging->count && op_has_output(op); i++) {
        const struct staged *item = &staging->items[i];

        if (item->host_output != NULL && item->output_bytes > 0) {
            staging->copies[count++] = (struct device_copy){ .to = item->output,
                .from = item->host_output,
                .bytes = item->output_bytes };
        }
    }
    return device->copy(
            device->state, HOST_TO_DEVICE, staging->copies, count, NULL, 0, op->issued);
}

void staging_release(struct staging *staging, const struct device *device,
        struct device_event **event)
{
    for (size_t i = 0; i < staging->count; i++) {
        struct staged *item = &staging->items[i];

        if (item->host_output != item->host_input) {
            device->host_give_back(device->state, item->host_output);
        }
        device->host_give_back(device->state, item->host_input);
    }
    device->release(device->state, *event);
    *event = NULL;
    staging->count = 0;
}

void staging_fini(struct staging *staging)
{
    mem_free(staging->items);
    mem_free(staging->copies);
}
