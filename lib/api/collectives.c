/*
 * The public collectives and groups.
 */
#include "api/call.h"
#include "run/check.h"
#include "run/context.h"
#include "run/driver.h"

/* Checks and queues; a refusal is remembered by the thread's open group. */
static tutti_status submit(
        tutti *t, struct submission *submission, tutti_request *request)
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

/* Submits and waits; as one of the engine's drivers from the start. */
static tutti_status submit_and_wait(tutti *t, const struct submission *submission)
{
    struct submission alone = *submission;
    tutti_request request = TUTTI_REQUEST_NULL;
    tutti_status status = context_may_wait(t);

    if (status == TUTTI_OK && groups_are_open(&t->work.groups) && group_is_open(t)) {
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

tutti_status call_take_options(
        const tutti_options *options, struct submission *submission)
{
    const int collective = submission->collective;
    const bool scales = meta_reduces(collective);
    tutti_options older;
    const tutti_status status = submit_options(&options, &older);

    if (status != TUTTI_OK) {
        return status;
    }
    submission->set = options->process_set;
    if (collective != META_JOIN) {
        submission->step = meta_step(options->step);
    }
    if (collective != TUTTI_BARRIER && collective != META_JOIN) {
        submission->meta.ndim = options->ndim;
        submission->meta.dims = options->ndim > 0 ? options->dims : NULL;
    }
    submission->meta.prescale = scales ? options->prescale : 1;
    submission->meta.postscale = scales ? options->postscale : 1;
    submission->priority = options->priority;
    submission->callback = options->callback;
    submission->user = options->user;
    submission->stream = options->stream;
    return TUTTI_OK;
}

/*
 * The request of a blocking call, which is its _async form run to the end. Only its address
 * counts.
 */
static tutti_request until_done;

/* What every call below does with what it was asked for. */
static tutti_status run(tutti *t, struct submission *submission,
        const tutti_options *options, tutti_request *request)
{
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    status = call_take_options(options, submission);
    if (status != TUTTI_OK) {
        group_refuse(t, status);
        return status;
    }
    if (request == &until_done) {
        return submit_and_wait(t, submission);
    }
    submission->rows.owns_output = submission->output == NULL &&
            op_is_exchange((tutti_collective)submission->collective);
    return submit(t, submission, request);
}

/*
 * As many arguments as their counterparts in MPI, and options.
 * NOLINTBEGIN(readability-function-size)
 */

tutti_status tutti_allreduce_async(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options, tutti_request *request)
{
    struct submission s = { .collective = TUTTI_ALLREDUCE,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .op = op },
        .input = input,
        .output = output };

    return run(t, &s, options, request);
}

tutti_status tutti_allreduce(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op,
        const tutti_options *options)
{
    return tutti_allreduce_async(
            t, name, input, output, count, dtype, op, options, &until_done);
}

tutti_status tutti_broadcast_async(tutti *t, const char *name, void *buffer,
        int64_t count, tutti_dtype dtype, int root, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = { .collective = TUTTI_BROADCAST,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .root = root },
        .input = buffer,
        .output = buffer };

    return run(t, &s, options, request);
}

tutti_status tutti_broadcast(tutti *t, const char *name, void *buffer, int64_t count,
        tutti_dtype dtype, int root, const tutti_options *options)
{
    return tutti_broadcast_async(
            t, name, buffer, count, dtype, root, options, &until_done);
}

tutti_status tutti_reduce_async(tutti *t, const char *name, const void *input,
        void *output, int64_t count, tutti_dtype dtype, tutti_reduce_op op, int root,
        const tutti_options *options, tutti_request *request)
{
    struct submission s = { .collective = TUTTI_REDUCE,
        .name = name,
        .meta = { .count = count, .dtype = dtype, .op = op, .root = root },
        .input = input,
        .output = output };

    return run(t, &s, options, request);
}

tutti_status tutti_reduce(tutti *t, const char *name, const void *input, void *output,
        int64_t count, tutti_dtype dtype, tutti_reduce_op op, int root,
        const tutti_options *options)
{
    return tutti_reduce_async(
            t, name, input, output, count, dtype, op, root, options, &until_done);
}

tutti_status tutti_reducescatter_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, tutti_reduce_op op, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = { .collective = TUTTI_REDUCESCATTER,
        .name = name,
        .meta = { .row_count = row_count, .dtype = dtype, .op = op },
        .rows = { .rows = rows, .rows_of = rows_of },
        .input = input,
        .output = output };

    return run(t, &s, options, request);
}

tutti_status tutti_reducescatter(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, tutti_reduce_op op, const tutti_options *options)
{
    return tutti_reducescatter_async(t, name, input, output, rows, row_count, rows_of,
            dtype, op, options, &until_done);
}

tutti_status tutti_allgather_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, const tutti_options *options, tutti_request *request)
{
    struct submission s = { .collective = TUTTI_ALLGATHER,
        .name = name,
        .meta = { .row_count = row_count, .dtype = dtype },
        .rows = { .rows = rows, .rows_of = rows_of },
        .input = input,
        .output = output };

    return run(t, &s, options, request);
}

