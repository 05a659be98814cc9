/*
 * The public collectives and groups.
 */
#include "api/call.h"
#include "run/check.h"
#include "run/context.h"
#include "run/driver.h"

/* Checks and queues; a refusal is remembered by the thread's open group. */
static tutti_status submit(
        tutti *t, const struct submission *submission, tutti_request *request)
{
    tutti_status status = check_call(submission);

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

/* Submits and waits. */
static tutti_status submit_and_wait(tutti *t, const struct submission *submission)
{
    struct submission alone = *submission;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status = context_may_wait(t);

    if (status == TUTTI_OK && group_is_open(t)) {
        status = error_set(TUTTI_ERR_INVALID,
                "\"%s\": a blocking call inside a group (rank %d); %s",
                submission->name != NULL ? submission->name : "", t->rank,
                submission->collective == META_JOIN ? "end the group first"
                                                    : "use the _async form");
    }
    if (status != TUTTI_OK) {
        group_refuse(t, status);
        return status;
    }
    alone.callback = NULL;
    driver_enter(t);
    status = submit(t, &alone, &request);
    if (status == TUTTI_OK) {
        status = call_wait(t, &request, TUTTI_FOREVER);
    }
    driver_leave(t);
    return status;
}

/*
 * What every call below does with what it was asked for: adds the options, and submits it
 * or runs it to its end.
 */
struct request_or_wait {
    tutti_request *request; /* not used by a blocking call */
    bool blocks;
};

/* Scales mean nothing where nothing is reduced, and must not make ranks differ. */
static tutti_status add_options(
        const tutti_options *given, struct submission *submission)
{
    const bool scales = meta_reduces(submission->collective);
    tutti_options options;
    const tutti_status status = submit_options(given, &options);

    if (status != TUTTI_OK) {
        return status;
    }
    submission->set = options.process_set;
    if (submission->collective != META_JOIN) {
        submission->step = meta_step(options.step);
    }
    if (submission->collective != TUTTI_BARRIER &&
            submission->collective != META_JOIN) {
        submission->meta.ndim = options.ndim;
        submission->meta.dims = options.ndim > 0 ? options.dims : NULL;
    }
    submission->meta.prescale = scales ? options.prescale : 1;
    submission->meta.postscale = scales ? options.postscale : 1;
    submission->priority = options.priority;
    submission->callback = options.callback;
    submission->user = options.user;
    submission->stream = options.stream;
    return TUTTI_OK;
}

static tutti_status run(tutti *t, struct submission *submission,
        const tutti_options *options, struct request_or_wait how)
{
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    status = add_options(options, submission);
    if (status != TUTTI_OK) {
        group_refuse(t, status);
        return status;
    }
    if (!how.blocks) {
        return submit(t, submission, how.request);
    }
    return submit_and_wait(t, submission);
}

static const struct request_or_wait blocking = { .blocks = true };

static struct request_or_wait into(tutti_request *request)
{
    return (struct request_or_wait){ .request = request };
}

/*
 * As many arguments as their counterparts in MPI, and options.
 * NOLINTBEGIN(readability-function-size)
 */

/* -------------------------------------------------------------- whole tensors */

static struct submission allreduce_of(const char *name, const void *input, void *output,
        int64_t count, tutti_dtype dtype, tutti_reduce_op op)
{
    return (struct submission){ .collective = TUTTI_ALLREDUCE,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .op = op },
        .input = input,
        .output = output };
}

tutti_status tutti_allreduce_async(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options, tutti_request *request)
{
    struct submission s = allreduce_of(name, input, output, count, dtype, op);

    return run(t, &s, options, into(request));
}

tutti_status tutti_allreduce(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options)
{
    struct submission s = allreduce_of(name, input, output, count, dtype, op);

    return run(t, &s, options, blocking);
}

static struct submission broadcast_of(
        const char *name, void *buffer, int64_t count, tutti_dtype dtype, int root)
{
    return (struct submission){ .collective = TUTTI_BROADCAST,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .root = root },
        .input = buffer,
        .output = buffer };
}

tutti_status tutti_broadcast_async(tutti *t, const char *name, void *buffer,
        int64_t count, tutti_dtype dtype, int root, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = broadcast_of(name, buffer, count, dtype, root);

    return run(t, &s, options, into(request));
}

tutti_status tutti_broadcast(tutti *t, const char *name, void *buffer, int64_t count,
        tutti_dtype dtype, int root, const tutti_options *options)
{
    struct submission s = broadcast_of(name, buffer, count, dtype, root);

    return run(t, &s, options, blocking);
}

static struct submission reduce_of(const char *name, const void *input, void *output,
        int64_t count, tutti_dtype dtype, tutti_reduce_op op, int root)
{
    return (struct submission){ .collective = TUTTI_REDUCE,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .op = op, .root = root },
        .input = input,
        .output = output };
}

tutti_status tutti_reduce_async(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op, int root,
        const tutti_options *options, tutti_request *request)
{
    struct submission s = reduce_of(name, input, output, count, dtype, op, root);

    return run(t, &s, options, into(request));
}

tutti_status tutti_reduce(tutti *t, const char *name, const void *input, void *output,
        int64_t count, tutti_dtype dtype, tutti_reduce_op op, int root,
        const tutti_options *options)
{
    struct submission s = reduce_of(name, input, output, count, dtype, op, root);

    return run(t, &s, options, blocking);
}

/* ----------------------------------------------------------------------- rows */

