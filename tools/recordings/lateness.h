/*
 * Slow ranks.
 */
#ifndef TUTTI_TOOLS_RECORDINGS_LATENESS_H
#define TUTTI_TOOLS_RECORDINGS_LATENESS_H

#include "tools/recordings/job.h"

/** How late a rank arrived at batches, against the median of all ranks. */
struct lateness {
    size_t batches; /* that all ranks have recorded, and had not submitted together */
    size_t late; /* of them, by more than a millisecond                        */
    int64_t median_ns; /* of those                                             */
    bool is_slow; /* that is most of them, and costs time                      */
};

/**
 * @param lateness  zeroed, one for each recording of the job
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status lateness_find(
        struct lateness *lateness, const struct recorded_job *job);
/**
 * "rank 5 on b arrives 31 ms after the median of all in 94 % of the last 60 batches".
 * @return false, and no text: the rank is not slow
 */
bool lateness_text(const struct recording_of *recording,
        const struct lateness *lateness, char *text, size_t capacity);

#endif
