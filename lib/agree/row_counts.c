/*
 * Row counts of exchanges: keeping what each rank sends and expects, and comparing it.
 */
#include "agree/row_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

bool row_counts_are_expected(int collective, const struct meta *meta)
{
    return collective == TUTTI_GATHER || collective == TUTTI_SCATTER ||
            (collective == TUTTI_ALLTOALL && meta->form == META_LISTED);
}

bool row_counts_are_valid(int collective, const struct meta *meta, int member, int size)
{
    const int count = meta->row_counts;

    if (!row_counts_are_expected(collective, meta)) {
        return count == 0;
    }
    if (collective == TUTTI_ALLTOALL) {
        return count == 2 * size;
    }
    if (meta->root >= size) {
        return false;
    }
    if (member != meta->root) {
        return count == 1;
    }
    return count == 1 + size || (count == 1 && collective == TUTTI_GATHER);
}

bool row_counts_keep(struct row_counts **counts, const struct meta *meta)
{
    const size_t count = (size_t)meta->row_counts;
    struct row_counts *kept = *counts;

    if (count > 0 && (kept == NULL || meta->row_counts > kept->capacity)) {
        kept = mem_resize(kept, 1, sizeof *kept + count * sizeof *kept->numbers);
        if (kept == NULL) {
            return false;
        }
        kept->capacity = meta->row_counts;
        *counts = kept;
    }
    if (count > 0) {
        memcpy(kept->numbers, meta_row_counts(meta), count * sizeof *kept->numbers);
    }
    if (kept != NULL) {
        kept->count = meta->row_counts;
    }
    return true;
}

/* The rows that `from` says it sends to `to`; every sender knows. */
static int64_t rows_sent(const struct exchange *exchange, int from, int to)
{
    const int64_t *numbers = exchange->row_counts[from]->numbers;

    if (exchange->collective == TUTTI_ALLTOALL) {
        return numbers[to];
    }
    return exchange->collective == TUTTI_SCATTER ? numbers[1 + to] : numbers[0];
}

/* The rows that `to` says it expects of `from`; -1: whatever comes. */
static int64_t rows_expected(const struct exchange *exchange, int from, int to)
{
    const struct row_counts *counts = exchange->row_counts[to];

    if (exchange->collective == TUTTI_ALLTOALL) {
        return counts->numbers[exchange->size + from];
    }
    if (exchange->collective == TUTTI_SCATTER) {
        return counts->numbers[0];
    }
    return counts->count > 1 ? counts->numbers[1 + from] : -1;
}

static bool pair_matches(
        const struct exchange *exchange, int from, int to, char *text, size_t capacity)
{
    const int64_t sent = rows_sent(exchange, from, to);
    const int64_t expected = rows_expected(exchange, from, to);

    if (expected == -1 || sent == expected) {
        return true;
    }
    (void)snprintf(text, capacity,
            "%s \"%s\": rank %d sends %" PRId64
            " rows to rank %d, which expects %" PRId64
            "; give the same number at both ranks",
            meta_collective_name(exchange->collective), exchange->name,
            exchange->world_ranks[from], sent, exchange->world_ranks[to], expected);
    return false;
}

/* From one member to all, or from all to one. */
static bool row_matches(
        const struct exchange *exchange, int member, char *text, size_t capacity)
{
    const bool scatters = exchange->collective == TUTTI_SCATTER;

    for (int m = 0; m < exchange->size; m++) {
        if (!pair_matches(exchange, scatters ? member : m, scatters ? m : member, text,
                    capacity)) {
            return false;
        }
    }
    return true;
}

bool row_counts_match(const struct exchange *exchange, char *text, size_t capacity)
{
    if (exchange->collective != TUTTI_ALLTOALL) {
        return row_matches(exchange, exchange->root, text, capacity);
    }
    for (int m = 0; m < exchange->size; m++) {
        if (!row_matches(exchange, m, text, capacity)) {
            return false;
        }
    }
    return true;
}
