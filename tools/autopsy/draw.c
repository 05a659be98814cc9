/*
 * An autopsy as a drawing: a row for each rank, time from left to right.
 */
#include "base/error.h"
#include "tools/autopsy/autopsy.h"
#include "tools/recordings/svg.h"

enum {
    ROW = 34,
    WORDS = 256
};

#define SECOND 1e9

/* What lasts is a bar, and what does not a mark; waits and submissions are below. */
static void draw_event(const struct svg *svg, const struct recording_of *recording,
        size_t at, double y)
{
    static const char *const colors[RECORDER_KINDS] = {
        [RECORDER_WAIT] = "#c8c8c8",
        [RECORDER_LAUNCHED] = "#3b78c2",
        [RECORDER_TAKEN] = "#2a8f4f",
        [RECORDER_STALL] = "#c23b3b",
        [RECORDER_ERROR] = "#c23b3b",
        [RECORDER_FAILURE] = "#c23b3b",
    };
    const enum recorder_kind kind = recording->events[at].kind;
    int64_t times[2] = { recording->events[at].time_ns + recording->to_real_ns };

    times[1] = times[0];
    if (kind == RECORDER_WAIT || kind == RECORDER_LAUNCHED) {
        const int64_t end_ns = recorded_end_ns(recording, at);

        times[1] = end_ns == 0 ? svg->end : end_ns + recording->to_real_ns;
    }
    if (colors[kind] != NULL) {
        const bool is_below = kind == RECORDER_WAIT || kind == RECORDER_TAKEN;

        svg_bar(svg, times, is_below ? y + SVG_BAR : y, colors[kind]);
    }
}

void autopsy_draw(
        FILE *file, const struct recorded_job *job, const struct analysis *analysis)
{
    struct svg svg = { .file = file };
    char legend[WORDS];

    recorded_job_window(job, &svg.begin, &svg.end);
    (void)snprintf(legend, sizeof legend,
            "%.3g s; blue: a batch moves; grey: a thread waits in tutti; green: "
            "submissions; red: a stall or a failure",
            (double)(svg.end - svg.begin) / SECOND);
    svg_begin(&svg, SVG_TOP + ROW * (int)job->count + 10, analysis->conclusion, legend);
    for (size_t r = 0; r < job->count; r++) {
        const double y = SVG_TOP + ROW * (double)r;
        char name[WORDS];

        recorded_rank_text(&job->ranks[r], name, sizeof name);
        svg_name(&svg, y, name, (int)r == analysis->culprit ? "#c23b3b" : NULL);
        for (size_t i = 0; i < job->ranks[r].event_count; i++) {
            draw_event(&svg, &job->ranks[r], i, y);
        }
    }
    svg_end(&svg);
}
