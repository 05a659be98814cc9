/*
 * Operations on their way: memory, calls, and the comparison of every bit.
 */
#include "test/suite/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/gpu.h"

/* ------------------------------------------------------------------ memory */

/* A rank that only gives, or only takes, has nothing to do in place. */
static bool is_in_place(const struct flight *f)
{
    const struct operation *o = f->operation;
    const bool rooted = o->collective == TUTTI_GATHER ||
            o->collective == TUTTI_SCATTER || o->collective == TUTTI_REDUCE;

    return o->collective == TUTTI_BROADCAST ||
            (o->in_place && (!rooted || o->root == f->crew->index));
}

/* In place the output is part of the input, or the other way around. */
static bool output_is_inside(const struct operation *o)
{
    return o->collective == TUTTI_REDUCESCATTER || o->collective == TUTTI_SCATTER;
}

/* Where this rank's part lies in the whole: in place the smaller buffer is there. */
static size_t own_offset(const struct operation *o, const struct crew *crew)
{
    size_t bytes = 0;

    for (int i = 0; i < crew->index; i++) {
        if (output_is_inside(o)) {
            bytes += operation_output_bytes(o, crew->size, i);
        } else if (o->collective == TUTTI_ALLGATHER || o->collective == TUTTI_GATHER) {
            bytes += operation_input_bytes(o, crew->size, i);
        }
    }
    return bytes;
}

static bool owns_output(const struct flight *f)
{
    const struct operation *o = f->operation;

    return o->owns_output &&
            (o->collective != TUTTI_GATHER || o->root == f->crew->index);
}

static char *input_of(const struct flight *f)
{
    if (!is_in_place(f)) {
        return f->input.data;
    }
    return (char *)f->output.data + (output_is_inside(f->operation) ? 0 : f->at);
}

static char *output_of(const struct flight *f)
{
    if (!is_in_place(f)) {
        return f->output.data;
    }
    return (char *)f->output.data + (output_is_inside(f->operation) ? f->at : 0);
}

/* Half of what is on a device is written and submitted with a stream. */
static void *choose_stream(void)
{
    return suite_gpu_toss() ? suite_gpu_stream() : NULL;
}

static void make_buffer(const struct flight *f, struct buffer *buffer, size_t bytes)
{
    if (f->operation->is_on_host) {
        buffer_init_on_host(buffer, bytes);
    } else {
        buffer_init(buffer, bytes);
    }
}

static void put_input(const struct flight *f, size_t bytes)
{
    const struct buffer *buffer = is_in_place(f) ? &f->output : &f->input;
    char *filled = must_alloc(bytes, 1);

    operation_fill(f->operation, f->crew->world[f->crew->index], filled, bytes);
    buffer_put(buffer, (size_t)(input_of(f) - (char *)buffer->data), filled, bytes,
            f->stream);
    free(filled);
}

void flight_prepare(
        struct flight *f, const struct operation *o, const struct crew *crew)
{
    const size_t in = operation_input_bytes(o, crew->size, crew->index);
    const size_t out = operation_output_bytes(o, crew->size, crew->index);

    *f = (struct flight){
        .operation = o, .crew = crew, .stream = o->is_on_host ? NULL : choose_stream()
    };
    if (is_in_place(f)) {
        f->at = own_offset(o, crew);
        make_buffer(f, &f->input, 0);
        make_buffer(f, &f->output, in > out ? in : out);
    } else {
        make_buffer(f, &f->input, in);
        make_buffer(f, &f->output, owns_output(f) ? 0 : out);
    }
    put_input(f, in);
}

void flight_fini(struct flight *f)
{
    /* What was not submitted may still be written. */
    if (f->stream != NULL) {
        suite_gpu_synchronize();
    }
    buffer_fini(&f->input);
    buffer_fini(&f->output);
}

/* ------------------------------------------------------------------- calls */

