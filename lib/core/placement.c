/*
 * Host memory or device memory.
 */
#include "core/placement.h"

#include <stdio.h>

#include "core/context.h"
#include "core/submit.h"

/* A buffer as far as this rank uses it. */
struct buffer {
    const void *memory;
    size_t bytes; /* 0: not used, or nobody knows it yet */
};

static size_t bytes_of(const struct submission *s, int64_t elements)
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

    if (rows_apply(s->collective) &&
            __builtin_mul_overflow(s->rows.rows, s->meta.row_count, &elements)) {
        return 0;
    }
    return bytes_of(s, elements);
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
                : rows_apply(s->collective)
                ? size_max(rows_output_bytes(s, set), tutti_dtype_size(s->meta.dtype))
                : bytes_of(s, s->meta.count) };
}

static tutti_status look(struct tutti *t, const struct submission *s,
        const struct buffer *buffer, enum op_space *space)
{
    const tutti_status status =
            t->device.look(t->device.state, buffer->memory, buffer->bytes, space);

    if (status == TUTTI_ERR_INVALID) {
        char reason[ERROR_TEXT_MAX];

        (void)snprintf(reason, sizeof reason, "%s", tutti_last_error());
        return error_set(status, "\"%s\": %s", s->name, reason);
    }
    return status;
}

static bool is_used(const struct buffer *buffer)
{
    return buffer->memory != NULL && buffer->bytes > 0;
}

static tutti_status look_at_both(struct tutti *t, struct submission *s,
        const struct buffer *input, const struct buffer *output)
{
    enum op_space second = OP_HOST;
    tutti_status status = look(t, s, input, &s->meta.space);

    if (status != TUTTI_OK ||
            (output->memory == input->memory && output->bytes <= input->bytes)) {
        return status;
    }
    status = look(t, s, output, &second);
    if (status == TUTTI_OK && second != s->meta.space) {
        status = error_set(TUTTI_ERR_INVALID,
                "\"%s\": the input of rank %d is %s, and its output is %s; give both "
                "in "
                "one",
                s->name, t->rank, meta_space_name(s->meta.space),
                meta_space_name(second));
    }
    return status;
}

/* Nothing is given or taken here: of what the others do, this is the best sign. */
static enum op_space guess(struct tutti *t, const struct submission *s)
{
    const void *memory = s->input != NULL ? s->input : s->output;
    enum op_space space = OP_HOST;

    if (!rows_apply(s->collective)) {
        return OP_HOST;
    }
    if (memory == NULL) {
        return s->stream != NULL ? OP_DEVICE : OP_HOST;
    }
    return t->device.look(t->device.state, memory, 1, &space) == TUTTI_OK ? space
                                                                          : OP_HOST;
}

static tutti_status find_space(
        struct tutti *t, struct submission *s, const struct op_set *set)
{
    const struct buffer input = input_of(s, set);
    const struct buffer output = output_of(s, set);

    if (is_used(&input) && is_used(&output)) {
        return look_at_both(t, s, &input, &output);
    }
    if (is_used(&input) || is_used(&output)) {
        return look(t, s, is_used(&input) ? &input : &output, &s->meta.space);
    }
    s->meta.space = guess(t, s);
    return TUTTI_OK;
}

tutti_status placement_find(
        struct tutti *t, struct submission *s, const struct op_set *set, bool marks)
{
    tutti_status status;

    if (t->device.state == NULL || s->collective == TUTTI_BARRIER ||
            s->collective >= META_SET_CREATE) {
        return TUTTI_OK;
    }
    status = find_space(t, s, set);
    if (status == TUTTI_OK && s->meta.space == OP_DEVICE && marks) {
        status = t->device.mark(t->device.state, s->stream, &s->after);
    }
    return status;
}

void placement_drop(struct tutti *t, struct submission *s)
{
    if (s->after != NULL) {
        t->device.release(t->device.state, s->after);
        s->after = NULL;
    }
}
