/*
 * Any collective as data.
 */
#include "test/batch/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"

enum {
    SHORT = 40 /* rows of a short part, at most */
};

bool operation_reduces(const struct operation *o)
{
    return o->collective == TUTTI_ALLREDUCE || o->collective == TUTTI_REDUCE ||
            o->collective == TUTTI_REDUCESCATTER;
}

bool operation_has_rows(const struct operation *o)
{
    return o->collective != TUTTI_ALLREDUCE && o->collective != TUTTI_REDUCE &&
            o->collective != TUTTI_BROADCAST;
}

void operation_describe(const struct operation *o, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "%s of %lld %s by %s%s%s, form %d, root %d, salt %u",
            operation_reduces(o) ? tutti_reduce_name(o->pattern.op) : "copy",
            (long long)o->count, tutti_dtype_name(o->pattern.dtype),
            tutti_collective_name(o->collective), o->in_place ? ", in place" : "",
            o->owns_output ? ", owned" : "", (int)o->form, o->root, o->pattern.salt);
}

/* ------------------------------------------------------------------- sizes */

static size_t row_bytes(const struct operation *o)
{
    return (size_t)o->row_count * tutti_dtype_size(o->pattern.dtype);
}

int64_t operation_part_rows(const struct operation *o, int size, int from, int to)
{
    const bool has_sender =
            o->collective != TUTTI_SCATTER && o->collective != TUTTI_REDUCESCATTER;
    const bool has_receiver =
            o->collective != TUTTI_ALLGATHER && o->collective != TUTTI_GATHER;
    const uint64_t pair =
            (has_sender ? (uint64_t)from << 16 : 0) | (has_receiver ? (uint64_t)to : 0);
    uint64_t most = (uint64_t)o->count;
    uint64_t random;

    if (o->form == FORM_EQUAL) {
        return o->collective == TUTTI_REDUCESCATTER
                ? o->count / size + (to < o->count % size ? 1 : 0)
                : o->count;
    }
    random = pattern_mix(o->pattern.salt, pair);
    if (o->is_sparse && random % 4 < 2) {
        most = random % 4 == 0 || most < SHORT ? 0 : SHORT;
    }
    return (int64_t)((random >> 2) % (most + 1));
}

/* Rows in front of the part for, or from, a member. */
static int64_t rows_before_to(const struct operation *o, int size, int from, int to)
{
    int64_t rows = 0;

    for (int i = 0; i < to; i++) {
        rows += operation_part_rows(o, size, from, i);
    }
    return rows;
}

static int64_t rows_before_from(const struct operation *o, int size, int from, int to)
{
    int64_t rows = 0;

    for (int i = 0; i < from; i++) {
        rows += operation_part_rows(o, size, i, to);
    }
    return rows;
}

/* What the call is told as `rows`. */
static int64_t own_rows(const struct operation *o, int size, int index)
{
    switch ((int)o->collective) {
    case TUTTI_ALLGATHER:
    case TUTTI_GATHER:
        return operation_part_rows(o, size, index, o->root);
    case TUTTI_SCATTER:
        return operation_part_rows(o, size, o->root, index);
    default:
        return rows_before_to(o, size, index, size);
    }
}

static size_t whole_bytes(const struct operation *o)
{
    return (size_t)o->count * tutti_dtype_size(o->pattern.dtype);
}

size_t operation_input_bytes(const struct operation *o, int size, int index)
{
    switch ((int)o->collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE:
    case TUTTI_BROADCAST:
        return whole_bytes(o);
    case TUTTI_ALLGATHER:
    case TUTTI_GATHER:
        return (size_t)own_rows(o, size, index) * row_bytes(o);
    case TUTTI_SCATTER:
        return index == o->root
                ? (size_t)rows_before_to(o, size, index, size) * row_bytes(o)
                : 0;
    default:
        return (size_t)rows_before_to(o, size, index, size) * row_bytes(o);
    }
}

size_t operation_output_bytes(const struct operation *o, int size, int index)
{
    switch ((int)o->collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_BROADCAST:
        return whole_bytes(o);
    case TUTTI_REDUCE:
        return index == o->root ? whole_bytes(o) : 0;
    case TUTTI_REDUCESCATTER:
    case TUTTI_SCATTER:
        return (size_t)operation_part_rows(o, size, o->root, index) * row_bytes(o);
    case TUTTI_GATHER:
        return index == o->root
                ? (size_t)rows_before_from(o, size, size, index) * row_bytes(o)
                : 0;
    default:
        return (size_t)rows_before_from(o, size, size, index) * row_bytes(o);
    }
}

/* ---------------------------------------------------------------- contents */

