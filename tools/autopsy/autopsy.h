/*
 * tutti-autopsy: reports on the recordings in a folder, as text and as SVG. tuttirun runs it to print the
 * diagnosis while a job runs, and at its end.
 */
#ifndef TUTTI_TOOLS_AUTOPSY_AUTOPSY_H
#define TUTTI_TOOLS_AUTOPSY_AUTOPSY_H

#include <stdio.h>

#include "tools/autopsy/analysis.h"

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
 * Where the time of a rank went, as far back as it is recorded: "of 3.2 s, 81 % outside tutti
 * (batches moved in 60 %), 12 % in it while batches moved, 7 % in it for other ranks, 0 % in it
 * otherwise".
 * @return false, and no text: too little is recorded
 */
bool autopsy_time_text(
        const struct recording_of *recording, char *text, size_t capacity);
/** What ranks did over time, as SVG. */
void autopsy_draw(
        FILE *file, const struct recorded_job *job, const struct analysis *analysis);

#endif
