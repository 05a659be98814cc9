/*
 * How all ranks of a job learn whether one has failed to start, at any time after they have
 * a fabric: by messages of their own, which nothing else that fails can confuse.
 */
#ifndef TUTTI_TRANSPORT_AGREEMENT_H
#define TUTTI_TRANSPORT_AGREEMENT_H

#include <stdint.h>

#include "base/error.h"
#include "fabric/fabric.h"

/** What a rank has found: the wire format, too, so both ends are the same library's. */
struct agreement_verdict {
    int32_t weight; /* the smallest counts, and of those the lowest rank's */
    int32_t rank;
    int32_t status; /* tutti_status */
    char text[ERROR_TEXT_MAX];
};

/** Memory for it: zeroed is valid, and it allocates nothing. */
struct agreement {
    struct agreement_verdict mine; /* the worst that is known here */
    struct agreement_verdict heard;
    _Alignas(8) uint8_t request[FABRIC_REQUEST_BYTES_MAX]; /* one after the other */
    bool is_left; /* a message may still touch this memory */
};

/**
 * Collective. Blocks, with pauses between polls.
 * @param mine  this rank's status, with the last error set where it is one
 * @return TUTTI_OK when all ranks came with it; else `mine`, or the status of the first rank
 *         that failed, whose text follows its number; errors of the fabric
 */
TUTTI_MUST_USE tutti_status agreement_reach(
        struct agreement *agreement, const struct fabric *fabric, tutti_status mine);

#endif