void operation_fill(
        const struct operation *o, int world_rank, void *input, size_t bytes)
{
    pattern_fill(
            &o->pattern, world_rank, input, bytes / tutti_dtype_size(o->pattern.dtype));
}

/* While somebody has joined device memory is staged. */
static bool nccl_reduces(const struct operation *o, const struct crew *crew)
{
    for (int i = 0; crew->absent != NULL && i < crew->size; i++) {
        if (crew->absent[i]) {
            return false;
        }
    }
    return reference_folds() && !o->is_on_host;
}

/* Elements [first, first + count) of inputs, over those that take part, in their order. */
static void reduce_inputs(const struct operation *o, const struct crew *crew,
        const void *const *inputs, size_t first, void *output, size_t count)
{
    const size_t offset = first * tutti_dtype_size(o->pattern.dtype);
    const void **present = must_alloc((size_t)crew->size, sizeof *present);
    int *ranks = must_alloc((size_t)crew->size, sizeof *ranks);
    struct reduction reduction = { .collective = o->collective,
        .dtype = o->pattern.dtype,
        .op = o->pattern.op,
        .prescale = o->scales.pre,
        .postscale = o->scales.post,
        .inputs = present,
        .members = crew->size,
        .ranks = ranks };

    reduction.folds = nccl_reduces(o, crew);
    for (int i = 0; i < crew->size; i++) {
        if (crew->absent == NULL || !crew->absent[i]) {
            ranks[reduction.n] = crew->world[i];
            present[reduction.n++] = (const char *)inputs[i] + offset;
        }
    }
    reference_reduce(&reduction, output, count);
    free(ranks);
    free(present);
}

/* Which element of the inputs is the first of this member's output. */
static size_t first_of(const struct operation *o, const struct crew *crew)
{
    return o->collective == TUTTI_REDUCESCATTER
            ? (size_t)(rows_before_to(o, crew->size, 0, crew->index) * o->row_count)
            : 0;
}

/* Elements of something periodic, of which one period is there, from element `at` on. */
static void copy_periodic(const char *period, size_t length, size_t element, size_t at,
        char *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const size_t left = (length - at % length) * element;
        const size_t some = left < bytes - done ? left : bytes - done;

        memcpy(to + done, period + at % length * element, some);
        done += some;
        at = 0;
    }
}

/* Bytes of a member's input: as given, or, without inputs, as filled. */
static void copy_input(const struct operation *o, const struct crew *crew,
        const void *const *inputs, int from, size_t offset, char *to, size_t bytes)
{
    const size_t element = tutti_dtype_size(o->pattern.dtype);
    char *period;

    if (bytes == 0) {
        return;
    }
    if (inputs != NULL) {
        memcpy(to, (const char *)inputs[from] + offset, bytes);
        return;
    }
    period = must_alloc(PATTERN_PERIOD, element);
    pattern_fill(&o->pattern, crew->world[from], period, PATTERN_PERIOD);
    copy_periodic(period, PATTERN_PERIOD, element, offset / element, to, bytes);
    free(period);
}

/* The part of every sender, in their order. */
static void exchange_inputs(const struct operation *o, const struct crew *crew,
        const void *const *inputs, char *output)
{
    const int n = crew->size;
    const int first = o->collective == TUTTI_SCATTER ? o->root : 0;
    const int last = o->collective == TUTTI_SCATTER ? o->root : n - 1;
    const bool is_cut =
            o->collective == TUTTI_SCATTER || o->collective == TUTTI_ALLTOALL;

    for (int from = first; from <= last; from++) {
        const size_t offset = is_cut
                ? (size_t)rows_before_to(o, n, from, crew->index) * row_bytes(o)
                : 0;
        const size_t bytes =
                (size_t)operation_part_rows(o, n, from, crew->index) * row_bytes(o);

        copy_input(o, crew, inputs, from, offset, output, bytes);
        output += bytes;
    }
}

/* Of reductions of what is filled one period is computed. */
static void reduce_filled(
        const struct operation *o, const struct crew *crew, char *output, size_t bytes)
{
    const size_t element = tutti_dtype_size(o->pattern.dtype);
    const size_t all = operation_input_bytes(o, crew->size, crew->index) / element;
    const size_t period = all < PATTERN_PERIOD ? all : PATTERN_PERIOD;
    char *memory = must_alloc((size_t)crew->size + 1, period * element);
    const void **inputs = must_alloc((size_t)crew->size, sizeof *inputs);

    for (int i = 0; i < crew->size; i++) {
        char *input = memory + ((size_t)i + 1) * period * element;

        pattern_fill(&o->pattern, crew->world[i], input, period);
        inputs[i] = input;
    }
    reduce_inputs(o, crew, inputs, 0, memory, period);
    copy_periodic(memory, period, element, first_of(o, crew), output, bytes);
    free(inputs);
    free(memory);
}

