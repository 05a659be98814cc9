/*
 * Checks of a submission.
 */
#include "run/check.h"

#include <inttypes.h>
#include <math.h>

#include "agree/meta.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/status.h"
#include "run/context.h"
#include "run/process_set.h"
#include "run/rows.h"

/* The end of a name is one, too. */
static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

static tutti_status check_name(const char *name)
{
    size_t len = 0;

    if (name == NULL) {
        return error_set(TUTTI_ERR_INVALID, "the name is NULL");
    }
    while (len <= TUTTI_NAME_MAX && !is_control(name[len])) {
        len++;
    }
    if (len == 0 && name[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "the name is empty");
    }
    if (len > TUTTI_NAME_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "the name \"%.40s...\" is longer than %d bytes", name, TUTTI_NAME_MAX);
    }
    if (name[len] != '\0') {
        return error_set(TUTTI_ERR_INVALID,
                "the name \"%.*s...\" has a control character at byte %zu", (int)len,
                name, len);
    }
    return TUTTI_OK;
}

static bool is_one(double factor)
{
    return !(factor < 1) && !(factor > 1);
}

static tutti_status check_scales(const struct submission *s)
{
    const struct meta *meta = &s->meta;

    if (!isfinite(meta->prescale) || !isfinite(meta->postscale)) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": prescale %g and postscale %g must be finite", s->name,
                meta->prescale, meta->postscale);
    }
    if (!dtype_is_float(meta->dtype) &&
            (!is_one(meta->prescale) || !is_one(meta->postscale))) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "\"%s\": %s cannot be scaled (prescale %g, postscale %g); use 1",
                s->name, tutti_dtype_name(meta->dtype), meta->prescale,
                meta->postscale);
    }
    return TUTTI_OK;
}

static tutti_status check_reduction(const struct submission *s)
{
    const struct meta *meta = &s->meta;
    const bool is_logic = meta->op == TUTTI_MIN || meta->op == TUTTI_MAX;

    if (!reduce_op_is_valid(meta->op)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": %d is no reduction", s->name,
                (int)meta->op);
    }
    if (dtype_is_opaque(meta->dtype)) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "\"%s\": %s can be moved but not reduced; convert to float16 or "
                "float32",
                s->name, tutti_dtype_name(meta->dtype));
    }
    if (meta->dtype == TUTTI_BOOL && !is_logic) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "\"%s\": %s of bool is not defined; use min (AND) or max (OR)", s->name,
                tutti_reduce_name(meta->op));
    }
    return check_scales(s);
}

/* The elements that a shape stands for; false: only the other ranks know. */
static bool shape_count(const struct submission *s, int64_t *count)
{
    if (!meta_has_rows(s->collective)) {
        *count = s->meta.count;
        return true;
    }
    return !(s->collective == TUTTI_SCATTER && s->rows.owns_output) &&
            !__builtin_mul_overflow(s->rows.rows, s->meta.row_count, count);
}

static tutti_status check_shape(const struct submission *s)
{
    const struct meta *meta = &s->meta;
    int64_t product = 1;
    int64_t count = 0;

    if (meta->ndim < 0 || meta->ndim > TUTTI_DIMS_MAX ||
            (meta->ndim > 0 && meta->dims == NULL)) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": a shape of %d dimensions (0 to %d are possible)%s", s->name,
                meta->ndim, TUTTI_DIMS_MAX, meta->dims == NULL ? " without dims" : "");
    }
    for (int i = 0; i < meta->ndim; i++) {
        if (meta->dims[i] < 0 ||
                __builtin_mul_overflow(product, meta->dims[i], &product)) {
            return error_set(TUTTI_ERR_INVALID,
                    "\"%s\": dimension %d of the shape is %" PRId64, s->name, i,
                    meta->dims[i]);
        }
    }
    if (meta->ndim == 0 || !shape_count(s, &count)) {
        return TUTTI_OK;
    }
    if (product != count) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": the shape has %" PRId64 " elements but count is %" PRId64,
                s->name, product, count);
    }
    if (meta_has_rows(s->collective) && meta->dims[0] != s->rows.rows) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": the first dimension of the shape is %" PRId64
                " but rows is %" PRId64,
                s->name, meta->dims[0], s->rows.rows);
    }
    return TUTTI_OK;
}

static tutti_status check_count(const struct submission *s)
{
    const struct meta *meta = &s->meta;
    size_t bytes;

    if (meta->count < 0) {
        return error_set(
                TUTTI_ERR_INVALID, "\"%s\": count is %" PRId64, s->name, meta->count);
    }
    if (!size_mul((size_t)meta->count, tutti_dtype_size(meta->dtype), &bytes) ||
            bytes > PTRDIFF_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": %" PRId64 " elements of %s do not fit into memory", s->name,
                meta->count, tutti_dtype_name(meta->dtype));
    }
    return TUTTI_OK;
}

tutti_status check_step(uint64_t step)
{
    if (step <= meta_step(INT64_MAX)) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "step %" PRId64 " is negative; use 0 or more, or TUTTI_NO_STEP",
            (int64_t)(step - meta_step(0)));
}

