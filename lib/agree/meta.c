/*
 * Metadata of a tensor: comparison, copies, wire form, and differences in words.
 */
#include "agree/meta.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/status.h"

/* Far above any shape; a set of ranks may be as long as the world. */
#define META_DIMS_LIMIT (1 << 20)

/* Beside the form, so that host memory, and a step or a spot not given, take no byte more. */
#define META_DEVICE_FLAG 0x80u
#define META_STEP_FLAG 0x40u
#define META_CAPTURED_FLAG 0x20u
#define META_SPOT_FLAG 0x10u

static bool numbers_equal(const int64_t *a, const int64_t *b, int count)
{
    return count == 0 || memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static bool shapes_equal(const struct meta *a, const struct meta *b)
{
    return a->ndim == b->ndim && numbers_equal(a->dims, b->dims, a->ndim);
}

static bool parts_equal(const struct meta *a, const struct meta *b)
{
    return a->part_count == b->part_count &&
            numbers_equal(meta_parts(a), meta_parts(b), a->part_count);
}

bool meta_scales_equal(const struct meta *a, const struct meta *b)
{
    return !(a->prescale < b->prescale) && !(a->prescale > b->prescale) &&
            !(a->postscale < b->postscale) && !(a->postscale > b->postscale);
}

bool meta_equal(const struct meta *a, const struct meta *b)
{
    /* Every use of a tensor comes here, and nearly always all is equal: one jump for the numbers. */
    const uint64_t wide = (uint64_t)(a->count ^ b->count) |
            (uint64_t)(a->row_count ^ b->row_count) | (a->group ^ b->group) |
            (a->spot == META_SPOT_MIXED ? 0 : a->spot ^ b->spot);
    const unsigned narrow = ((unsigned)a->form ^ (unsigned)b->form) |
            ((unsigned)a->space ^ (unsigned)b->space) |
            ((unsigned)a->dtype ^ (unsigned)b->dtype) |
            ((unsigned)a->op ^ (unsigned)b->op) | (unsigned)(a->root ^ b->root) |
            (a->group_size ^ b->group_size) | (unsigned)(a->ndim ^ b->ndim) |
            (unsigned)(a->part_count ^ b->part_count);

    return (wide | narrow) == 0 && meta_scales_equal(a, b) &&
            numbers_equal(a->dims, b->dims, a->ndim + a->part_count);
}

bool meta_equal_elsewhere(const struct meta *a, const struct meta *b)
{
    struct meta anywhere = *a;

    anywhere.spot = META_SPOT_MIXED;
    return meta_equal(&anywhere, b);
}

bool meta_copy(struct meta *to, const struct meta *from)
{
    const size_t length = meta_dims_length(from);
    int64_t *dims = NULL;

    if (length > 0) {
        dims = mem_calloc(length, sizeof *dims);
        if (dims == NULL) {
            return false;
        }
        memcpy(dims, from->dims, length * sizeof *dims);
    }
    *to = *from;
    to->dims = dims;
    return true;
}

void meta_fini(struct meta *meta)
{
    /* Only copies are finished, and their dims came from mem_calloc(). */
    union {
        const int64_t *borrowed;
        void *owned;
    } dims = { .borrowed = meta->dims };

    mem_free(dims.owned);
    *meta = (struct meta){ 0 };
}

void meta_put(struct wire_writer *out, const struct meta *meta)
{
    wire_put_svarint(out, meta->count);
    wire_put_svarint(out, meta->row_count);
    wire_put_u8(out,
            (uint8_t)(meta->form | (meta->space == OP_DEVICE ? META_DEVICE_FLAG : 0) |
                    (meta->space == OP_CAPTURED ? META_CAPTURED_FLAG : 0) |
                    (meta->step != 0 ? META_STEP_FLAG : 0) |
                    (meta->spot != META_SPOT_NONE ? META_SPOT_FLAG : 0)));
    if (meta->step != 0) {
        wire_put_varint(out, meta->step);
    }
    if (meta->spot != META_SPOT_NONE) {
        wire_put_u64(out, meta->spot);
    }
    wire_put_u8(out, (uint8_t)meta->dtype);
    wire_put_u8(out, (uint8_t)meta->op);
    wire_put_varint(out, (uint64_t)meta->root);
    wire_put_f64(out, meta->prescale);
    wire_put_f64(out, meta->postscale);
    wire_put_u64(out, meta->group);
    wire_put_varint(out, meta->group_size);
    wire_put_varint(out, (uint64_t)meta->ndim);
    wire_put_varint(out, (uint64_t)meta->part_count);
    wire_put_varint(out, (uint64_t)meta->row_counts);
    for (size_t i = 0; i < meta_dims_length(meta); i++) {
        wire_put_svarint(out, meta->dims[i]);
    }
}

static tutti_status malformed_meta(void)
{
    return error_set(TUTTI_ERR_PROTOCOL, "malformed metadata");
}

static tutti_status get_dims(
        struct wire_reader *in, struct meta *meta, int64_t **dims, size_t *capacity)
{
    const uint64_t ndim = wire_get_varint(in);
    const uint64_t part_count = wire_get_varint(in);
    const uint64_t row_counts = wire_get_varint(in);
    uint64_t length;

    if (ndim > META_DIMS_LIMIT || part_count > META_DIMS_LIMIT ||
            row_counts > META_DIMS_LIMIT) {
        return malformed_meta();
    }
    /* Each number takes at least a byte, so this also bounds the allocation. */
    length = ndim + part_count + row_counts;
    if (length > wire_left(in)) {
        return malformed_meta();
    }
    if (length > *capacity) {
        int64_t *grown = mem_resize(*dims, (size_t)length, sizeof *grown);

        if (grown == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a shape");
        }
        *dims = grown;
        *capacity = (size_t)length;
    }
    for (uint64_t i = 0; i < length; i++) {
        (*dims)[i] = wire_get_svarint(in);
    }
    meta->ndim = (int)ndim;
    meta->part_count = (int)part_count;
    meta->row_counts = (int)row_counts;
    meta->dims = length > 0 ? *dims : NULL;
    return wire_ok(in) ? TUTTI_OK : malformed_meta();
}

tutti_status meta_get(struct wire_reader *in, struct meta *meta, int64_t **dims,
        size_t *dims_capacity)
{
    enum op_space space;
    uint8_t form;
    uint8_t dtype;
    uint8_t op;
    uint64_t root;
    uint64_t group_size;

    *meta = (struct meta){ .count = wire_get_svarint(in) };
    meta->row_count = wire_get_svarint(in);
    form = wire_get_u8(in);
    space = (form & META_DEVICE_FLAG) != 0     ? OP_DEVICE
            : (form & META_CAPTURED_FLAG) != 0 ? OP_CAPTURED
                                               : OP_HOST;
    meta->step = (form & META_STEP_FLAG) != 0 ? wire_get_varint(in) : 0;
    meta->spot = (form & META_SPOT_FLAG) != 0 ? wire_get_u64(in) : META_SPOT_NONE;
    form &= (uint8_t) ~(
            META_DEVICE_FLAG | META_CAPTURED_FLAG | META_STEP_FLAG | META_SPOT_FLAG);
    dtype = wire_get_u8(in);
    op = wire_get_u8(in);
    root = wire_get_varint(in);
    meta->prescale = wire_get_f64(in);
    meta->postscale = wire_get_f64(in);
    meta->group = wire_get_u64(in);
    group_size = wire_get_varint(in);
    if (!wire_ok(in) || form >= META_FORM_COUNT || !dtype_is_valid(dtype) ||
            !reduce_op_is_valid(op) || root > INT32_MAX || group_size > UINT32_MAX ||
            isnan(meta->prescale) || isnan(meta->postscale)) {
        return malformed_meta();
    }
    meta->group_size = (uint32_t)group_size;
    meta->form = (enum meta_form)form;
    meta->space = space;
    meta->dtype = (tutti_dtype)dtype;
    meta->op = (tutti_reduce_op)op;
    meta->root = (int)root;
    return get_dims(in, meta, dims, dims_capacity);
}

bool meta_collective_is_valid(int collective)
{
    return collective_is_valid(collective) ||
            (collective >= META_SET_CREATE && collective <= META_JOIN);
}

const char *meta_collective_name(int collective)
{
    switch (collective) {
    case META_SET_CREATE:
        return "process set creation";
    case META_SET_DESTROY:
        return "process set removal";
    case META_FINALIZE:
        return "finalize";
    case META_JOIN:
        return "join";
    default:
        return tutti_collective_name((tutti_collective)collective);
    }
}

const char *meta_space_name(enum op_space space)
{
    if (space == OP_CAPTURED) {
        return "device memory of a stream that is captured in a CUDA graph";
    }
    return space == OP_DEVICE ? "device memory" : "host memory";
}

static void format_numbers(
        const int64_t *numbers, int count, char *text, size_t capacity)
{
    size_t used = 0;

    if (count == 0) {
        (void)snprintf(text, capacity, "none");
        return;
    }
    for (int i = 0; i < count && used < capacity; i++) {
        /* -1: a dimension in which ranks may differ. */
        const int n = numbers[i] < 0
                ? snprintf(text + used, capacity - used, "%s*", i == 0 ? "[" : ", ")
                : snprintf(text + used, capacity - used, "%s%" PRId64,
                          i == 0 ? "[" : ", ", numbers[i]);

        used += n > 0 ? (size_t)n : 0;
    }
    if (used + 1 < capacity) {
        (void)snprintf(text + used, capacity - used, "]");
    }
}

static void format_scales(const struct meta *meta, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "prescale %.17g, postscale %.17g", meta->prescale,
            meta->postscale);
}

