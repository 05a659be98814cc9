/*
 * The recordings of all ranks of a job, with aligned clocks.
 */
#ifndef TUTTI_TOOLS_RECORDINGS_JOB_H
#define TUTTI_TOOLS_RECORDINGS_JOB_H

#include <stdio.h>

#include "tools/recordings/recording.h"

/** The recordings that there are, in order of rank. */
struct recorded_job {
    struct recording_of *ranks; /* owned                       */
    size_t count;
    int size; /* of the job; there may be fewer recordings */
};

/**
 * Loads the files rank.N of a folder, and aligns their clocks. Damaged files are reported on
 * `complaints`.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (no folder, or none in it), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status recorded_job_load(
        struct recorded_job *job, const char *folder, FILE *complaints);
void recorded_job_fini(struct recorded_job *job);

/** From the first event of all ranks to the last, by the time of day; never empty. */
void recorded_job_window(
        const struct recorded_job *job, int64_t *begin_ns, int64_t *end_ns);
/**
 * Corrects the times of day of recordings on other hosts than the first's (clocks.c): the clocks of
 * hosts differ, and a batch begins everywhere at about the same time.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status clocks_align(struct recorded_job *job);

/**
 * "the links from host b carry 9.8 MB/s, others 96" (links.c): large messages, while ranks waited
 * for them, of late.
 * @return false, and no text: no link is slow
 */
bool links_text(const struct recorded_job *job, char *text, size_t capacity);

#endif
