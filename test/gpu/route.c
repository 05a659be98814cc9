#include "test/gpu/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/gpusim_test.h"
#include "test/suite/pattern.h"
#include "test/suite/reference.h"

/** Bytes of an element of the largest type, and of every row. */
#define UNIT ((size_t)8)

/** Where there is one. */
#define ROOT 1

/* Units of a tensor or rows of a part; at most, where parts are listed. */
static const int64_t counts[ROUTE_TENSORS] = { 36, 300, 12 };

static struct crew crew_of(const struct route_rank *r)
{
    return (struct crew){
        .set = TUTTI_WORLD, .world = r->world, .size = r->size, .index = r->rank
    };
}

/* Nobody gives or gets nothing: that is another way, and has tests of its own. */
static bool has_empty_part(const struct operation *o, int size)
{
    for (int i = 0; i < size * size; i++) {
        if (operation_part_rows(o, size, i / size, i % size) == 0) {
            return true;
        }
    }
    return false;
}

static struct operation operation_of(const struct route_kind *kind, int size,
        int tensor, tutti_dtype dtype, tutti_reduce_op op)
{
    struct operation o = { .collective = kind->collective,
        .pattern = { .dtype = dtype, .op = op, .salt = (uint32_t)tensor },
        .scales = { 1, 1 },
        .root = ROOT,
        .count = counts[tensor],
        .row_count = 1,
        .form = kind->form };
    const int64_t elements = (int64_t)(UNIT / tutti_dtype_size(dtype));

    if (!operation_has_rows(&o)) {
        o.count *= elements;
        return o;
    }
    o.row_count = elements;
    o.owns_output = kind->form == FORM_UNKNOWN;
    if (kind->collective == TUTTI_REDUCESCATTER && kind->form == FORM_EQUAL) {
        o.count = o.count * size + (kind->is_uneven ? 1 : 0);
    }
    while (has_empty_part(&o, size)) {
        o.pattern.salt += ROUTE_TENSORS;
    }
    return o;
}

/* ----------------------------------------------------------------------- memory */

static unsigned char *take(const struct route_rank *r, enum route_placing placing,
        size_t bytes, size_t shift)
{
    const size_t apart = placing == ROUTE_FUSED ? 8 * (2 * shift + 1) : 0;
    void *memory = NULL;

    if (bytes == 0) {
        return NULL;
    }
    if (tutti_alloc(r->t, bytes + 2 * apart, TUTTI_DEVICE, &memory) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        abort();
    }
    return (unsigned char *)memory + apart;
}

static bool is_in_place(const struct route_place *place)
{
    const tutti_collective collective = place->kind->collective;

    return collective == TUTTI_BROADCAST ||
            (place->placing != ROUTE_SINGLE &&
                    (collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCE));
}

bool route_has_output(const struct route_rank *r, const struct route_kind *kind)
{
    return (kind->collective != TUTTI_REDUCE && kind->collective != TUTTI_GATHER) ||
            r->rank == ROOT;
}

void route_place(const struct route_rank *r, const struct route_kind *kind,
        enum route_placing placing, struct route_place *place)
{
    *place = (struct route_place){ .kind = kind,
        .placing = placing,
        .tensors = placing == ROUTE_SINGLE ? 1 : ROUTE_TENSORS };
    for (int i = 0; i < place->tensors; i++) {
        const struct operation o =
                operation_of(kind, r->size, i, TUTTI_UINT8, TUTTI_SUM);

        place->inputs[i] = take(
                r, placing, operation_input_bytes(&o, r->size, r->rank), (size_t)i);
    }
    for (int i = 0; i < place->tensors && kind->form != FORM_UNKNOWN; i++) {
        const struct operation o =
                operation_of(kind, r->size, i, TUTTI_UINT8, TUTTI_SUM);

        if (is_in_place(place)) {
            place->outputs[i] = route_has_output(r, kind) ? place->inputs[i] : NULL;
        } else {
            place->outputs[i] = take(r, placing,
                    operation_output_bytes(&o, r->size, r->rank), (size_t)i + 1);
        }
    }
}

/* --------------------------------------------------------------------- contents */

