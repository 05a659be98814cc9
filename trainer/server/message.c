/*
 * Messages between a client and a server, and what lies in them.
 */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "server/server.h"

tutti_status server_message(struct server_pair *pair, enum server_state message,
        tutti_callback callback, tutti_request *request)
{
    const struct {
        const char *name;
        void *buffer;
        size_t bytes;
        int root;
    } messages[SERVER_MESSAGES] = {
        /* Named by itself: tutti learns the order of names that come again and again. */
        [SERVER_FIRST] = { "first", pair->part, pair->bytes, 0 },
        [SERVER_HEAD] = { "head", pair->head, sizeof pair->head, 0 },
        [SERVER_PUSH] = { "push", pair->part, pair->bytes, 0 },
        [SERVER_ANSWER] = { "answer", pair->header, SERVER_ALIGN + pair->bytes, 1 },
    };
    struct tutti_server *ps = pair->ps;
    const int64_t bytes = (int64_t)messages[message].bytes;
    const int root = messages[message].root;
    const int self = ps->role == TUTTI_ROLE_SERVER ? 1 : 0;
    char name[SERVER_NAME_MAX + 16];
    tutti_options options;

    (void)snprintf(name, sizeof name, "%s.%s", ps->name, messages[message].name);
    tutti_options_default(&options);
    options.process_set = pair->set;
    options.step = pair->steps[message]++;
    options.callback = callback;
    options.user = callback != NULL ? pair : NULL;
    *(root == self ? &ps->report.sent_bytes : &ps->report.received_bytes) += bytes;
    return tutti_broadcast_async(ps->t, name, messages[message].buffer, bytes,
            TUTTI_UINT8, root, &options, request);
}

tutti_status server_wait(struct tutti_server *ps, tutti_status status)
{
    for (int i = 0; status == TUTTI_OK && i < ps->pair_count; i++) {
        status = tutti_wait_all(ps->t, 2, ps->pairs[i].requests, TUTTI_FOREVER, NULL);
    }
    return status == TUTTI_OK ? status : server_give_up(ps, status);
}

tutti_status server_give_up(struct tutti_server *ps, tutti_status status)
{
    char text[sizeof ps->message];

    ps->failed = true;
    (void)snprintf(text, sizeof text, "%s", tutti_last_error());
    if (status != TUTTI_ERR_CONTEXT_FAILED) {
        (void)tutti_abort(ps->t, text);
    }
    for (int i = 0; i < ps->pair_count; i++) {
        struct server_pair *pair = &ps->pairs[i];
        tutti_status waited =
                tutti_wait_all(ps->t, 2, pair->requests, TUTTI_FOREVER, NULL);

        (void)waited; /* the memory is ours again; the first error counts */
        pthread_mutex_lock(&ps->lock);
        while (pair->in_flight) {
            pthread_cond_wait(&ps->arrived, &ps->lock);
        }
        pthread_mutex_unlock(&ps->lock);
    }
    return error_set(status, "%s", text);
}

void server_copy(const struct server_pair *pair, enum server_copy what)
{
    const struct server_slice *slice = pair->slices;

    for (size_t i = 0; i < pair->slice_count; i++, slice++) {
        const tutti_param *param = &pair->ps->params[slice->param];
        char *all = what == SERVER_GRADIENTS_OUT ? param->gradient : param->value;
        char *own = all + (size_t)slice->first * tutti_dtype_size(param->dtype);
        char *part = pair->part + slice->offset;

        if (what == SERVER_VALUES_IN) {
            memcpy(own, part, slice->bytes);
        } else {
            memcpy(part, own, slice->bytes);
        }
    }
}
