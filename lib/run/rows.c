/*
 * Collectives on rows: checks, row counts, and where the parts lie.
 */
#include "run/rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/status.h"
#include "run/submit.h"

static bool is_root(const struct submission *s, const struct op_set *set)
{
    return set->rank == s->meta.root;
}

bool rows_own_output(const struct submission *s, const struct op_set *set)
{
    return s->rows.owns_output && (s->collective != TUTTI_GATHER || is_root(s, set));
}

/* What the root of a scatter sends, however much that is. */
static bool takes_what_comes(const struct submission *s, const struct op_set *set)
{
    return s->collective == TUTTI_SCATTER && s->rows.owns_output && !is_root(s, set);
}

/* `rows` counts: a scatter without an output may find them elsewhere. */
static bool rows_are_given(const struct submission *s, const struct op_set *set)
{
    return !takes_what_comes(s, set) &&
            !(s->collective == TUTTI_SCATTER && s->rows.owns_output &&
                    s->rows.rows_of != NULL);
}

/* The rows of all members are listed by this call, or follow from its own. */
static bool lists_all(const struct submission *s, const struct op_set *set)
{
    switch (s->collective) {
    case TUTTI_GATHER:
        return is_root(s, set) && !s->rows.owns_output;
    case TUTTI_SCATTER:
        return is_root(s, set);
    default:
        return true;
    }
}

static enum meta_form form_of(const struct submission *s)
{
    const struct rows *rows = &s->rows;

    switch (s->collective) {
    case TUTTI_ALLGATHER:
        if (rows->rows_of != NULL) {
            return META_LISTED;
        }
        return rows->owns_output ? META_UNKNOWN : META_EQUAL;
    case TUTTI_ALLTOALL:
        if (rows->rows_of == NULL) {
            return META_EQUAL;
        }
        return rows->recv_rows != NULL ? META_LISTED : META_UNKNOWN;
    default:
        return META_EQUAL;
    }
}

/* What the call says about a member: its entry of the list, or as many for each. */
static int64_t listed_rows(const struct submission *s, int member)
{
    return s->rows.rows_of != NULL ? s->rows.rows_of[member] : s->rows.rows;
}

/* The rows that go to a member. */
static int64_t rows_sent(const struct submission *s, const struct op_set *set, int to)
{
    switch (s->collective) {
    case TUTTI_REDUCESCATTER:
        return s->rows.rows_of != NULL ? s->rows.rows_of[to]
                                       : tutti_part(s->rows.rows, set->size, to, NULL);
    case TUTTI_ALLTOALL:
        return s->rows.rows_of != NULL ? s->rows.rows_of[to] : s->rows.rows / set->size;
    case TUTTI_GATHER:
        return to == s->meta.root ? s->rows.rows : 0;
    case TUTTI_SCATTER:
        return is_root(s, set) ? listed_rows(s, to) : 0;
    default: /* an allgather gives all to everyone */
        return s->rows.rows;
    }
}

/* The rows of a scatter that are this rank's. */
static int64_t scattered_rows(const struct submission *s, const struct op_set *set)
{
    if (is_root(s, set)) {
        return listed_rows(s, set->rank);
    }
    return s->rows.owns_output ? 0 : s->rows.rows;
}

/* The rows that come from a member; 0 where only that one knows. */
static int64_t rows_received(
        const struct submission *s, const struct op_set *set, int from)
{
    switch (s->collective) {
    case TUTTI_ALLGATHER:
        return form_of(s) == META_UNKNOWN ? 0 : listed_rows(s, from);
    case TUTTI_ALLTOALL:
        return s->rows.rows_of == NULL      ? s->rows.rows / set->size
                : s->rows.recv_rows != NULL ? s->rows.recv_rows[from]
                                            : 0;
    case TUTTI_GATHER:
        return lists_all(s, set) ? listed_rows(s, from) : 0;
    case TUTTI_SCATTER:
        return from == s->meta.root ? scattered_rows(s, set) : 0;
    default: /* a reducescatter leaves this rank its own part */
        return from == set->rank ? rows_sent(s, set, from) : 0;
    }
}