void route_make(const struct route_rank *r, const struct route_place *place,
        tutti_dtype dtype, tutti_reduce_op op, struct route *route)
{
    static const char *const placings[ROUTE_PLACINGS] = { "single", "fused", "arena" };

    *route = (struct route){ .place = place };
    for (int i = 0; i < place->tensors; i++) {
        route->operations[i] = operation_of(place->kind, r->size, i, dtype, op);
        (void)snprintf(route->names[i], sizeof route->names[i], "%s %s %s, %s, %d",
                place->kind->name,
                operation_reduces(&route->operations[i]) ? tutti_reduce_name(op) : "of",
                tutti_dtype_name(dtype), placings[place->placing], i);
    }
}

/*
 * Of a reduction small whole numbers, whose sums, products and averages are exact or rounded
 * once, whatever the order; else any bytes. Other ones on each rank, for each tensor and in
 * each iteration.
 */
static void contents(const struct route *route, int tensor, int rank,
        unsigned char *data, size_t bytes)
{
    const struct operation *o = &route->operations[tensor];
    const tutti_dtype dtype = o->pattern.dtype;
    const size_t element = tutti_dtype_size(dtype);

    for (size_t i = 0; i < bytes && !operation_reduces(o); i++) {
        data[i] = (unsigned char)pattern_mix(
                route->salt * 16 + (uint64_t)tensor * 4 + (uint64_t)rank, i);
    }
    for (size_t i = 0; i < bytes / element && operation_reduces(o); i++) {
        const uint64_t mixed = i + 3 * (uint64_t)tensor + route->salt;
        const int64_t small = (int64_t)(mixed % 5) - 2 + rank;
        const int64_t value = dtype == TUTTI_BOOL ? small > 0 : small;

        if (dtype_is_real(dtype)) {
            reference_store_real(dtype, (double)value, data + i * element);
        } else {
            memcpy(data + i * element, &value, element); /* little-endian */
        }
    }
}

static void write_to(unsigned char *memory, const void *from, size_t bytes)
{
    if (bytes > 0 && !gpusim_write((uint64_t)(uintptr_t)memory, from, bytes)) {
        abort();
    }
}

void route_fill(const struct route_rank *r, struct route *route, uint32_t salt)
{
    route->salt = salt;
    for (int i = 0; i < route->place->tensors; i++) {
        const struct operation *o = &route->operations[i];
        const size_t in = operation_input_bytes(o, r->size, r->rank);
        const size_t out = operation_output_bytes(o, r->size, r->rank);
        unsigned char *data = must_alloc(in + out, 1);

        if (route->place->outputs[i] != NULL) {
            memset(data, 0xa5, out);
            write_to(route->place->outputs[i], data, out);
        }
        contents(route, i, r->rank, data, in);
        write_to(route->place->inputs[i], data, in);
        free(data);
    }
}

/* ------------------------------------------------------------------- submission */

/** Arguments beside the buffers. */
struct arguments {
    tutti_options options;
    int64_t rows;
    int64_t lists[2][ROUTE_RANKS_MAX];
    const int64_t *rows_of; /* or send_rows; NULL: none */
    const int64_t *recv_rows; /* NULL: none */
};

static void make_arguments(
        const struct route_rank *r, const struct operation *o, struct arguments *a)
{
    const bool comes =
            o->collective == TUTTI_ALLGATHER || o->collective == TUTTI_GATHER;
    const size_t bytes = o->collective == TUTTI_SCATTER
            ? operation_output_bytes(o, r->size, r->rank)
            : operation_input_bytes(o, r->size, r->rank);

    *a = (struct arguments){ .rows = (int64_t)(bytes / UNIT) };
    tutti_options_default(&a->options);
    for (int i = 0; i < r->size; i++) {
        a->lists[1][i] = operation_part_rows(o, r->size, i, r->rank);
        a->lists[0][i] =
                comes ? a->lists[1][i] : operation_part_rows(o, r->size, r->rank, i);
    }
    if (o->form == FORM_LISTED ||
            (o->form == FORM_UNKNOWN && o->collective == TUTTI_ALLTOALL)) {
        a->rows_of = a->lists[0];
    }
    if (o->form == FORM_LISTED) {
        a->recv_rows = a->lists[1];
    }
}

