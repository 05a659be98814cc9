/*
 * Where the time of a step went. Each moment of a rank's step is counted once: in COMPUTE, when no
 * thread of the program waits in tutti, else by what it waits for. Pure.
 */
#ifndef TUTTI_TOOLS_RECORDINGS_ACCOUNT_H
#define TUTTI_TOOLS_RECORDINGS_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "tools/recordings/spans.h"

enum part {
    PART_COMPUTE, /* outside tutti                                            */
    PART_AGREEMENT, /* all have come, and do not know it yet                      */
    PART_SLOWEST, /* the slowest rank has not come                              */
    PART_COPY, /* batches move: into fusion buffers and out of them               */
    PART_REDUCE, /* batches move: reductions                                      */
    PART_WIRE, /* batches move: the rest, also waiting for others in the midst of one */
    PART_OTHER, /* in tutti, for none of these                                    */
    PARTS
};

/** Of a part: "compute". */
const char *part_name(enum part part);

/** In ns, of one rank or the mean of several. */
struct account {
    uint64_t number; /* of the step                                            */
    double total;
    double parts[PARTS]; /* together they are the total                          */
    double moving; /* batches moved ...                                         */
    double hidden; /* ... and no thread waited: behind computation                  */
    int slowest; /* index of the rank for which the others waited longest; -1: none */
    double late; /* by so much after the median of all                             */
};

struct accounts {
    struct account *steps; /* owned; [count]; means of the ranks that have the step */
    size_t count;
    struct account *ranks; /* owned; [rank_count]; means of the steps             */
    size_t rank_count;
    struct account mean; /* of the steps; `late` and `slowest` are not used       */
    struct lateness *lateness; /* owned; [rank_count]                              */
    size_t *order; /* owned; [rank_count] indices, from the rank that costs most to the one that costs least */
};

/**
 * Of all steps; where none are recorded the whole recording counts as one, number 0.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status accounts_make(
        struct accounts *accounts, const struct trace *trace);
void accounts_fini(struct accounts *accounts);
/** Of all that one rank has recorded, as if it were one step. @return false: too little */
bool account_whole(struct account *account, const struct recording_of *recording);

#endif