/** The arguments of a call beside the buffers. */
struct arguments {
    tutti_options options;
    int64_t dims[2];
    int64_t rows;
    int64_t *lists; /* [2 size] owned                       */
    const int64_t *rows_of; /* into lists, or NULL; send_rows       */
    const int64_t *recv_rows; /* likewise                             */
    void *output;
};

static void make_lists(const struct flight *f, struct arguments *a)
{
    const struct operation *o = f->operation;
    const int size = f->crew->size;
    const int me = f->crew->index;

    a->lists = must_alloc(2 * (size_t)size, sizeof *a->lists);
    for (int i = 0; i < size; i++) {
        const bool comes =
                o->collective == TUTTI_ALLGATHER || o->collective == TUTTI_GATHER;

        a->lists[i] = comes ? operation_part_rows(o, size, i, me)
                            : operation_part_rows(o, size, me, i);
        a->lists[size + i] = operation_part_rows(o, size, i, me);
    }
    if (o->form == FORM_LISTED ||
            (o->form == FORM_UNKNOWN && o->collective != TUTTI_ALLGATHER)) {
        a->rows_of = a->lists;
    }
    if (o->form == FORM_LISTED && o->collective == TUTTI_ALLTOALL) {
        a->recv_rows = a->lists + size;
    }
}

static int64_t rows_argument(const struct flight *f)
{
    const struct operation *o = f->operation;
    const int me = f->crew->index;
    const size_t bytes = (size_t)o->row_count * tutti_dtype_size(o->pattern.dtype);

    return (int64_t)((o->collective == TUTTI_SCATTER
                                     ? operation_output_bytes(o, f->crew->size, me)
                                     : operation_input_bytes(o, f->crew->size, me)) /
            bytes);
}

static void make_arguments(const struct flight *f, struct arguments *a)
{
    const struct operation *o = f->operation;

    *a = (struct arguments){ .output = owns_output(f) ? NULL : output_of(f) };
    tutti_options_default(&a->options);
    a->options.process_set = f->crew->set;
    a->options.stream = f->stream;
    a->options.step = o->step > 0 ? o->step : TUTTI_NO_STEP;
    if (operation_reduces(o)) {
        a->options.prescale = o->scales.pre;
        a->options.postscale = o->scales.post;
    }
    if (operation_has_rows(o)) {
        a->rows = rows_argument(f);
        make_lists(f, a);
    }
    if (o->is_shaped) {
        a->options.ndim = 2;
        a->options.dims = a->dims;
        a->dims[0] = operation_has_rows(o) ? a->rows : o->count / o->row_count;
        a->dims[1] = o->row_count;
    }
}

/* What was copied may be overwritten. */
static void spoil_arguments(const struct flight *f, struct arguments *a)
{
    if (a->lists != NULL) {
        memset(a->lists, 0x5a, 2 * (size_t)f->crew->size * sizeof *a->lists);
    }
    memset(a->dims, 0x5a, sizeof a->dims);
    free(a->lists);
}

static tutti_status call(
        tutti *t, struct flight *f, const char *name, const struct arguments *a)
{
    const struct operation *o = f->operation;
    const tutti_dtype dtype = o->pattern.dtype;
    const tutti_reduce_op op = o->pattern.op;
    const void *input = input_of(f);

    switch ((int)o->collective) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce_async(t, name, input, a->output, o->count, dtype, op,
                &a->options, &f->request);
    case TUTTI_BROADCAST:
        return tutti_broadcast_async(
                t, name, a->output, o->count, dtype, o->root, &a->options, &f->request);
    case TUTTI_REDUCE:
        return tutti_reduce_async(t, name, input, a->output, o->count, dtype, op,
                o->root, &a->options, &f->request);
    case TUTTI_REDUCESCATTER:
        return tutti_reducescatter_async(t, name, input, a->output, a->rows,
                o->row_count, a->rows_of, dtype, op, &a->options, &f->request);
    case TUTTI_ALLGATHER:
        return tutti_allgather_async(t, name, input, a->output, a->rows, o->row_count,
                a->rows_of, dtype, &a->options, &f->request);
    case TUTTI_ALLTOALL:
        return tutti_alltoall_async(t, name, input, a->output, a->rows, o->row_count,
                a->rows_of, a->recv_rows, dtype, &a->options, &f->request);
    case TUTTI_GATHER:
        return tutti_gather_async(t, name, input, a->output, a->rows, o->row_count,
                a->rows_of, dtype, o->root, &a->options, &f->request);
    default:
        return tutti_scatter_async(t, name, input, a->output, a->rows, o->row_count,
                a->rows_of, dtype, o->root, &a->options, &f->request);
    }
}