/* ------------------------------------------------------------------ checks */

/* Elements of `rows` rows as bytes. */
static bool rows_bytes(const struct submission *s, int64_t rows, size_t *bytes)
{
    return size_mul((size_t)rows, (size_t)s->meta.row_count, bytes) &&
            size_mul(*bytes, tutti_dtype_size(s->meta.dtype), bytes) &&
            *bytes <= PTRDIFF_MAX;
}

static tutti_status too_large(const struct submission *s, int64_t rows)
{
    return error_set(TUTTI_ERR_INVALID,
            "\"%s\": %" PRId64 " rows of %" PRId64 " elements of %s do not fit into "
            "memory",
            s->name, rows, s->meta.row_count, tutti_dtype_name(s->meta.dtype));
}

/* A list of rows of each member: not negative, and the sum fits into memory. */
static tutti_status check_list(const struct submission *s, const struct op_set *set,
        const char *what, const int64_t *list, int64_t *sum)
{
    size_t bytes;

    *sum = 0;
    for (int i = 0; i < set->size; i++) {
        if (list[i] < 0 || __builtin_add_overflow(*sum, list[i], sum)) {
            return error_set(TUTTI_ERR_INVALID, "\"%s\": %s[%d] is %" PRId64, s->name,
                    what, i, list[i]);
        }
    }
    return rows_bytes(s, *sum, &bytes) ? TUTTI_OK : too_large(s, *sum);
}

/* rows is what this rank gives or gets, and rows_of says so too. */
static tutti_status check_own(const struct submission *s, const struct op_set *set)
{
    if (s->rows.rows_of[set->rank] != s->rows.rows) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rows is %" PRId64
                ", but rows_of[%d], of this rank, is %" PRId64,
                s->name, s->rows.rows, set->rank, s->rows.rows_of[set->rank]);
    }
    return TUTTI_OK;
}

/* The list has the sum `rows`. */
static tutti_status check_sum(const struct submission *s, const char *what, int64_t sum)
{
    if (sum != s->rows.rows) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rows is %" PRId64 ", but %s has the sum %" PRId64, s->name,
                s->rows.rows, what, sum);
    }
    return TUTTI_OK;
}

static tutti_status check_alltoall(const struct submission *s, const struct op_set *set)
{
    const struct rows *rows = &s->rows;
    int64_t sum = 0;
    tutti_status status;

    if (rows->rows_of == NULL && rows->recv_rows != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": recv_rows without send_rows; give both or neither", s->name);
    }
    if (rows->rows_of == NULL) {
        if (rows->rows % set->size != 0) {
            return error_set(TUTTI_ERR_INVALID,
                    "\"%s\": %" PRId64 " rows are not divisible by the %d ranks of "
                    "process set %u; pass send_rows",
                    s->name, rows->rows, set->size, s->set);
        }
        return TUTTI_OK;
    }
    if (rows->recv_rows == NULL && !rows->owns_output) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": send_rows and an output without recv_rows; pass recv_rows, or "
                "no output and take it from the request",
                s->name);
    }
    status = check_list(s, set, "send_rows", rows->rows_of, &sum);
    if (status != TUTTI_OK) {
        return status;
    }
    status = check_sum(s, "send_rows", sum);
    if (status != TUTTI_OK || rows->recv_rows == NULL) {
        return status;
    }
    status = check_list(s, set, "recv_rows", rows->recv_rows, &sum);
    if (status != TUTTI_OK || rows->recv_rows[set->rank] == rows->rows_of[set->rank]) {
        return status;
    }
    return error_set(TUTTI_ERR_INVALID,
            "\"%s\": this rank sends itself %" PRId64 " rows but expects %" PRId64,
            s->name, rows->rows_of[set->rank], rows->recv_rows[set->rank]);
}