static tutti_status submit_one(
        const struct route_rank *r, struct route *route, int tensor)
{
    const struct operation *o = &route->operations[tensor];
    const char *name = route->names[tensor];
    const void *input = route->place->inputs[tensor];
    void *output = route->place->outputs[tensor];
    tutti_request *request = &route->requests[tensor];
    const tutti_dtype dtype = o->pattern.dtype;
    const tutti_reduce_op op = o->pattern.op;
    struct arguments a;

    make_arguments(r, o, &a);
    switch ((int)o->collective) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce_async(
                r->t, name, input, output, o->count, dtype, op, &a.options, request);
    case TUTTI_BROADCAST:
        return tutti_broadcast_async(
                r->t, name, output, o->count, dtype, o->root, &a.options, request);
    case TUTTI_REDUCE:
        return tutti_reduce_async(r->t, name, input, output, o->count, dtype, op,
                o->root, &a.options, request);
    case TUTTI_REDUCESCATTER:
        return tutti_reducescatter_async(r->t, name, input, output, a.rows,
                o->row_count, a.rows_of, dtype, op, &a.options, request);
    case TUTTI_ALLGATHER:
        return tutti_allgather_async(r->t, name, input, output, a.rows, o->row_count,
                a.rows_of, dtype, &a.options, request);
    case TUTTI_ALLTOALL:
        return tutti_alltoall_async(r->t, name, input, output, a.rows, o->row_count,
                a.rows_of, a.recv_rows, dtype, &a.options, request);
    case TUTTI_GATHER:
        return tutti_gather_async(r->t, name, input, output, a.rows, o->row_count,
                a.rows_of, dtype, o->root, &a.options, request);
    default:
        return tutti_scatter_async(r->t, name, input, output, a.rows, o->row_count,
                a.rows_of, dtype, o->root, &a.options, request);
    }
}

tutti_status route_submit(const struct route_rank *r, struct route *route)
{
    const bool groups = route->place->tensors > 1;
    tutti_status status = groups ? tutti_group_begin(r->t) : TUTTI_OK;
    tutti_status ended = TUTTI_OK;

    for (int i = 0; i < route->place->tensors && status == TUTTI_OK; i++) {
        status = submit_one(r, route, i);
    }
    if (groups) {
        ended = tutti_group_end(r->t);
    }
    return status != TUTTI_OK ? status : ended;
}

tutti_status route_wait(const struct route_rank *r, struct route *route)
{
    return tutti_wait_all(
            r->t, (size_t)route->place->tensors, route->requests, TUTTI_FOREVER, NULL);
}

/* ------------------------------------------------------------------- comparison */

static void expect(
        const struct route_rank *r, const struct route *route, int tensor, void *output)
{
    const struct operation *o = &route->operations[tensor];
    const struct crew crew = crew_of(r);
    unsigned char *inputs[ROUTE_RANKS_MAX];

    for (int i = 0; i < r->size; i++) {
        const size_t bytes = operation_input_bytes(o, r->size, i);

        inputs[i] = must_alloc(bytes, 1);
        contents(route, tensor, i, inputs[i], bytes);
    }
    operation_expect(o, &crew, (const void *const *)inputs, output);
    for (int i = 0; i < r->size; i++) {
        free(inputs[i]);
    }
}

/* Where the output of a tensor is, and what has to be given back; NULL: it is not there. */
static unsigned char *output_of(
        const struct route_rank *r, struct route *route, int tensor, void **owned)
{
    *owned = NULL;
    if (!route->operations[tensor].owns_output) {
        return route->place->outputs[tensor];
    }
    if (tutti_request_take_output(r->t, &route->requests[tensor], owned, NULL,
                TUTTI_FOREVER) != TUTTI_OK) {
        return NULL;
    }
    return *owned;
}

static bool tensor_is_right(const struct route_rank *r, struct route *route, int tensor)
{
    const struct operation *o = &route->operations[tensor];
    const size_t bytes = operation_output_bytes(o, r->size, r->rank);
    unsigned char *both = must_alloc(2 * bytes, 1);
    void *owned;
    unsigned char *output = output_of(r, route, tensor, &owned);
    bool right = bytes == 0;

    if (output != NULL && bytes > 0) {
        expect(r, route, tensor, both);
        right = gpusim_read(both + bytes, (uint64_t)(uintptr_t)output, bytes) &&
                memcmp(both, both + bytes, bytes) == 0;
    }
    free(both);
    return tutti_free(r->t, owned) == TUTTI_OK && right;
}

bool route_is_right(const struct route_rank *r, struct route *route)
{
    bool right = true;

    for (int i = 0; i < route->place->tensors; i++) {
        right = tensor_is_right(r, route, i) && right;
    }
    return right;
}