tutti_status flight_submit(tutti *t, struct flight *f, const char *name)
{
    struct arguments arguments;
    tutti_status status;

    make_arguments(f, &arguments);
    status = call(t, f, name, &arguments);
    spoil_arguments(f, &arguments);
    return status;
}

tutti_status flight_register(
        tutti *t, const struct flight *f, const char *name, tutti_tensor *tensor)
{
    const struct operation *o = f->operation;
    struct arguments arguments;
    tutti_tensor_desc desc;
    tutti_status status;

    make_arguments(f, &arguments);
    desc = (tutti_tensor_desc){ .size = sizeof desc,
        .name = name,
        .collective = o->collective,
        .count = operation_has_rows(o) ? arguments.rows : o->count,
        .dtype = o->pattern.dtype,
        .op = o->pattern.op,
        .root = o->root,
        .options = &arguments.options,
        .row_count = o->row_count,
        .rows_of = arguments.rows_of,
        .recv_rows = arguments.recv_rows,
        .owns_output = owns_output(f) };
    status = tutti_tensor_register(t, &desc, tensor);
    spoil_arguments(f, &arguments);
    return status;
}

tutti_status flight_submit_registered(tutti *t, struct flight *f, tutti_tensor tensor)
{
    return tutti_submit(t, tensor, input_of(f), owns_output(f) ? NULL : output_of(f),
            TUTTI_NO_STEP, NULL, NULL, &f->request);
}

void flight_begin(tutti *t, struct checks *c, struct flight *f,
        const struct operation *o, const struct crew *crew, const char *name)
{
    flight_prepare(f, o, crew);
    EXPECT_OK(c, flight_submit(t, f, name));
}

/* --------------------------------------------------------------- comparison */

/* The lists of who sent how much. */
static bool rows_are_right(const struct flight *f, const int64_t *rows_of)
{
    const struct operation *o = f->operation;

    for (int i = 0; i < f->crew->size; i++) {
        const bool sends = o->collective != TUTTI_SCATTER || i == o->root;

        if (rows_of[i] !=
                (sends ? operation_part_rows(o, f->crew->size, i, f->crew->index)
                       : 0)) {
            return false;
        }
    }
    return true;
}

static void take_owned(tutti *t, struct checks *c, struct flight *f,
        const void *expected, size_t bytes)
{
    int64_t *rows_of = must_alloc((size_t)f->crew->size, sizeof *rows_of);
    void *output = NULL;

    if (EXPECT_OK(c,
                tutti_request_take_output(
                        t, &f->request, &output, rows_of, TUTTI_FOREVER))) {
        if (f->input.on_device) {
            suite_gpu_see(output, bytes);
        }
        EXPECT(c, output != NULL && memcmp(output, expected, bytes) == 0);
        EXPECT(c, rows_are_right(f, rows_of));
        EXPECT_OK(c, tutti_free(t, output));
    }
    free(rows_of);
}