tutti_status tutti_allgather(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, const tutti_options *options)
{
    return tutti_allgather_async(t, name, input, output, rows, row_count, rows_of,
            dtype, options, &until_done);
}

tutti_status tutti_alltoall_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *send_rows,
        const int64_t *recv_rows, tutti_dtype dtype, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = { .collective = TUTTI_ALLTOALL,
        .name = name,
        .meta = { .row_count = row_count, .dtype = dtype },
        .rows = { .rows = rows, .rows_of = send_rows, .recv_rows = recv_rows },
        .input = input,
        .output = output };

    return run(t, &s, options, request);
}

tutti_status tutti_alltoall(tutti *t, const char *name, const void *input, void *output,
        int64_t rows, int64_t row_count, const int64_t *send_rows,
        const int64_t *recv_rows, tutti_dtype dtype, const tutti_options *options)
{
    return tutti_alltoall_async(t, name, input, output, rows, row_count, send_rows,
            recv_rows, dtype, options, &until_done);
}

tutti_status tutti_gather_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, int root, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = { .collective = TUTTI_GATHER,
        .name = name,
        .meta = { .row_count = row_count, .dtype = dtype, .root = root },
        .rows = { .rows = rows, .rows_of = rows_of },
        .input = input,
        .output = output };

    return run(t, &s, options, request);
}

tutti_status tutti_gather(tutti *t, const char *name, const void *input, void *output,
        int64_t rows, int64_t row_count, const int64_t *rows_of, tutti_dtype dtype,
        int root, const tutti_options *options)
{
    return tutti_gather_async(t, name, input, output, rows, row_count, rows_of, dtype,
            root, options, &until_done);
}

tutti_status tutti_scatter_async(tutti *t, const char *name, const void *input,
        void *output, int64_t rows, int64_t row_count, const int64_t *rows_of,
        tutti_dtype dtype, int root, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = { .collective = TUTTI_SCATTER,
        .name = name,
        .meta = { .row_count = row_count, .dtype = dtype, .root = root },
        .rows = { .rows = rows, .rows_of = rows_of },
        .input = input,
        .output = output };

    return run(t, &s, options, request);
}

tutti_status tutti_scatter(tutti *t, const char *name, const void *input, void *output,
        int64_t rows, int64_t row_count, const int64_t *rows_of, tutti_dtype dtype,
        int root, const tutti_options *options)
{
    return tutti_scatter_async(t, name, input, output, rows, row_count, rows_of, dtype,
            root, options, &until_done);
}

/* A message is a broadcast of the sender, whose memory is only read. */
static struct submission message(
        const char *name, void *buffer, int64_t count, tutti_dtype dtype, int peer)
{
    return (struct submission){ .collective = TUTTI_MESSAGE,
        .name = name,
        .meta = { .count = count, .dtype = dtype },
        .peer = peer,
        .input = buffer,
        .output = buffer };
}

tutti_status tutti_send_async(tutti *t, const char *name, const void *buffer,
        int64_t count, tutti_dtype dtype, int peer, const tutti_options *options,
        tutti_request *request)
{
    const union {
        const void *read;
        void *any;
    } memory = { .read = buffer };
    struct submission s = message(name, memory.any, count, dtype, peer);

    s.sends = true;
    return run(t, &s, options, request);
}

tutti_status tutti_send(tutti *t, const char *name, const void *buffer, int64_t count,
        tutti_dtype dtype, int peer, const tutti_options *options)
{
    return tutti_send_async(t, name, buffer, count, dtype, peer, options, &until_done);
}

tutti_status tutti_recv_async(tutti *t, const char *name, void *buffer, int64_t count,
        tutti_dtype dtype, int peer, const tutti_options *options,
        tutti_request *request)
{
    struct submission s = message(name, buffer, count, dtype, peer);

    return run(t, &s, options, request);
}

tutti_status tutti_recv(tutti *t, const char *name, void *buffer, int64_t count,
        tutti_dtype dtype, int peer, const tutti_options *options)
{
    return tutti_recv_async(t, name, buffer, count, dtype, peer, options, &until_done);
}

/* NOLINTEND(readability-function-size) */

tutti_status tutti_barrier_async(tutti *t, const char *name,
        const tutti_options *options, tutti_request *request)
{
    struct submission s = { .collective = TUTTI_BARRIER, .name = name };

    return run(t, &s, options, request);
}

tutti_status tutti_barrier(tutti *t, const char *name, const tutti_options *options)
{
    return tutti_barrier_async(t, name, options, &until_done);
}

tutti_status tutti_join_async(
        tutti *t, const tutti_options *options, int *last, tutti_request *request)
{
    struct submission s = { .collective = META_JOIN, .name = "join" };

    s.output = last;
    return run(t, &s, options, request);
}

tutti_status tutti_join(tutti *t, const tutti_options *options, int *last)
{
    return tutti_join_async(t, options, last, &until_done);
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