static struct submission reducescatter_of(const char *name, const void *input,
        void *output, int64_t row_count, tutti_dtype dtype, tutti_reduce_op op,
        const struct rows *rows)
{
    return (struct submission){ .collective = TUTTI_REDUCESCATTER,
        .name = name,
        .meta = { .row_count = row_count, .dtype = dtype, .op = op },
        .rows = *rows,
        .input = input,
        .output = output };
}

tutti_status tutti_reducescatter_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, tutti_reduce_op op, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = reducescatter_of(name, input, output, row_count, dtype, op,
            &(struct rows){ .rows = rows, .rows_of = rows_of });

    return run(t, &s, options, into(request));
}

tutti_status tutti_reducescatter(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, tutti_reduce_op op, const tutti_options *options)
{
    struct submission s = reducescatter_of(name, input, output, row_count, dtype, op,
            &(struct rows){ .rows = rows, .rows_of = rows_of });

    return run(t, &s, options, blocking);
}

/* An exchange: what is moved, and from and to where. */
static struct submission exchange_of(tutti_collective collective, const char *name,
        const void *input, void *output, int64_t row_count, tutti_dtype dtype, int root,
        const struct rows *rows)
{
    return (struct submission){ .collective = (int)collective,
        .name = name,
        .meta = { .row_count = row_count, .dtype = dtype, .root = root },
        .rows = *rows,
        .input = input,
        .output = output };
}

tutti_status tutti_allgather_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, const tutti_options *options, tutti_request *request)
{
    struct submission s = exchange_of(TUTTI_ALLGATHER, name, input, output, row_count,
            dtype, 0,
            &(struct rows){
                    .rows = rows, .rows_of = rows_of, .owns_output = output == NULL });

    return run(t, &s, options, into(request));
}

tutti_status tutti_allgather(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, const tutti_options *options)
{
    struct submission s = exchange_of(TUTTI_ALLGATHER, name, input, output, row_count,
            dtype, 0, &(struct rows){ .rows = rows, .rows_of = rows_of });

    return run(t, &s, options, blocking);
}

tutti_status tutti_alltoall_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *send_rows,
        const int64_t *recv_rows, tutti_dtype dtype, const tutti_options *options,
        tutti_request *request)
{
    struct submission s =
            exchange_of(TUTTI_ALLTOALL, name, input, output, row_count, dtype, 0,
                    &(struct rows){ .rows = rows,
                            .rows_of = send_rows,
                            .recv_rows = recv_rows,
                            .owns_output = output == NULL });

    return run(t, &s, options, into(request));
}

tutti_status tutti_alltoall(tutti *t, const char *name, const void *input, void *output,
        int64_t rows, int64_t row_count, const int64_t *send_rows,
        const int64_t *recv_rows, tutti_dtype dtype, const tutti_options *options)
{
    struct submission s = exchange_of(TUTTI_ALLTOALL, name, input, output, row_count,
            dtype, 0,
            &(struct rows){
                    .rows = rows, .rows_of = send_rows, .recv_rows = recv_rows });

    return run(t, &s, options, blocking);
}

tutti_status tutti_gather_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, int root, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = exchange_of(TUTTI_GATHER, name, input, output, row_count,
            dtype, root,
            &(struct rows){
                    .rows = rows, .rows_of = rows_of, .owns_output = output == NULL });

    return run(t, &s, options, into(request));
}

tutti_status tutti_gather(tutti *t, const char *name, const void *input, void *output,
        int64_t rows, int64_t row_count, const int64_t *rows_of, tutti_dtype dtype,
        int root, const tutti_options *options)
{
    struct submission s = exchange_of(TUTTI_GATHER, name, input, output, row_count,
            dtype, root, &(struct rows){ .rows = rows, .rows_of = rows_of });

    return run(t, &s, options, blocking);
}

tutti_status tutti_scatter_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, int root, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = exchange_of(TUTTI_SCATTER, name, input, output, row_count,
            dtype, root,
            &(struct rows){
                    .rows = rows, .rows_of = rows_of, .owns_output = output == NULL });

    return run(t, &s, options, into(request));
}

tutti_status tutti_scatter(tutti *t, const char *name, const void *input, void *output,
        int64_t rows, int64_t row_count, const int64_t *rows_of, tutti_dtype dtype,
        int root, const tutti_options *options)
{
    struct submission s = exchange_of(TUTTI_SCATTER, name, input, output, row_count,
            dtype, root, &(struct rows){ .rows = rows, .rows_of = rows_of });

    return run(t, &s, options, blocking);
}

/* NOLINTEND(readability-function-size) */

/* ----------------------------------------------------------- without a tensor */

tutti_status tutti_barrier_async(tutti *t, const char *name,
        const tutti_options *options, tutti_request *request)
{
    struct submission s = { .collective = TUTTI_BARRIER, .name = name };

    return run(t, &s, options, into(request));
}

tutti_status tutti_barrier(tutti *t, const char *name, const tutti_options *options)
{
    struct submission s = { .collective = TUTTI_BARRIER, .name = name };

    return run(t, &s, options, blocking);
}

static struct submission join_of(int *last)
{
    return (struct submission){
        .collective = META_JOIN, .name = "join", .output = last
    };
}

tutti_status tutti_join_async(
        tutti *t, const tutti_options *options, int *last, tutti_request *request)
{
    struct submission s = join_of(last);

    return run(t, &s, options, into(request));
}

tutti_status tutti_join(tutti *t, const tutti_options *options, int *last)
{
    struct submission s = join_of(last);

    return run(t, &s, options, blocking);
}

/* --------------------------------------------------------------------- groups */

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
