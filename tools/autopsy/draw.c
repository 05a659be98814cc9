/*
 * An autopsy as a drawing: a row for each rank, time from left to right.
 */
#include "base/error.h"
#include "tools/autopsy/autopsy.h"
#include "tools/autopsy/svg.h"

enum {
    ROW = 34,
    WORDS = 256
};

#define SECOND 1e9

static void draw_event(const struct svg *svg, const struct recording_of *recording,
        size_t at, double y)
{
    const struct recorder_event *event = &recording->events[at];
    const int64_t end_ns = recorded_end_ns(recording, at);
    int64_t times[2] = { event->time_ns + recording->to_real_ns,
        end_ns == 0 ? svg->end : end_ns + recording->to_real_ns };

    switch (event->kind) {
    case RECORDER_WAIT:
        svg_bar(svg, times, y + SVG_BAR, "#c8c8c8");
        break;
    case RECORDER_LAUNCHED:
        svg_bar(svg, times, y, "#3b78c2");
        break;
    case RECORDER_TAKEN:
        times[1] = times[0];
        svg_bar(svg, times, y + SVG_BAR, "#2a8f4f");
        break;
    case RECORDER_STALL:
    case RECORDER_ERROR:
    case RECORDER_FAILURE:
        times[1] = times[0];
        svg_bar(svg, times, y, "#c23b3b");
        break;
    case RECORDER_FINISHED:
    case RECORDER_LEFT:
    case RECORDER_PLAN_LEFT:
    case RECORDER_STEP:
    case RECORDER_AGREED:
    case RECORDER_MEMBERS:
    case RECORDER_PACKED:
    case RECORDER_REDUCED:
    case RECORDER_UNPACKED:
    case RECORDER_NOTHING:
    case RECORDER_KINDS:
        break;
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

        analysis_rank_text(&job->ranks[r], name, sizeof name);
        svg_name(&svg, y, name, (int)r == analysis->culprit ? "#c23b3b" : NULL);
        for (size_t i = 0; i < job->ranks[r].event_count; i++) {
            draw_event(&svg, &job->ranks[r], i, y);
        }
    }
    svg_end(&svg);
}
