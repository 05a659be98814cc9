/*
 * tutti-autopsy: reports on the recordings in a folder, as text and as SVG. tuttirun runs it to print the
 * diagnosis while a job runs, and at its end.
 */
#ifndef TUTTI_TOOLS_AUTOPSY_AUTOPSY_H
#define TUTTI_TOOLS_AUTOPSY_AUTOPSY_H

#include <stdio.h>

#include "tools/autopsy/analysis.h"

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
 * The conclusion, then each rank and where its time went, slow ranks and links, and the last
 * `events` events of all.
 */
void autopsy_print(FILE *file, const struct recorded_job *job,
        const struct analysis *analysis, size_t events);
/** The conclusion, slow links and slow ranks alone, a line each. */
void autopsy_print_short(
        FILE *file, const struct recorded_job *job, const struct analysis *analysis);
/**
 * "rank 5 on b arrives 31 ms after the median of all in 94 % of the last 60 batches".
 * @param at  the recording
 * @return false, and no text: the rank is not slow
 */
bool autopsy_slow_text(const struct recorded_job *job, const struct analysis *analysis,
        size_t at, char *text, size_t capacity);
/**
 * "the links from host b carry 9.8 MB/s, others 96" (links.c): large messages, while ranks waited
 * for them, of late.
 * @return false, and no text: no link is slow
 */
bool autopsy_links_text(const struct recorded_job *job, char *text, size_t capacity);
/**
 * Where the time of a rank went, as far back as it is recorded: "of 3.2 s, 81 % outside tutti
 * (batches moved in 60 %), 12 % in it while batches moved, 7 % in it for other ranks, 0 % in it
 * otherwise" (shares.c).
 * @return false, and no text: too little is recorded
 */
bool autopsy_shares_text(
        const struct recording_of *recording, char *text, size_t capacity);
/** What ranks did over time, as SVG. */
void autopsy_draw(
        FILE *file, const struct recorded_job *job, const struct analysis *analysis);

#endif