/* In place: what lies around the output, which only the input may have put there. */
static bool rest_is_intact(const struct flight *f, size_t bytes)
{
    const struct operation *o = f->operation;
    const size_t all = f->output.bytes;
    char *filled = must_alloc(all, 1);
    bool intact = true;

    if (output_is_inside(o)) {
        operation_fill(o, f->crew->world[f->crew->index], filled, all);
        intact = memcmp(f->output.data, filled, f->at) == 0 &&
                memcmp((char *)f->output.data + f->at + bytes, filled + f->at + bytes,
                        all - f->at - bytes) == 0;
    }
    free(filled);
    return intact;
}

static bool input_is_intact(const struct flight *f)
{
    char *filled = must_alloc(f->input.bytes, 1);
    bool intact;

    operation_fill(
            f->operation, f->crew->world[f->crew->index], filled, f->input.bytes);
    intact = memcmp(filled, f->input.data, f->input.bytes) == 0;
    free(filled);
    return intact;
}

static void check_memory(struct checks *c, const struct flight *f, size_t bytes)
{
    /* The parts of those who have joined are left out: perhaps nothing was read. */
    if (f->stream != NULL && f->crew->absent != NULL &&
            f->operation->collective == TUTTI_REDUCESCATTER) {
        suite_gpu_synchronize();
    }
    EXPECT(c, buffer_is_intact(&f->input) && buffer_is_intact(&f->output));
    EXPECT(c, is_in_place(f) ? rest_is_intact(f, bytes) : input_is_intact(f));
}

void flight_end(tutti *t, struct checks *c, struct flight *f)
{
    const struct crew *crew = f->crew;
    const size_t bytes = operation_output_bytes(f->operation, crew->size, crew->index);
    char *expected = must_alloc(bytes, 1);
    char text[160];

    operation_expect(f->operation, crew, NULL, expected);
    EXPECT_OK(c,
            owns_output(f) ? tutti_wait(t, &f->request, TUTTI_FOREVER)
                           : suite_gpu_wait(t, &f->request));
    if (owns_output(f)) {
        take_owned(t, c, f, expected, bytes);
    } else if (!EXPECT(c, bytes == 0 || memcmp(output_of(f), expected, bytes) == 0)) {
        operation_describe(f->operation, text, sizeof text);
        (void)fprintf(stderr, "wrong: %s\n", text);
    }
    check_memory(c, f, bytes);
    flight_fini(f);
    free(expected);
}

void flight_fail(tutti *t, struct checks *c, struct flight *f, tutti_status want)
{
    struct flight before;

    EXPECT_STATUS(c, want, tutti_wait(t, &f->request, TUTTI_FOREVER));
    EXPECT(c, f->request == TUTTI_REQUEST_NULL);
    flight_prepare(&before, f->operation, f->crew);
    if (suite_gpu_is_entered()) {
        suite_gpu_synchronize(); /* nothing else says when the inputs are written */
    }
    EXPECT(c, memcmp(before.input.data, f->input.data, f->input.bytes) == 0);
    EXPECT(c, memcmp(before.output.data, f->output.data, f->output.bytes) == 0);
    EXPECT(c, buffer_is_intact(&f->input) && buffer_is_intact(&f->output));
    flight_fini(&before);
    flight_fini(f);
}

struct crew crew_of_world(const struct checks *c, int *ranks)
{
    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    return (struct crew){
        .set = TUTTI_WORLD, .world = ranks, .size = c->size, .index = c->rank
    };
}

void operations_run(
        tutti *t, struct checks *c, const struct operation *operations, size_t count)
{
    struct flight *flights = must_alloc(count, sizeof *flights);
    int *ranks = must_alloc((size_t)c->size, sizeof *ranks);
    const struct crew world = crew_of_world(c, ranks);
    char name[160];

    for (size_t i = 0; i < count; i++) {
        operation_describe(&operations[i], name, sizeof name);
        flight_begin(t, c, &flights[i], &operations[i], &world, name);
    }
    for (size_t i = 0; i < count; i++) {
        flight_end(t, c, &flights[i]);
    }
    free(ranks);
    free(flights);
}
