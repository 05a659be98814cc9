/*
 * Tensors of a state: what they must be, and how files describe them.
 */
#include "state/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* By tutti_dtype. */
static const char *const type_names[] = { "U8", "I8", "U16", "I16", "U32", "I32", "U64",
    "I64", "F16", "BF16", "F32", "F64", "BOOL", "F8_E4M3", "F8_E5M2" };

enum {
    TYPES = sizeof type_names / sizeof *type_names
};

int64_t state_elements(const tutti_state_tensor *tensor)
{
    int64_t elements = 1;
    int64_t bytes;
    bool empty = false;

    for (int d = 0; d < tensor->ndim; d++) {
        int64_t dim = tensor->dims[d];

        empty = empty || dim == 0;
        if (dim < 0 || (dim > 0 && __builtin_mul_overflow(elements, dim, &elements))) {
            return -1;
        }
    }
    if (__builtin_mul_overflow(
                elements, (int64_t)tutti_dtype_size(tensor->dtype), &bytes)) {
        return -1;
    }
    return empty ? 0 : elements;
}

int64_t state_bytes(const tutti_state_tensor *tensor)
{
    return state_elements(tensor) * (int64_t)tutti_dtype_size(tensor->dtype);
}

char *state_shape(char text[SHAPE_TEXT_BYTES], const tutti_state_tensor *tensor)
{
    int used =
            snprintf(text, SHAPE_TEXT_BYTES, "%s [", tutti_dtype_name(tensor->dtype));

    for (int d = 0; d < tensor->ndim && used < SHAPE_TEXT_BYTES; d++) {
        used += snprintf(text + used, SHAPE_TEXT_BYTES - (size_t)used, "%s%lld",
                d > 0 ? ", " : "", (long long)tensor->dims[d]);
    }
    if (used < SHAPE_TEXT_BYTES) {
        (void)snprintf(text + used, SHAPE_TEXT_BYTES - (size_t)used, "]");
    }
    return text;
}

json_t *state_to_json(
        const tutti_state_tensor *tensor, const char *where, json_t *place)
{
    json_t *shape = json_array();

    for (int d = 0; d < tensor->ndim; d++) {
        (void)json_array_append_new(shape, json_integer(tensor->dims[d]));
    }
    return json_pack("{s:s, s:o, s:o}", "dtype", type_names[tensor->dtype], "shape",
            shape, where, place);
}

bool state_from_json(
        json_t *json, tutti_state_tensor *tensor, int64_t dims[TUTTI_DIMS_MAX])
{
    const char *type;
    json_t *shape;
    int t = 0;

    if (json_unpack(json, "{s:s, s:o}", "dtype", &type, "shape", &shape) != 0 ||
            !json_is_array(shape) || json_array_size(shape) > TUTTI_DIMS_MAX) {
        return false;
    }
    while (t < TYPES && strcmp(type, type_names[t]) != 0) {
        t++;
    }
    tensor->dtype = (tutti_dtype)t;
    tensor->ndim = (int)json_array_size(shape);
    tensor->dims = dims;
    for (int d = 0; d < tensor->ndim; d++) {
        const json_t *dim = json_array_get(shape, (size_t)d);

        dims[d] = json_is_integer(dim) ? json_integer_value(dim) : -1;
    }
    return t < TYPES && state_elements(tensor) >= 0;
}

bool state_is_whole(const tutti_state_tensor *tensor)
{
    return tensor->count == state_elements(tensor);
}

static tutti_status check_tensor(const tutti_state_tensor *tensor, size_t i)
{
    int64_t elements;

    if (tensor->name == NULL || tensor->name[0] == '\0' ||
            strlen(tensor->name) > STATE_NAME_MAX ||
            strcmp(tensor->name, "__metadata__") == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "tensor %zu of the state: a name has 1 to %d bytes, and is not "
                "\"__metadata__\"",
                i, STATE_NAME_MAX);
    }
    if (tutti_dtype_size(tensor->dtype) == 0 || tensor->ndim < 0 ||
            tensor->ndim > TUTTI_DIMS_MAX ||
            (tensor->ndim > 0 && tensor->dims == NULL)) {
        return error_set(TUTTI_ERR_INVALID,
                "tensor \"%s\" of the state has dtype %d and %d dimensions (at most "
                "%d)",
                tensor->name, (int)tensor->dtype, tensor->ndim, TUTTI_DIMS_MAX);
    }
    elements = state_elements(tensor);
    if (elements < 0 || tensor->first < 0 || tensor->count < 0 ||
            tensor->first > elements || tensor->count > elements - tensor->first ||
            (tensor->data == NULL && tensor->count > 0)) {
        char text[SHAPE_TEXT_BYTES];

        return error_set(TUTTI_ERR_INVALID,
                "tensor \"%s\" of the state is %s; its part of %lld elements from "
                "element %lld on%s",
                tensor->name, state_shape(text, tensor), (long long)tensor->count,
                (long long)tensor->first,
                tensor->data == NULL ? " has no data" : " is not in it");
    }
    return TUTTI_OK;
}

tutti_status state_check(const tutti_state_tensor *tensors, size_t n)
{
    json_t *names = json_object();
    tutti_status status = TUTTI_OK;

    if (tensors == NULL && n > 0) {
        status = error_set(TUTTI_ERR_INVALID, "the tensors are NULL");
    }
    for (size_t i = 0; status == TUTTI_OK && i < n; i++) {
        status = check_tensor(&tensors[i], i);
        if (status != TUTTI_OK) {
            break;
        }
        if (json_object_set_new(names, tensors[i].name, json_true()) != 0) {
            status = error_set(TUTTI_ERR_INVALID,
                    "the name of tensor %zu of the state is no UTF-8, or there is no "
                    "memory",
                    i);
        } else if (json_object_size(names) == i) {
            status = error_set(TUTTI_ERR_INVALID, "tensor \"%s\" is in the state twice",
                    tensors[i].name);
        }
    }
    json_decref(names);
    return status;
}

static void describe(const void *items, size_t i, char text[SETTING_TEXT_BYTES])
{
    const tutti_state_tensor *tensor = (const tutti_state_tensor *)items + i;
    char shape[SHAPE_TEXT_BYTES];

    (void)snprintf(text, SETTING_TEXT_BYTES, "\"%s\", %s", tensor->name,
            state_shape(shape, tensor));
}

tutti_status state_agree(const struct state_group *group, tutti_status status,
        const tutti_state_tensor *tensors, size_t n)
{
    const struct setting_list list = {
        .name = "tensor", .n = n, .describe = describe, .items = tensors
    };

    if (status == TUTTI_OK) {
        status = state_check(tensors, n);
    }
    return group_same(group, status, NULL, 0, &list);
}