static void format_group(const struct meta *meta, char *text, size_t capacity)
{
    if (meta->group == 0) {
        (void)snprintf(text, capacity, "none");
        return;
    }
    (void)snprintf(text, capacity, "one of %" PRIu32 " members (%016" PRIx64 ")",
            meta->group_size, meta->group);
}

/* What the caller did to choose a form. */
static const char *form_text(enum meta_form form)
{
    static const char *const texts[META_FORM_COUNT] = {
        [META_EQUAL] = "equal parts",
        [META_LISTED] = "listed rows",
        [META_UNKNOWN] = "rows that others do not know (no output)",
    };

    return texts[form];
}

static void format_step(const struct meta *meta, char *text, size_t capacity)
{
    if (meta->step == 0) {
        (void)snprintf(text, capacity, "no step");
    } else {
        (void)snprintf(text, capacity, "step %" PRIu64, meta->step - 1);
    }
}

const char *meta_difference(const struct meta *a, const struct meta *b, char *text_a,
        char *text_b, size_t capacity)
{
    if (a->step != b->step) {
        /* First: the rest may well differ between steps. */
        format_step(a, text_a, capacity);
        format_step(b, text_b, capacity);
        return "step differs";
    }
    if (a->dtype != b->dtype) {
        (void)snprintf(text_a, capacity, "%s", tutti_dtype_name(a->dtype));
        (void)snprintf(text_b, capacity, "%s", tutti_dtype_name(b->dtype));
        return "dtype differs";
    }
    if (a->space != b->space) {
        (void)snprintf(text_a, capacity, "%s", meta_space_name(a->space));
        (void)snprintf(text_b, capacity, "%s", meta_space_name(b->space));
        return "memory differs";
    }
    if (a->form != b->form) {
        (void)snprintf(text_a, capacity, "%s", form_text(a->form));
        (void)snprintf(text_b, capacity, "%s", form_text(b->form));
        return "form differs";
    }
    if (!shapes_equal(a, b)) {
        format_numbers(a->dims, a->ndim, text_a, capacity);
        format_numbers(b->dims, b->ndim, text_b, capacity);
        return "shape differs";
    }
    if (a->row_count != b->row_count) {
        (void)snprintf(text_a, capacity, "%" PRId64, a->row_count);
        (void)snprintf(text_b, capacity, "%" PRId64, b->row_count);
        return "row_count differs";
    }
    if (a->count != b->count) {
        (void)snprintf(text_a, capacity, "%" PRId64, a->count);
        (void)snprintf(text_b, capacity, "%" PRId64, b->count);
        return a->row_count > 0 ? "rows differ" : "count differs";
    }
    if (!parts_equal(a, b)) {
        format_numbers(meta_parts(a), a->part_count, text_a, capacity);
        format_numbers(meta_parts(b), b->part_count, text_b, capacity);
        return "rows_of differs";
    }
    if (a->op != b->op) {
        (void)snprintf(text_a, capacity, "%s", tutti_reduce_name(a->op));
        (void)snprintf(text_b, capacity, "%s", tutti_reduce_name(b->op));
        return "reduction differs";
    }
    if (a->root != b->root) {
        (void)snprintf(text_a, capacity, "%d", a->root);
        (void)snprintf(text_b, capacity, "%d", b->root);
        return "root differs";
    }
    if (!meta_scales_equal(a, b)) {
        format_scales(a, text_a, capacity);
        format_scales(b, text_b, capacity);
        return "scale factors differ";
    }
    format_group(a, text_a, capacity);
    format_group(b, text_b, capacity);
    return "group differs";
}

