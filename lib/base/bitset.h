/*
 * A set of ranks: a fixed number of bits.
 */
#ifndef TUTTI_BASE_BITSET_H
#define TUTTI_BASE_BITSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bitset {
    uint64_t *words; /* owned; NULL when bits is 0 */
    int bits; /* members are 0 to bits - 1 */
};

/** An empty set with room for `bits` members; false when out of memory. */
bool bitset_init(struct bitset *set, int bits);
void bitset_fini(struct bitset *set);
void bitset_clear(struct bitset *set);
void bitset_add(struct bitset *set, int member);
void bitset_remove(struct bitset *set, int member);
bool bitset_has(const struct bitset *set, int member);
int bitset_count(const struct bitset *set);
/** True for a zeroed set, too. */
bool bitset_is_empty(const struct bitset *set);
/** Copies members; both must have the same number of bits. */
void bitset_copy(struct bitset *to, const struct bitset *from);
/** True when any of the members `first` to `last` is there. */
bool bitset_has_any(const struct bitset *set, int first, int last);
/** Adds the members `first` to `last`. */
void bitset_add_range(struct bitset *set, int first, int last);

/**
 * Writes members as "0, 2-5, 9", each passed through `translate` when that is not NULL
 * (set ranks to world ranks; ranges are of translated, ascending numbers). Cut with
 * "..." when it does not fit. Returns text.
 */
char *bitset_format(
        const struct bitset *set, const int *translate, char *text, size_t capacity);

#endif