static tutti_status check_numbers(const struct submission *s, const struct op_set *set)
{
    const struct rows *rows = &s->rows;
    int64_t sum = 0;
    tutti_status status;

    if (s->collective == TUTTI_ALLTOALL) {
        return check_alltoall(s, set);
    }
    if (!lists_all(s, set)) {
        return TUTTI_OK;
    }
    if (rows->rows_of == NULL) {
        const bool multiplies = s->collective != TUTTI_REDUCESCATTER;
        size_t bytes;

        return !multiplies ||
                        (!__builtin_mul_overflow(rows->rows, set->size, &sum) &&
                                rows_bytes(s, sum, &bytes))
                ? TUTTI_OK
                : too_large(s, rows->rows);
    }
    status = check_list(s, set, "rows_of", rows->rows_of, &sum);
    if (status != TUTTI_OK) {
        return status;
    }
    if (s->collective == TUTTI_REDUCESCATTER) {
        return check_sum(s, "rows_of", sum);
    }
    /* A scatter without an output takes its own rows from the list. */
    return s->rows.owns_output && s->collective == TUTTI_SCATTER ? TUTTI_OK
                                                                 : check_own(s, set);
}

static bool ranges_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t first = (uintptr_t)a;
    const uintptr_t second = (uintptr_t)b;

    return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes &&
            second < first + a_bytes;
}

/* The one place where input and output may be the same memory. */
static bool is_in_place(const struct submission *s, const struct op_set *set,
        const struct rows_layout *layout)
{
    const char *input = s->input;
    const char *output = s->output;

    switch (s->collective) {
    case TUTTI_ALLTOALL:
        return input == output && s->rows.rows_of == NULL;
    case TUTTI_REDUCESCATTER:
    case TUTTI_SCATTER:
        return output == input + layout->sends[set->rank].offset;
    default:
        return input == output + layout->recvs[set->rank].offset;
    }
}

/* Bytes of the output, which the metadata of a root cannot tell to the others. */
static size_t output_extent(const struct submission *s, const struct op_set *set,
        const struct rows_layout *layout)
{
    if (s->collective == TUTTI_GATHER && !is_root(s, set)) {
        return 0;
    }
    return layout->output_bytes;
}

tutti_status rows_check_buffers(const struct submission *s, const struct op_set *set,
        const struct rows_layout *layout)
{
    const size_t output_bytes =
            rows_own_output(s, set) ? 0 : output_extent(s, set, layout);

    if (layout->input_bytes > 0 && s->input == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "\"%s\": the input buffer is NULL", s->name);
    }
    if (output_bytes > 0 && s->output == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "\"%s\": the output buffer is NULL", s->name);
    }
    if (ranges_overlap(s->input, layout->input_bytes, s->output, output_bytes) &&
            !is_in_place(s, set, layout)) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": input and output overlap; in place, a rank's own part must be "
                "the same memory in both",
                s->name);
    }
    return TUTTI_OK;
}

static tutti_status check_row_count(const struct submission *s)
{
    if (s->meta.row_count < 1) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": row_count is %" PRId64 "; a row has at least one element",
                s->name, s->meta.row_count);
    }
    return TUTTI_OK;
}

static tutti_status check_rows(const struct submission *s)
{
    size_t bytes;

    if (s->rows.rows < 0) {
        return error_set(
                TUTTI_ERR_INVALID, "\"%s\": rows is %" PRId64, s->name, s->rows.rows);
    }
    return rows_bytes(s, s->rows.rows, &bytes) ? TUTTI_OK : too_large(s, s->rows.rows);
}

tutti_status rows_check(const struct submission *s, const struct op_set *set)
{
    tutti_status status = check_row_count(s);

    if (status != TUTTI_OK) {
        return status;
    }
    status = rows_are_given(s, set) ? check_rows(s) : TUTTI_OK;
    if (status != TUTTI_OK || takes_what_comes(s, set)) {
        return status;
    }
    return check_numbers(s, set);
}

/* ---------------------------------------------------------------- metadata */

size_t rows_numbers(const struct submission *s, const struct op_set *set)
{
    const size_t size = (size_t)set->size;

    switch (s->collective) {
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
        return s->rows.rows_of != NULL ? size : 0;
    case TUTTI_ALLTOALL:
        return s->rows.recv_rows != NULL ? 2 * size : 0;
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
        return lists_all(s, set) ? 1 + size : 1;
    default:
        return 0;
    }
}

