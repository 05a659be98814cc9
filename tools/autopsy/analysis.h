/*
 * The cause of a hang or failure, from the recordings of all ranks: the missing rank, its tensor, the
 * ranks that wait for it, and slow ranks. No I/O.
 */
#ifndef TUTTI_TOOLS_AUTOPSY_ANALYSIS_H
#define TUTTI_TOOLS_AUTOPSY_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/bitset.h"
#include "tools/recordings/job.h"
#include "tools/recordings/lateness.h"

enum {
    ANALYSIS_TEXT_MAX = 3072
};

/** Why the job makes no progress. */
enum culprit_cause {
    CULPRIT_NONE, /* no rank waits for long                                       */
    CULPRIT_GONE, /* the rank's process has ended                                 */
    CULPRIT_STOPPED, /* it was stopped by a signal or a debugger                     */
    CULPRIT_MISSING, /* the rank has not submitted what others wait for              */
    CULPRIT_ORDER, /* ranks wait for each other                                    */
    CULPRIT_ENGINE, /* its engine has not seen what it submitted                    */
    CULPRIT_BEHIND, /* it has submitted all, and does not take part in a collective */
    CULPRIT_MISMATCH, /* ranks submitted something else under one name                */
    CULPRIT_FAILED /* the context has failed, for a reason that the library gave   */
};

/** What other ranks wait for from one rank. */
struct blame {
    size_t tensors; /* that it has not submitted                               */
    const struct recorded_tensor
            *first; /* of them, as a rank that waits has it       */
    struct bitset waiters; /* indices of the ranks that wait for it              */
    int64_t since_real_ns; /* the first of them; INT64_MAX: not known          */
    bool waits; /* it waits itself for what another one has not submitted */
};

struct analysis {
    enum culprit_cause cause;
    int culprit; /* index of the rank; -1: none                            */
    char conclusion[ANALYSIS_TEXT_MAX]; /* one or two sentences          */
    struct blame *blames; /* owned; one for each recording                 */
    struct lateness *lateness; /* owned; likewise                                */
    size_t count;
};

/** @return TUTTI_OK, TUTTI_ERR_NO_MEMORY */
TUTTI_MUST_USE tutti_status analysis_make(
        struct analysis *analysis, const struct recorded_job *job);
void analysis_fini(struct analysis *analysis);

/** What a tensor is called: allreduce "fc.weight" of step 412. */
void analysis_tensor_text(
        const struct recorded_tensor *tensor, char *text, size_t capacity);
/** What a rank did last: "left tutti 31.2 s ago, after allreduce "a"; it sleeps". */
void analysis_last_text(
        const struct recording_of *recording, char *text, size_t capacity);

#endif
