/*
 * Where the buffers of a submission lie, and what must have been done before they are
 * used.
 */
#include "run/buffers.h"

#include <stdio.h>

#include "agree/meta.h"
#include "run/context.h"
#include "run/rows.h"
#include "run/submit.h"

static size_t payload_bytes(const struct submission *s, int64_t elements)
{
    size_t bytes;

    /* What does not fit into memory is refused later, with a better reason. */
    return __builtin_mul_overflow(
                   (size_t)elements, tutti_dtype_size(s->meta.dtype), &bytes)
            ? 0
            : bytes;
}

static size_t input_bytes(const struct submission *s)
{
    int64_t elements = s->meta.count;

    if (meta_has_rows(s->collective) &&
            __builtin_mul_overflow(s->rows.rows, s->meta.row_count, &elements)) {
        return 0;
    }
    return payload_bytes(s, elements);
}

/* A buffer as far as this rank uses it. */
struct buffer {
    const void *memory;
    size_t bytes; /* 0: not used, or nobody knows it yet */
};

static bool is_used(const struct buffer *buffer)
{
    return buffer->memory != NULL && buffer->bytes > 0;
}

/* The root has one side more than the others. */
static struct buffer input_of(const struct submission *s, const struct op_set *set)
{
    const bool used = s->collective != TUTTI_SCATTER || set->rank == s->meta.root;

    return (struct buffer){ .memory = used ? s->input : NULL,
        .bytes = used ? input_bytes(s) : 0 };
}

/* At least the first element of rows: what comes from whom may be known later. */
static struct buffer output_of(const struct submission *s, const struct op_set *set)
{
    const bool roots = s->collective == TUTTI_REDUCE || s->collective == TUTTI_GATHER;
    const bool used = (!roots || set->rank == s->meta.root) && !rows_own_output(s, set);

    return (struct buffer){ .memory = used ? s->output : NULL,
        .bytes = !used ? 0
                : meta_has_rows(s->collective)
                ? size_max(rows_output_bytes(s, set), tutti_dtype_size(s->meta.dtype))
                : payload_bytes(s, s->meta.count) };
}

static tutti_status look_at_buffer(const struct device *device, const char *name,
        const struct buffer *buffer, enum op_space *space)
{
    const tutti_status status =
            device->look(device->state, buffer->memory, buffer->bytes, space);

    if (status == TUTTI_ERR_INVALID) {
        char reason[ERROR_TEXT_MAX];

        (void)snprintf(reason, sizeof reason, "%s", tutti_last_error());
        return error_set(status, "\"%s\": %s", name, reason);
    }
    return status;
}

static tutti_status look_at_both(const struct tutti *t, const char *name,
        const struct buffer *input, const struct buffer *output, enum op_space *space)
{
    enum op_space second = OP_HOST;
    tutti_status status = look_at_buffer(&t->device, name, input, space);

    if (status != TUTTI_OK ||
            (output->memory == input->memory && output->bytes <= input->bytes)) {
        return status;
    }
    status = look_at_buffer(&t->device, name, output, &second);
    if (status == TUTTI_OK && second != *space) {
        status = error_set(TUTTI_ERR_INVALID,
                "\"%s\": the input of rank %d is %s, and its output is %s; give both "
                "in one",
                name, t->rank, meta_space_name(*space), meta_space_name(second));
    }
    return status;
}

/*
 * Of a rank that gives and takes nothing. Of rows others may give or take some: what an
 * address points to counts, though no byte there is used, and then whether there is a stream.
 * Else all ranks are empty.
 */
static enum op_space space_of_nothing(const struct tutti *t, const struct submission *s)
{
    const void *memory = s->input != NULL ? s->input : s->output;
    enum op_space space = OP_HOST;

    if (!meta_has_rows(s->collective)) {
        return OP_HOST;
    }
    if (memory == NULL) {
        return s->stream != NULL ? OP_DEVICE : OP_HOST;
    }
    return t->device.look(t->device.state, memory, 1, &space) == TUTTI_OK ? space
                                                                          : OP_HOST;
}

/* True where the whole of a buffer is for all, and not a part for each. */
static bool has_spot(int collective)
{
    return meta_reduces(collective) || collective == TUTTI_BROADCAST ||
            collective == TUTTI_ALLGATHER;
}

/* The space of the buffers, which must be one. */
static tutti_status find_space(
        const struct tutti *t, struct submission *s, const struct op_set *set)
{
    const struct buffer input = input_of(s, set);
    const struct buffer output = output_of(s, set);
    enum op_space space = OP_HOST;
    tutti_status status = TUTTI_OK;

    if (is_used(&input) && is_used(&output)) {
        status = look_at_both(t, s->name, &input, &output, &space);
    } else if (is_used(&input) || is_used(&output)) {
        status = look_at_buffer(
                &t->device, s->name, is_used(&input) ? &input : &output, &space);
    } else {
        space = space_of_nothing(t, s);
    }
    s->meta.space = space;
    if (status == TUTTI_OK && op_memory(space) == OP_DEVICE && t->device.spot != NULL &&
            has_spot(s->collective)) {
        s->meta.spot = t->device.spot(t->device.state, set, input.memory, input.bytes,
                output.memory, rows_own_output(s, set) ? SIZE_MAX : output.bytes);
    }
    return status;
}

/* Host memory needs no stream; but who names one that is captured expects it in the graph. */
static tutti_status check_host(const struct tutti *t, const struct submission *s)
{
    struct device_event *event = NULL;
    bool captured = false;

    if (t->config.issue != CONFIG_ISSUE_CALLER || s->stream == NULL ||
            t->device.record(t->device.state, s->stream, &event, &captured) !=
                    TUTTI_OK) {
        return TUTTI_OK;
    }
    t->device.release(t->device.state, event);
    return !captured ? TUTTI_OK
                     : error_set(TUTTI_ERR_INVALID,
                               "\"%s\": rank %d: stream %p is being captured in a CUDA "
                               "graph, of which operations on host memory (or managed "
                               "memory) cannot be part: give device memory, or submit "
                               "outside of the capture",
                               s->name, t->rank, s->stream);
}

tutti_status buffers_place(
        struct tutti *t, struct submission *s, const struct op_set *set, bool events)
{
    bool captured = false;
    tutti_status status;

    if (t->device.state == NULL || s->collective == TUTTI_BARRIER ||
            s->collective >= META_SET_CREATE) {
        return TUTTI_OK;
    }
    status = find_space(t, s, set);
    if (status == TUTTI_OK && s->meta.space == OP_HOST) {
        status = check_host(t, s);
    }
    if (status != TUTTI_OK || s->meta.space != OP_DEVICE || !events) {
        return status;
    }
    status = t->device.record(t->device.state, s->stream, &s->after, &captured);
    s->meta.space = captured ? OP_CAPTURED : OP_DEVICE;
    return status;
}

void buffers_drop(struct tutti *t, struct submission *s)
{
    if (s->after != NULL) {
        t->device.release(t->device.state, s->after);
        s->after = NULL;
    }
}