tutti_status check_call(const struct submission *s)
{
    tutti_status status = check_name(s->name);

    if (status != TUTTI_OK) {
        return status;
    }
    status = check_step(s->step);
    if (status != TUTTI_OK || s->collective == TUTTI_BARRIER) {
        return status;
    }
    if (!dtype_is_valid(s->meta.dtype)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": %d is no dtype", s->name,
                (int)s->meta.dtype);
    }
    status = check_count(s);
    if (status != TUTTI_OK) {
        return status;
    }
    status = check_shape(s);
    if (status != TUTTI_OK || !meta_reduces(s->collective)) {
        return status;
    }
    return check_reduction(s);
}

/* Buffers of count elements; the output of a reduce is looked at on the root alone. */
static tutti_status check_buffers(const struct submission *s, const struct op_set *set)
{
    const size_t bytes = (size_t)s->meta.count * tutti_dtype_size(s->meta.dtype);
    const bool has_output = s->collective != TUTTI_REDUCE || set->rank == s->meta.root;
    const uintptr_t from = (uintptr_t)s->input;
    const uintptr_t to = (uintptr_t)s->output;

    if (bytes > 0 && (s->input == NULL || (has_output && s->output == NULL))) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": the %s buffer is NULL", s->name,
                s->input == NULL ? "input" : "output");
    }
    if (has_output && from != to && from < to + bytes && to < from + bytes) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": input and output overlap without being equal", s->name);
    }
    return TUTTI_OK;
}

static tutti_status check_callback(const struct submission *s, const struct op_set *set)
{
    if (rows_own_output(s, set) && s->callback != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": a callback has no request to take the output from; pass an "
                "output, or no callback",
                s->name);
    }
    return TUTTI_OK;
}

static tutti_status check_peer(const struct submission *s, const struct op_set *set)
{
    if (s->peer < 0 || s->peer >= set->size) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": peer %d is outside process set %u of %d ranks; a message has "
                "one "
                "rank to come from or go to",
                s->name, s->peer, s->set, set->size);
    }
    if (s->peer == set->rank) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": peer %d is this rank itself; copy the memory instead", s->name,
                s->peer);
    }
    return TUTTI_OK;
}

tutti_status check_in_set(const struct submission *s, const struct op_set *set)
{
    tutti_status status =
            s->collective == TUTTI_MESSAGE ? check_peer(s, set) : TUTTI_OK;

    if (status != TUTTI_OK) {
        return status;
    }
    if (s->meta.root < 0 || s->meta.root >= set->size) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": root %d is outside process set %u of %d ranks", s->name,
                s->meta.root, s->set, set->size);
    }
    if (s->collective == TUTTI_BARRIER || s->collective >= META_SET_CREATE) {
        return TUTTI_OK;
    }
    if (!meta_has_rows(s->collective)) {
        return check_buffers(s, set);
    }
    status = check_callback(s, set);
    return status == TUTTI_OK ? rows_check(s, set) : status;
}

/* --------------------------------------------------------------- lock held */

/* Whether anything may be submitted at all. */
static tutti_status check_open(struct tutti *t)
{
    if (t->failure.error.status != TUTTI_OK) {
        return error_raise(&t->failure.error);
    }
    if (t->closing) {
        return error_set(
                TUTTI_ERR_FINALIZED, "rank %d has called tutti_finalize()", t->rank);
    }
    return TUTTI_OK;
}

static tutti_status has_joined(
        const struct tutti *t, const struct process_set *set, const char *name)
{
    return error_set(TUTTI_ERR_INVALID,
            "\"%s\": rank %d has joined process set %u; wait for the join first", name,
            t->rank, set->id);
}

tutti_status check_late(struct tutti *t, const struct process_set *set,
        const struct operation *operation)
{
    const tutti_status status = check_open(t);

    if (status != TUTTI_OK || set == NULL) {
        return status;
    }
    return set->joined ? has_joined(t, set, operation->request.name) : TUTTI_OK;
}

static tutti_status check_group(const struct tutti *t, const struct open_group *group,
        const struct submission *s)
{
    if (group == NULL) {
        return TUTTI_OK;
    }
    if (s->collective == META_JOIN) {
        return error_set(TUTTI_ERR_INVALID,
                "a join inside a group (rank %d); end the group first", t->rank);
    }
    if (s->collective < TUTTI_MESSAGE && group->set != NULL &&
            group->set->id != s->set) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": its group uses process set %u, not %u (rank %d); a group "
                "stays "
                "within one set",
                s->name, group->set->id, s->set, t->rank);
    }
    return TUTTI_OK;
}

tutti_status check_find_set(struct tutti *t, const struct open_group *group,
        const struct submission *s, struct process_set **found)
{
    struct process_set *set = s->collective == META_FINALIZE && s->set >= PAIRS_FIRST_ID
            ? pairs_find(t, s->set)
            : process_sets_find(&t->sets, s->set);
    tutti_status status = s->collective == META_FINALIZE ? TUTTI_OK : check_open(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (set == NULL || (set->closing && s->collective < META_SET_CREATE)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": there is no process set %u",
                s->name, s->set);
    }
    if (set->op.rank < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rank %d is no member of process set %u", s->name, t->rank,
                s->set);
    }
    if (set->joined && s->collective != META_FINALIZE && s->collective != META_JOIN) {
        return has_joined(t, set, s->name);
    }
    status = check_in_set(s, &set->op);
    if (status != TUTTI_OK) {
        return status;
    }
    *found = set;
    return check_group(t, group, s);
}
