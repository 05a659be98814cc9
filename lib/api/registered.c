/*
 * Registered tensors.
 */
#include <inttypes.h>
#include <string.h>

#include "api/call.h"
#include "base/status.h"
#include "core/check.h"
#include "core/context.h"

/* The first published size of tutti_tensor_desc. */
#define DESC_SIZE_MIN sizeof(tutti_tensor_desc)

/* What a description stands for, as far as its collective uses it. */
static void copy_desc(const tutti_tensor_desc *desc, struct submission *s)
{
    const bool has_rows = rows_apply((int)desc->collective);

    s->meta.dtype = desc->dtype;
    if (has_rows) {
        s->meta.row_count = desc->row_count;
        s->rows = (struct rows){ .rows = desc->count,
            .rows_of = desc->rows_of,
            .recv_rows = desc->collective == TUTTI_ALLTOALL ? desc->recv_rows : NULL,
            .owns_output = desc->owns_output && op_is_exchange(desc->collective) };
    } else {
        s->meta.count = desc->count;
    }
    if (meta_reduces((int)desc->collective)) {
        s->meta.op = desc->op;
    }
    if (desc->collective == TUTTI_BROADCAST || desc->collective == TUTTI_REDUCE ||
            desc->collective == TUTTI_GATHER || desc->collective == TUTTI_SCATTER) {
        s->meta.root = desc->root;
    }
}

static tutti_status describe(const tutti_tensor_desc *desc, struct submission *s)
{
    tutti_options options;
    tutti_status status;

    if (desc->size < DESC_SIZE_MIN) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_tensor_desc of size %zu; set it to sizeof(tutti_tensor_desc)",
                desc->size);
    }
    if (!collective_is_valid(desc->collective)) {
        return error_set(
                TUTTI_ERR_INVALID, "%d is no collective", (int)desc->collective);
    }
    status = submit_options(desc->options, &options);
    if (status != TUTTI_OK) {
        return status;
    }
    *s = (struct submission){ .collective = (int)desc->collective,
        .name = desc->name,
        .set = options.process_set,
        .meta = { .prescale = 1, .postscale = 1 },
        .priority = options.priority };
    if (desc->collective == TUTTI_BARRIER) {
        return check_call(s);
    }
    copy_desc(desc, s);
    s->meta.ndim = options.ndim;
    s->meta.dims = options.ndim > 0 ? options.dims : NULL;
    if (meta_reduces(s->collective)) {
        s->meta.prescale = options.prescale;
        s->meta.postscale = options.postscale;
    }
    return check_call(s);
}

static tutti_status register_locked(
        tutti *t, const struct submission *s, tutti_tensor *handle)
{
    struct process_set *set = process_sets_find(&t->sets, s->set);
    struct tensor *tensor;

    if (set == NULL || set->op.rank < 0 || s->meta.root >= set->op.size ||
            s->meta.root < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rank %d is no member of process set %u, or root %d is outside "
                "it",
                s->name, t->rank, s->set, s->meta.root);
    }
    if (rows_apply(s->collective)) {
        const tutti_status status = rows_check(s, &set->op);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    tensor = tensors_get(&set->tensors, s->collective, s->name, strlen(s->name));
    if (tensor == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
    }
    if (tensor->registered) {
        return error_set(TUTTI_ERR_DUPLICATE,
                "%s \"%s\" is registered already on rank %d",
                meta_collective_name(s->collective), s->name, t->rank);
    }
    tensor->handle = t->next_handle + 1;
    tensor->set = set;
    if (!map_insert(&t->handles, hash_u64(0, tensor->handle), tensor)) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
    }
    if (!tensors_register(&set->tensors, tensor, &s->meta, &s->rows, set->op.size)) {
        (void)map_remove(&t->handles, hash_u64(0, tensor->handle), tensor);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
    }
    *handle = ++t->next_handle;
    return TUTTI_OK;
}

tutti_status tutti_tensor_register(
        tutti *t, const tutti_tensor_desc *desc, tutti_tensor *tensor)
{
    struct submission s;
    tutti_status status = call_check_context(t);

    if (status == TUTTI_OK && (desc == NULL || tensor == NULL)) {
        status = error_set(
                TUTTI_ERR_INVALID, "tutti_tensor_register: a pointer is NULL");
    }
    if (status == TUTTI_OK) {
        status = describe(desc, &s);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    status = register_locked(t, &s, tensor);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static bool handle_matches(const void *value, const void *key)
{
    const struct tensor *tensor = value;
    const tutti_tensor *handle = key;

    return tensor->handle == *handle;
}

static tutti_status unregister_locked(tutti *t, tutti_tensor handle)
{
    struct tensor *tensor =
            map_find(&t->handles, hash_u64(0, handle), handle_matches, &handle);

    if (tensor == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "%" PRIu64 " is no registered tensor", handle);
    }
    if (tensor->work != NULL) {
        return error_set(TUTTI_ERR_DUPLICATE, "%s \"%s\" is in flight on rank %d",
                meta_collective_name(tensor->collective), tensor->name, t->rank);
    }
    (void)map_remove(&t->handles, hash_u64(0, handle), tensor);
    tensors_unregister(&tensor->set->tensors, tensor);
    return TUTTI_OK;
}

tutti_status tutti_tensor_unregister(tutti *t, tutti_tensor tensor)
{
    tutti_status status = call_check_context(t);

    if (status == TUTTI_OK) {
        pthread_mutex_lock(&t->lock);
        status = unregister_locked(t, tensor);
        pthread_mutex_unlock(&t->lock);
    }
    return status;
}

tutti_status tutti_submit(tutti *t, tutti_tensor tensor, const void *input,
        void *output, tutti_callback callback, void *user, tutti_request *request)
{
    const struct submission buffers = {
        .input = input, .output = output, .callback = callback, .user = user
    };
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (request == NULL && callback == NULL) {
        status = error_set(TUTTI_ERR_INVALID,
                "tutti_submit: request is NULL and there is no callback");
    } else {
        status = submit_registered(t, tensor, &buffers, request);
    }
    if (status != TUTTI_OK) {
        group_refuse(t, status);
    }
    return status;
}