/* True when all ranks have the same `rows`. */
static bool rows_are_agreed(const struct submission *s)
{
    return s->collective == TUTTI_REDUCESCATTER ||
            ((s->collective == TUTTI_ALLGATHER || s->collective == TUTTI_ALLTOALL) &&
                    form_of(s) == META_EQUAL);
}

static void list_rows(
        const struct submission *s, const struct op_set *set, int64_t *list)
{
    for (int i = 0; i < set->size; i++) {
        list[i] = listed_rows(s, i);
    }
}

void rows_describe(const struct submission *s, const struct op_set *set,
        struct meta *meta, int64_t *shape, int64_t *numbers)
{
    const size_t bytes = (size_t)set->size * sizeof *numbers;
    const int count = (int)rows_numbers(s, set);

    meta->form = form_of(s);
    meta->count = rows_are_agreed(s) ? s->rows.rows : 0;
    if (meta->ndim > 0 && !rows_are_agreed(s)) {
        shape[0] = -1;
    }
    switch (s->collective) {
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
        meta->part_count = count;
        if (count > 0) {
            memcpy(numbers, s->rows.rows_of, bytes);
        }
        break;
    case TUTTI_ALLTOALL:
        meta->row_counts = count;
        if (count > 0) {
            memcpy(numbers, s->rows.rows_of, bytes);
            memcpy(numbers + set->size, s->rows.recv_rows, bytes);
        }
        break;
    default:
        meta->row_counts = count;
        numbers[0] = takes_what_comes(s, set) ? -1 : s->rows.rows;
        if (count > 1) {
            list_rows(s, set, numbers + 1);
            numbers[0] = numbers[1 + set->rank];
        }
        break;
    }
}

/* ------------------------------------------------------------------ layout */

size_t rows_place(struct op_part *parts, int count)
{
    size_t offset = 0;

    for (int i = 0; i < count; i++) {
        parts[i].offset = offset;
        offset += parts[i].bytes;
    }
    return offset;
}

size_t rows_output_bytes(const struct submission *s, const struct op_set *set)
{
    int64_t rows = 0;
    int64_t bytes;

    /* Nobody has checked the call yet. */
    for (int i = 0; i < set->size; i++) {
        if (__builtin_add_overflow(rows, rows_received(s, set, i), &rows)) {
            return 0;
        }
    }
    return rows <= 0 || __builtin_mul_overflow(rows, s->meta.row_count, &bytes) ||
                    __builtin_mul_overflow(
                            bytes, (int64_t)tutti_dtype_size(s->meta.dtype), &bytes) ||
                    bytes < 0
            ? 0
            : (size_t)bytes;
}

void rows_lay_out(const struct submission *s, const struct op_set *set,
        struct rows_layout *layout)
{
    const size_t row_bytes =
            (size_t)s->meta.row_count * tutti_dtype_size(s->meta.dtype);
    /* One piece goes to all members, or to the root. */
    const bool is_whole =
            s->collective == TUTTI_ALLGATHER || s->collective == TUTTI_GATHER;

    memset(layout->sends, 0, (size_t)set->size * sizeof *layout->sends);
    memset(layout->recvs, 0, (size_t)set->size * sizeof *layout->recvs);
    for (int i = 0; i < set->size; i++) {
        layout->sends[i].bytes = (size_t)rows_sent(s, set, i) * row_bytes;
        layout->recvs[i].bytes = (size_t)rows_received(s, set, i) * row_bytes;
    }
    layout->input_bytes = is_whole ? (size_t)s->rows.rows * row_bytes
                                   : rows_place(layout->sends, set->size);
    layout->output_bytes = rows_place(layout->recvs, set->size);
}

int64_t tutti_part(int64_t rows, int parts, int index, int64_t *first)
{
    const bool valid = rows >= 0 && parts > 0 && index >= 0 && index < parts;
    const int64_t share = valid ? rows / parts : 0;
    const int64_t more = valid ? rows % parts : 0;

    if (first != NULL) {
        *first = valid ? index * share + (index < more ? index : more) : 0;
    }
    return share + (valid && index < more ? 1 : 0);
}