/* --------------------------------------------------------------------- sizes */

bool meta_is_nothing(int collective, const struct meta *meta)
{
    switch (collective) {
    case TUTTI_BARRIER:
        return true;
    case TUTTI_ALLGATHER:
    case TUTTI_ALLTOALL:
        return meta->form == META_EQUAL && meta->count == 0;
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
        return false; /* only the root knows all parts */
    default:
        return meta->count == 0;
    }
}

size_t meta_agreed_bytes(int collective, const struct meta *meta, int size)
{
    const size_t element_bytes = tutti_dtype_size(meta->dtype);
    const size_t row_bytes = (size_t)meta->row_count * element_bytes;
    size_t rows = 0;

    switch (collective) {
    case TUTTI_REDUCESCATTER:
        return (size_t)meta->count * row_bytes;
    case TUTTI_ALLGATHER:
        if (meta->form == META_EQUAL) {
            return (size_t)meta->count * (size_t)size * row_bytes;
        }
        for (int i = 0; i < meta->part_count; i++) {
            rows += (size_t)meta_parts(meta)[i];
        }
        return meta->form == META_LISTED ? rows * row_bytes : SIZE_MAX;
    case TUTTI_ALLTOALL:
        return meta->form == META_EQUAL ? (size_t)meta->count * row_bytes : SIZE_MAX;
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
        return SIZE_MAX;
    default:
        return (size_t)meta->count * element_bytes;
    }
}