void operation_expect(const struct operation *o, const struct crew *crew,
        const void *const *inputs, void *output)
{
    const size_t bytes = operation_output_bytes(o, crew->size, crew->index);

    if (operation_reduces(o) && inputs == NULL) {
        reduce_filled(o, crew, output, bytes);
    } else if (operation_reduces(o)) {
        reduce_inputs(o, crew, inputs, first_of(o, crew), output,
                bytes / tutti_dtype_size(o->pattern.dtype));
    } else if (o->collective == TUTTI_BROADCAST) {
        copy_input(o, crew, inputs, o->root, 0, output, bytes);
    } else if (bytes > 0) {
        exchange_inputs(o, crew, inputs, output);
    }
}

/* ------------------------------------------------------------------- table */

static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_BROADCAST,
    TUTTI_ALLGATHER, TUTTI_REDUCESCATTER, TUTTI_ALLTOALL, TUTTI_REDUCE, TUTTI_GATHER,
    TUTTI_SCATTER };

/* Everything that is left open, from a number; legal whatever comes. */
static struct operation choose(
        tutti_collective collective, struct pattern pattern, int size, uint64_t number)
{
    static const int64_t counts[] = { 0, 1, 2, 7, 33, 150 };
    struct operation o = { .collective = collective,
        .pattern = pattern,
        .scales = { 1, 1 },
        .root = (int)(number % (uint64_t)size),
        .count = counts[number / 64 % 6],
        .row_count = 1,
        .in_place = number / 512 % 2 == 0,
        .is_shaped = number / 1024 % 3 == 0 };

    if (operation_has_rows(&o)) {
        o.row_count = 1 + (int64_t)(number / 4096 % 3) * 2;
        o.form = (enum operation_form)(number / 32768 % 3);
        o.owns_output = o.form == FORM_UNKNOWN || number / 262144 % 4 == 0;
    }
    if (o.collective == TUTTI_REDUCESCATTER) {
        o.owns_output = false;
    }
    if (o.owns_output || (o.collective == TUTTI_ALLTOALL && o.form != FORM_EQUAL)) {
        o.in_place = false;
    }
    return o;
}

struct operation operation_random(int size, uint64_t number)
{
    const uint64_t more = pattern_mix(number, 1);
    const bool is_on_host = pattern_mix(number, 3) % 3 == 0;
    struct operation o = { .collective = collectives[number % 8] };
    struct pattern pattern = { .salt = (uint32_t)(more >> 32) };

    do {
        pattern.dtype = (tutti_dtype)(number / 8 % (TUTTI_FLOAT8_E5M2 + 1));
        pattern.op = (tutti_reduce_op)(number / 128 % (TUTTI_SET_AVERAGE + 1));
        number = pattern_mix(number, 2);
    } while (operation_reduces(&o) && !reference_accepts(pattern.dtype, pattern.op));
    o = choose(o.collective, pattern, size, more);
    o.is_on_host = is_on_host;
    if (operation_reduces(&o) && dtype_is_real(pattern.dtype) && more % 4 == 0) {
        o.scales = (struct scales){ 0.5, 3 };
    }
    return o;
}

/* All reductions of a type, or the one way to move it; returns the new count. */
static size_t add_kinds(struct operation *table, size_t n, struct pattern pattern,
        tutti_collective collective, int size)
{
    const uint32_t seed = pattern.salt;
    const bool reduces =
            operation_reduces(&(struct operation){ .collective = collective });

    for (int op = TUTTI_SUM; op <= (reduces ? TUTTI_SET_AVERAGE : TUTTI_SUM); op++) {
        pattern.op = (tutti_reduce_op)op;
        pattern.salt = seed + (uint32_t)n;
        if (reduces && !reference_accepts(pattern.dtype, pattern.op)) {
            continue;
        }
        if (table != NULL) {
            table[n] = choose(collective, pattern, size, pattern_mix(seed, n));
        }
        n++;
    }
    return n;
}

size_t operation_table(struct operation *table, int size, uint32_t seed)
{
    size_t n = 0;

    for (size_t k = 0; k < sizeof collectives / sizeof *collectives; k++) {
        for (int d = TUTTI_UINT8; d <= TUTTI_FLOAT8_E5M2; d++) {
            const struct pattern pattern = { .dtype = (tutti_dtype)d, .salt = seed };

            n = add_kinds(table, n, pattern, collectives[k], size);
        }
    }
    return n;
}
