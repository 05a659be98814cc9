/*
 * Row counts: what a rank says about its own part of an exchange and about that of others.
 * Unlike the rest of the metadata they differ between ranks, and must match crosswise.
 * Pure.
 *
 *   ALLTOALL, META_LISTED  the rows it sends to each member, then those it expects of each
 *   GATHER                 the rows it sends; at the root then, unless it takes whatever
 *                          comes, the rows it expects of each member
 *   SCATTER                the rows it expects, -1: whatever comes; at the root then the
 *                          rows it sends to each member
 */
#ifndef TUTTI_AGREE_ROW_COUNTS_H
#define TUTTI_AGREE_ROW_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agree/meta.h"

/** What one rank gives. Kept as a pointer; NULL: nothing. */
struct row_counts {
    int count, capacity;
    int64_t numbers[];
};

/** The row counts of all members of a set about one exchange. */
struct exchange {
    int collective;
    const char *name;
    int root; /* of GATHER and SCATTER */
    int size;
    struct row_counts *const *row_counts; /* [size] */
    const int *world_ranks; /* [size] for the text */
};

/** True when ranks that give such metadata give row counts. */
bool row_counts_are_expected(int collective, const struct meta *meta);
/** True when a member may give so many row counts with its metadata. */
bool row_counts_are_valid(
        int collective, const struct meta *meta, int member, int size);
/** Keeps the row counts of some metadata; false when out of memory, nothing changed. */
bool row_counts_keep(struct row_counts **counts, const struct meta *meta);
/** How many they are. */
static inline int row_counts_given(const struct row_counts *counts)
{
    return counts != NULL ? counts->count : 0;
}
/** The memory that it takes, with its pointer. */
static inline size_t row_counts_bytes(const struct row_counts *counts)
{
    const size_t kept = counts == NULL
            ? 0
            : sizeof *counts + (size_t)counts->capacity * sizeof *counts->numbers;

    return sizeof counts + kept;
}
/** True when the metadata have just what was kept. */
static inline bool row_counts_equal(
        const struct row_counts *counts, const struct meta *meta)
{
    return row_counts_given(counts) == meta->row_counts &&
            (meta->row_counts == 0 ||
                    memcmp(counts->numbers, meta_row_counts(meta),
                            (size_t)meta->row_counts * sizeof *counts->numbers) == 0);
}

/** True when all row counts match; else says in words who and what contradict each other. */
bool row_counts_match(const struct exchange *exchange, char *text, size_t capacity);

#endif
