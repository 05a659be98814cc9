/*
 * The state of an optimizer as named tensors, and its size.
 */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "optimizer/optimizer.h"

enum {
    NAME_BYTES = TUTTI_NAME_MAX + 1 /* of a tensor's name */
};

static const char *const state_names[STATE_KINDS] = {
    [STATE_MOMENT1] = "moment1",
    [STATE_MOMENT2] = "moment2",
    [STATE_MASTER] = "master",
    [STATE_CUSTOM] = "state",
};

/* Bytes that a kind of state takes for each element of a type; 0: it is not kept. */
static size_t state_size(
        const tutti_optimizer_options *options, tutti_dtype dtype, size_t kind)
{
    const bool custom = options->kind == TUTTI_OPTIMIZER_CUSTOM;
    const bool sgd = options->kind == TUTTI_OPTIMIZER_SGD;
    const size_t moment = dtype == TUTTI_FLOAT64 ? sizeof(double) : sizeof(float);
    const size_t sizes[STATE_KINDS] = {
        [STATE_MOMENT1] = custom || (sgd && options->momentum <= 0) ? 0 : moment,
        [STATE_MOMENT2] = custom || sgd ? 0 : moment,
        [STATE_MASTER] = custom || tutti_dtype_size(dtype) != 2 ? 0 : sizeof(float),
        [STATE_CUSTOM] = options->state_bytes,
    };

    return sizes[kind];
}

size_t optimizer_lay_out(tutti_optimizer *optimizer, unsigned char *memory)
{
    size_t bytes = 0;

    optimizer->bytes_here = 0;
    optimizer->bytes_replicated = 0;
    for (size_t n = 0; n < optimizer->count * STATE_KINDS; n++) {
        struct optimizer_slot *slot = &optimizer->slots[n / STATE_KINDS];
        const size_t kind = n % STATE_KINDS;
        const size_t size = state_size(&optimizer->options, slot->param->dtype, kind);
        const size_t here = size * (size_t)slot->count;

        if (size == 0) {
            continue;
        }
        if (memory != NULL) {
            slot->states[kind] = memory + bytes;
            slot->names[kind] = (char *)memory + bytes + here;
            (void)snprintf(slot->names[kind], NAME_BYTES, "%s.%s.%s", optimizer->prefix,
                    slot->param->name, state_names[kind]);
        }
        bytes += (here + NAME_BYTES + STATE_ALIGNMENT - 1) / STATE_ALIGNMENT *
                STATE_ALIGNMENT;
        optimizer->bytes_here += (int64_t)here;
        optimizer->bytes_replicated += (int64_t)size * slot->param->count;
    }
    return bytes;
}

static tutti_state_tensor describe(
        const tutti_optimizer *optimizer, const struct optimizer_slot *slot, int kind)
{
    const tutti_param *param = slot->param;
    tutti_state_tensor tensor = {
        .name = slot->names[kind],
        .data = slot->states[kind],
        .dtype = param->dtype == TUTTI_FLOAT64 ? TUTTI_FLOAT64 : TUTTI_FLOAT32,
        .ndim = param->ndim > 0 ? param->ndim : 1,
        .dims = param->dims,
        .first = slot->first,
        .count = slot->count,
    };

    if (kind == STATE_CUSTOM) {
        tensor.dtype = TUTTI_UINT8;
        tensor.ndim = 2;
        tensor.dims = slot->custom_dims;
        tensor.first *= (int64_t)optimizer->options.state_bytes;
        tensor.count *= (int64_t)optimizer->options.state_bytes;
    }
    return tensor;
}

tutti_status tutti_optimizer_state(const tutti_optimizer *optimizer,
        tutti_state_tensor *tensors, size_t capacity, size_t *count)
{
    size_t n = 1;

    if (optimizer == NULL || count == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_optimizer_state: the optimizer or the count is NULL");
    }
    if (tensors != NULL && capacity > 0) {
        tensors[0] = (tutti_state_tensor){
            .name = optimizer->steps_name,
            .data = optimizer->steps,
            .dtype = TUTTI_INT64,
            .ndim = 1,
            .dims = optimizer->steps_dims,
            .count = optimizer->steps_dims[0],
        };
    }
    for (size_t i = 0; i < optimizer->count * STATE_KINDS; i++) {
        const struct optimizer_slot *slot = &optimizer->slots[i / STATE_KINDS];

        if (slot->states[i % STATE_KINDS] == NULL) {
            continue;
        }
        if (tensors != NULL && n < capacity) {
            tensors[n] = describe(optimizer, slot, (int)(i % STATE_KINDS));
        }
        n++;
    }
    *count = n;
    if (tensors != NULL && capacity < n) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_optimizer_state: there are %zu tensors, and room for %zu", n,
                capacity);
    }
    return TUTTI_OK;
}

void tutti_optimizer_memory(
        const tutti_optimizer *optimizer, int64_t *here, int64_t *replicated)
{
    if (here != NULL) {
        *here = optimizer->bytes_here;
    }
    if (replicated != NULL) {
        *replicated = optimizer->bytes_replicated;
    }
}
