/*
 * Host memory or device memory.
 */
#include "device/placement.h"

#include <stdio.h>

#include "agree/meta.h"
#include "base/error.h"

static tutti_status look(const struct device *device, const char *name,
        const struct placement_buffer *buffer, enum op_space *space)
{
    const tutti_status status =
            device->look(device->state, buffer->memory, buffer->bytes, space);

    if (status == TUTTI_ERR_INVALID) {
        char reason[ERROR_TEXT_MAX];

        (void)snprintf(reason, sizeof reason, "%s", tutti_last_error());
        return error_set(status, "\"%s\": %s", name, reason);
    }
    return status;
}

static bool is_used(const struct placement_buffer *buffer)
{
    return buffer->memory != NULL && buffer->bytes > 0;
}

static tutti_status look_at_both(const struct device *device, const char *name,
        int rank, const struct placement_buffer *input,
        const struct placement_buffer *output, enum op_space *space)
{
    enum op_space second = OP_HOST;
    tutti_status status = look(device, name, input, space);

    if (status != TUTTI_OK ||
            (output->memory == input->memory && output->bytes <= input->bytes)) {
        return status;
    }
    status = look(device, name, output, &second);
    if (status == TUTTI_OK && second != *space) {
        status = error_set(TUTTI_ERR_INVALID,
                "\"%s\": the input of rank %d is %s, and its output is %s; give both "
                "in "
                "one",
                name, rank, meta_space_name(*space), meta_space_name(second));
    }
    return status;
}

tutti_status placement_find(const struct device *device, const char *name, int rank,
        const struct placement *placement, enum op_space *space)
{
    const struct placement_buffer *input = &placement->input;
    const struct placement_buffer *output = &placement->output;
    const void *memory = placement->unused;

    if (is_used(input) && is_used(output)) {
        return look_at_both(device, name, rank, input, output, space);
    }
    if (is_used(input) || is_used(output)) {
        return look(device, name, is_used(input) ? input : output, space);
    }
    *space = OP_HOST;
    if (memory == NULL) {
        *space = placement->has_stream ? OP_DEVICE : OP_HOST;
    } else if (device->look(device->state, memory, 1, space) != TUTTI_OK) {
        *space = OP_HOST;
    }
    return TUTTI_OK;
}
