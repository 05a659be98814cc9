/*
 * Where the buffers of a submission lie, and what must have been done before they are
 * used.
 */
#include "run/buffers.h"

#include "device/placement.h"
#include "run/context.h"
#include "run/submit.h"

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

    if (meta_has_rows(s->collective) &&
            __builtin_mul_overflow(s->rows.rows, s->meta.row_count, &elements)) {
        return 0;
    }
    return bytes_of(s, elements);
}

/* The root has one side more than the others. */
static struct placement_buffer input_of(
        const struct submission *s, const struct op_set *set)
{
    const bool used = s->collective != TUTTI_SCATTER || set->rank == s->meta.root;

    return (struct placement_buffer){ .memory = used ? s->input : NULL,
        .bytes = used ? input_bytes(s) : 0 };
}

/* At least the first element of rows: what comes from whom may be known later. */
static struct placement_buffer output_of(
        const struct submission *s, const struct op_set *set)
{
    const bool roots = s->collective == TUTTI_REDUCE || s->collective == TUTTI_GATHER;
    const bool used = (!roots || set->rank == s->meta.root) && !rows_own_output(s, set);

    return (struct placement_buffer){ .memory = used ? s->output : NULL,
        .bytes = !used ? 0
                : meta_has_rows(s->collective)
                ? size_max(rows_output_bytes(s, set), tutti_dtype_size(s->meta.dtype))
                : bytes_of(s, s->meta.count) };
}

tutti_status buffers_place(
        struct tutti *t, struct submission *s, const struct op_set *set, bool events)
{
    const bool has_rows = meta_has_rows(s->collective);
    struct placement placement;
    tutti_status status;

    if (t->device.state == NULL || s->collective == TUTTI_BARRIER ||
            s->collective >= META_SET_CREATE) {
        return TUTTI_OK;
    }
    placement = (struct placement){ .input = input_of(s, set),
        .output = output_of(s, set),
        /* Of rows others may give or take some; else all ranks are empty. */
        .unused = !has_rows        ? NULL
                : s->input != NULL ? s->input
                                   : s->output,
        .has_stream = has_rows && s->stream != NULL };
    status = placement_find(&t->device, s->name, t->rank, &placement, &s->meta.space);
    if (status == TUTTI_OK && s->meta.space == OP_DEVICE && events) {
        status = t->device.record(t->device.state, s->stream, &s->after);
    }
    return status;
}

void buffers_drop(struct tutti *t, struct submission *s)
{
    if (s->after != NULL) {
        t->device.release(t->device.state, s->after);
        s->after = NULL;
    }
}
