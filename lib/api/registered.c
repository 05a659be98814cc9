/*
 * Registered tensors.
 */
#include "api/call.h"
#include "base/status.h"
#include "run/check.h"
#include "run/context.h"
#include "run/registration.h"

/* The first published size of tutti_tensor_desc. */
#define DESC_SIZE_MIN sizeof(tutti_tensor_desc)

/* What a description stands for, as far as its collective uses it. */
static void copy_desc(const tutti_tensor_desc *desc, struct submission *s)
{
    const bool has_rows = meta_has_rows((int)desc->collective);

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
    if (desc->collective == TUTTI_MESSAGE) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "messages are not registered; use tutti_send_async() and "
                "tutti_recv_async()");
    }
    *s = (struct submission){ .collective = (int)desc->collective, .name = desc->name };
    status = call_take_options(desc->options, s);
    if (status != TUTTI_OK) {
        return status;
    }
    /* Those come with each submission. */
    s->step = 0;
    s->callback = NULL;
    s->user = NULL;
    if (desc->collective != TUTTI_BARRIER) {
        copy_desc(desc, s);
    }
    return check_call(s);
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
    status = registration_add(t, &s, tensor);
    pthread_mutex_unlock(&t->lock);
    return status;
}

tutti_status tutti_tensor_unregister(tutti *t, tutti_tensor tensor)
{
    tutti_status status = call_check_context(t);

    if (status == TUTTI_OK) {
        pthread_mutex_lock(&t->lock);
        status = registration_remove(t, tensor);
        pthread_mutex_unlock(&t->lock);
    }
    return status;
}

tutti_status tutti_submit(tutti *t, tutti_tensor tensor, const void *input,
        void *output, int64_t step, tutti_callback callback, void *user,
        tutti_request *request)
{
    struct submission buffers = { .step = meta_step(step),
        .input = input,
        .output = output,
        .callback = callback,
        .user = user };
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    status = check_step(buffers.step);
    if (status == TUTTI_OK && request == NULL && callback == NULL) {
        status = error_set(TUTTI_ERR_INVALID,
                "tutti_submit: request is NULL and there is no callback");
    }
    if (status == TUTTI_OK) {
        status = submit_registered(t, tensor, &buffers, request);
    }
    if (status != TUTTI_OK) {
        group_refuse(t, status);
    }
    return status;
}
