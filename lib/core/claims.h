/*
 * Claims: what a rank says about its own part of an exchange and about that of others.
 * Unlike the rest of the metadata they differ between ranks, and must match crosswise.
 * Pure.
 *
 *   ALLTOALL, META_LISTED  the rows it sends to each member, then those it expects of each
 *   GATHER                 the rows it sends; at the root then, unless it takes whatever
 *                          comes, the rows it expects of each member
 *   SCATTER                the rows it expects, -1: whatever comes; at the root then the
 *                          rows it sends to each member
 */
#ifndef TUTTI_CORE_CLAIMS_H
#define TUTTI_CORE_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/meta.h"

/** What one rank claims; zeroed is valid and claims nothing. */
struct claim {
    int64_t *numbers; /* owned */
    int count, capacity;
};

/** The claims of all members of a set about one exchange. */
struct exchange {
    int collective;
    const char *name;
    int root; /* of GATHER and SCATTER                    */
    int size;
    const struct claim *claims; /* [size]                                   */
    const int *world_ranks; /* [size] for the text                      */
};

/** True when ranks that give such metadata claim something. */
bool claims_are_expected(int collective, const struct meta *meta);
/** True when a member may give so many claims with its metadata. */
bool claims_count_is_valid(
        int collective, const struct meta *meta, int member, int size);
/** Keeps the claims of some metadata; false when out of memory, nothing changed. */
bool claim_keep(struct claim *claim, const struct meta *meta);
/** True when the metadata claims just what was kept. */
bool claim_equals(const struct claim *claim, const struct meta *meta);
void claim_fini(struct claim *claim);

/** True when all claims match; else says in words who and what contradict each other. */
bool claims_match(const struct exchange *exchange, char *text, size_t capacity);

#endif
