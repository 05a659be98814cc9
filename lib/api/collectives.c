/*
 * The public collectives and groups.
 */
#include "api/call.h"
#include "core/context.h"
#include "core/driver.h"

tutti_status call_check_context(const tutti *t)
{
    return t != NULL ? TUTTI_OK : error_set(TUTTI_ERR_INVALID, "the context is NULL");
}

tutti_status call_submit(
        tutti *t, const struct submission *submission, tutti_request *request)
{
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    status = submit_check(submission);
    if (status == TUTTI_OK && request == NULL && submission->callback == NULL) {
        status = error_set(TUTTI_ERR_INVALID,
                "\"%s\": request is NULL and there is no callback", submission->name);
    }
    if (status == TUTTI_OK) {
        status = submit_queue(t, submission, request);
    }
    if (status != TUTTI_OK) {
        group_refuse(t, status);
    }
    return status;
}

tutti_status call_blocking(tutti *t, const struct submission *submission)
{
    struct submission alone = *submission;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status = call_check_context(t);

    if (status == TUTTI_OK) {
        status = driver_may_wait(t);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (group_is_open(t)) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": a blocking call inside a group; use the _async form",
                submission->name != NULL ? submission->name : "");
    }
    alone.callback = NULL;
    driver_enter(t);
    status = call_submit(t, &alone, &request);
    if (status == TUTTI_OK) {
        status = call_wait(t, &request, TUTTI_FOREVER);
    }
    driver_leave(t);
    return status;
}

static tutti_status with_options(
        const tutti_options *given, struct submission *submission)
{
    tutti_options options;
    const tutti_status status = submit_options(given, &options);

    if (status != TUTTI_OK) {
        return status;
    }
    submission->set = options.process_set;
    submission->meta.ndim = options.ndim;
    submission->meta.dims = options.ndim > 0 ? options.dims : NULL;
    submission->meta.prescale = options.prescale;
    submission->meta.postscale = options.postscale;
    submission->priority = options.priority;
    submission->callback = options.callback;
    submission->user = options.user;
    return TUTTI_OK;
}

tutti_status tutti_allreduce_async(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options, tutti_request *request)
{
    struct submission s = { .collective = TUTTI_ALLREDUCE,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .op = op },
        .input = input,
        .output = output };
    const tutti_status status = with_options(options, &s);

    return status == TUTTI_OK ? call_submit(t, &s, request) : status;
}

tutti_status tutti_allreduce(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options)
{
    struct submission s = { .collective = TUTTI_ALLREDUCE,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .op = op },
        .input = input,
        .output = output };
    const tutti_status status = with_options(options, &s);

    return status == TUTTI_OK ? call_blocking(t, &s) : status;
}

/* Scales mean nothing for a broadcast and must not make ranks differ. */
static tutti_status describe_broadcast(struct submission *s, const char *name,
        void *buffer, const struct meta *meta, const tutti_options *options)
{
    tutti_status status;

    *s = (struct submission){ .collective = TUTTI_BROADCAST,
        .name = name,
        .meta = *meta,
        .input = buffer,
        .output = buffer };
    status = with_options(options, s);
    s->meta.prescale = 1;
    s->meta.postscale = 1;
    return status;
}

tutti_status tutti_broadcast_async(tutti *t, const char *name, void *buffer,
        int64_t count, tutti_dtype dtype, int root, const tutti_options *options,
        tutti_request *request)
{
    const struct meta meta = { .count = count, .dtype = dtype, .root = root };
    struct submission s;
    const tutti_status status = describe_broadcast(&s, name, buffer, &meta, options);

    return status == TUTTI_OK ? call_submit(t, &s, request) : status;
}

tutti_status tutti_broadcast(tutti *t, const char *name, void *buffer, int64_t count,
        tutti_dtype dtype, int root, const tutti_options *options)
{
    const struct meta meta = { .count = count, .dtype = dtype, .root = root };
    struct submission s;
    const tutti_status status = describe_broadcast(&s, name, buffer, &meta, options);

    return status == TUTTI_OK ? call_blocking(t, &s) : status;
}

static tutti_status describe_barrier(
        struct submission *s, const char *name, const tutti_options *options)
{
    tutti_status status;

    *s = (struct submission){ .collective = TUTTI_BARRIER, .name = name };
    status = with_options(options, s);
    s->meta = (struct meta){ .prescale = 1, .postscale = 1 };
    return status;
}

tutti_status tutti_barrier_async(tutti *t, const char *name,
        const tutti_options *options, tutti_request *request)
{
    struct submission s;
    const tutti_status status = describe_barrier(&s, name, options);

    return status == TUTTI_OK ? call_submit(t, &s, request) : status;
}

tutti_status tutti_barrier(tutti *t, const char *name, const tutti_options *options)
{
    struct submission s;
    const tutti_status status = describe_barrier(&s, name, options);

    return status == TUTTI_OK ? call_blocking(t, &s) : status;
}

tutti_status tutti_group_begin(tutti *t)
{
    const tutti_status status = call_check_context(t);

    return status == TUTTI_OK ? group_begin(t) : status;
}

tutti_status tutti_group_end(tutti *t)
{
    const tutti_status status = call_check_context(t);

    return status == TUTTI_OK ? group_end(t) : status;
}
