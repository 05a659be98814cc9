/*
 * Takes digests of results, and counts values that are not finite.
 */
#include "run/verify.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/digest.h"
#include "run/compare.h"
#include "run/context.h"
#include "run/messages.h"

#define PIECE_BYTES 16384 /* half of a first-level cache; whole elements of any type */

/* The same on all ranks. Mixed, because a plan repeats its batches: some would never have their turn. */
static bool is_looked_at(const struct tutti *t, const struct batch *batch)
{
    const uint64_t every = (uint64_t)t->config.verify_results;
    const uint64_t mixed =
            (batch->op.sequence + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    return every != 0 && batch->op.space == OP_HOST && mixed % every == 0;
}

/* ------------------------------------------------------------- not finite */

/*
 * Elements of which all of these bits are set: those of the exponent. Mostly there is none, which
 * takes no counting.
 */
#define COUNT_FULL(name, type, exponent) \
    static uint64_t name(const void *elements, size_t count) \
    { \
        uint64_t found = 0; \
        type any = 0; \
        type bits; \
\
        for (size_t i = 0; i < count; i++) { \
            memcpy(&bits, (const char *)elements + i * sizeof bits, sizeof bits); \
            any |= (type)((bits & (exponent)) == (exponent)); \
        } \
        for (size_t i = 0; any != 0 && i < count; i++) { \
            memcpy(&bits, (const char *)elements + i * sizeof bits, sizeof bits); \
            found += (bits & (exponent)) == (exponent); \
        } \
        return found; \
    }

COUNT_FULL(count_float8_e4m3, uint8_t, 0x7f) /* which has no infinity */
COUNT_FULL(count_float8_e5m2, uint8_t, 0x7c)
COUNT_FULL(count_float16, uint16_t, 0x7c00)
COUNT_FULL(count_bfloat16, uint16_t, 0x7f80)
COUNT_FULL(count_float32, uint32_t, UINT32_C(0x7f800000))
COUNT_FULL(count_float64, uint64_t, UINT64_C(0x7ff0000000000000))

/* By dtype; NULL: all values are finite. */
static uint64_t (*const counts[])(const void *elements, size_t count) = {
    [TUTTI_FLOAT16] = count_float16,
    [TUTTI_BFLOAT16] = count_bfloat16,
    [TUTTI_FLOAT32] = count_float32,
    [TUTTI_FLOAT64] = count_float64,
    [TUTTI_FLOAT8_E4M3] = count_float8_e4m3,
    [TUTTI_FLOAT8_E5M2] = count_float8_e5m2,
};

static uint64_t count_not_finite(tutti_dtype dtype, const void *data, size_t bytes)
{
    if ((size_t)dtype >= sizeof counts / sizeof *counts || counts[dtype] == NULL) {
        return 0;
    }
    return counts[dtype](data, bytes / tutti_dtype_size(dtype));
}

/* Counts them, and says so when the highest bit of the count changes. */
static void count(const struct tutti *t, _Atomic uint64_t *counter, uint64_t found,
        const char *what, const struct operation *operation)
{
    const uint64_t before = counter_get(counter);
    const uint64_t after = before + found;
    char text[OPERATION_TEXT];

    counter_add(counter, found);
    if ((before ^ after) <= before || !log_enabled(&t->log, TUTTI_LOG_WARN)) {
        return;
    }
    operation_text(operation, text, sizeof text);
    log_warn(&t->log,
            "%" PRIu64 " of %" PRIu64 " values that %s %s are NaN or infinite, %" PRIu64
            " of all since the start",
            found,
            (uint64_t)(operation->bytes /
                    tutti_dtype_size(operation->request.meta.dtype)),
            what, text, after);
}

void verify_inputs(struct tutti *t, const struct batch *batch)
{
    if (!is_looked_at(t, batch) || !op_has_input(&batch->op)) {
        return;
    }
    for (size_t i = 0; i < batch->operation_count; i++) {
        const struct operation *operation = batch->operations[i];
        const uint64_t found = count_not_finite(
                operation->request.meta.dtype, operation->input, operation->bytes);

        if (found > 0) {
            count(t, &t->metrics->nonfinite_inputs, found, "this rank gives to",
                    operation);
        }
    }
}

/* ----------------------------------------------------------------- results */

static const void *result_of(
        const struct batch *batch, const struct operation *operation)
{
    return op_has_output(&batch->op) ? operation->output : operation->input;
}

static size_t bytes_of(const struct batch *batch, const struct operation *operation)
{
    size_t bytes = 0;

    if (batch->op.collective != TUTTI_ALLGATHER) {
        return operation->bytes;
    }
    for (int m = 0; m < batch->set->op.size; m++) {
        bytes += operation->parts[batch->set->op.size + m].bytes;
    }
    return bytes;
}

/* Results that are the same on all ranks of a set; members that have joined have none. */
static bool is_compared(const struct batch *batch)
{
    return batch->set_ranks == NULL && batch->set->op.size > 1 &&
            (batch->op.collective == TUTTI_ALLREDUCE ||
                    batch->op.collective == TUTTI_BROADCAST ||
                    batch->op.collective == TUTTI_ALLGATHER);
}

/* Piece by piece, so that what is looked at twice comes once from memory. */
static uint64_t digest_and_count(const struct batch *batch,
        const struct operation *operation, uint64_t *not_finite)
{
    const bool counts_too = op_is_reduction(batch->op.collective);
    const char *at = result_of(batch, operation);
    size_t left = bytes_of(batch, operation);
    uint64_t result = 0;

    while (left > 0) {
        const size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;

        result = digest_join(result, digest(at, piece));
        if (counts_too) {
            *not_finite += count_not_finite(operation->request.meta.dtype, at, piece);
        }
        at += piece;
        left -= piece;
    }
    return result;
}

static void take_digests(
        struct tutti *t, const struct batch *batch, struct wire_writer *digests)
{
    wire_writer_reset(digests);
    for (size_t i = 0; i < batch->operation_count; i++) {
        uint64_t found = 0;

        wire_put_u64(digests, digest_and_count(batch, batch->operations[i], &found));
        if (found > 0) {
            count(t, &t->metrics->nonfinite_results, found, "come out of",
                    batch->operations[i]);
        }
    }
}

static tutti_status send_up(
        struct tutti *t, const struct batch *batch, const struct wire_writer *digests)
{
    const struct process_set *set = batch->set;
    struct wire_writer *out = messages_begin(t, MESSAGE_DIGESTS);

    wire_put_varint(out, set->id);
    wire_put_varint(out, batch->lane);
    wire_put_varint(out, batch->op.sequence);
    wire_put_bytes(out, digests->data, digests->len);
    return messages_send(t, set->world_ranks[set->negotiator.tree.parent]);
}

tutti_status verify_results(struct tutti *t, const struct batch *batch)
{
    const struct tree *tree = &batch->set->negotiator.tree;
    tutti_status status = TUTTI_OK;

    if (!is_looked_at(t, batch) || !is_compared(batch)) {
        return TUTTI_OK;
    }
    take_digests(t, batch, &t->verify.digests);
    if (t->verify.digests.failed) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to compare results");
    }
    counter_add(&t->metrics->verified, 1);
    if (tree->parent >= 0) {
        status = send_up(t, batch, &t->verify.digests);
    }
    if (tree->child_count > 0 && status == TUTTI_OK) {
        status = compare_own(t, batch, t->verify.digests.data);
    }
    return status;
}
