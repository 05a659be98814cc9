/*
 * An autopsy as a drawing: a row for each rank, time from left to right.
 */
#include <string.h>

#include "base/error.h"
#include "launcher/autopsy/autopsy.h"

enum {
    WIDTH = 1200,
    LEFT = 130, /* of the rows: names of ranks */
    TOP = 60,
    ROW = 34,
    BAR = 10
};

#define SECOND 1e9

/* What is drawn, by the time of day. */
struct window {
    FILE *file;
    int64_t begin, end;
};

static double x_of(const struct window *window, int64_t real_ns)
{
    const double span = (double)(window->end - window->begin);

    return LEFT + (double)(real_ns - window->begin) / span * (WIDTH - LEFT - 10);
}

static void put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            (void)fputs("&lt;", file);
            break;
        case '&':
            (void)fputs("&amp;", file);
            break;
        default:
            (void)fputc(*text, file);
        }
    }
}

static void put_bar(const struct window *window, const int64_t times[2], double y,
        const char *color)
{
    const double from = x_of(window, times[0]);
    const double to = x_of(window, times[1]);

    (void)fprintf(window->file,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n",
            from, y, to - from > 0.5 ? to - from : 0.5, BAR, color);
}

static void draw_event(const struct window *window,
        const struct recording_of *recording, size_t at, double y)
{
    const struct recorder_event *event = &recording->events[at];
    const int64_t end_ns = recorded_end_ns(recording, at);
    int64_t times[2] = { event->time_ns + recording->to_real_ns,
        end_ns == 0 ? window->end : end_ns + recording->to_real_ns };

    switch (event->kind) {
    case RECORDER_WAIT:
        put_bar(window, times, y + BAR, "#c8c8c8");
        break;
    case RECORDER_LAUNCHED:
        put_bar(window, times, y, "#3b78c2");
        break;
    case RECORDER_TAKEN:
        times[1] = times[0];
        put_bar(window, times, y + BAR, "#2a8f4f");
        break;
    case RECORDER_STALL:
    case RECORDER_ERROR:
    case RECORDER_FAILURE:
        times[1] = times[0];
        put_bar(window, times, y, "#c23b3b");
        break;
    case RECORDER_FINISHED:
    case RECORDER_LEFT:
    case RECORDER_PLAN_LEFT:
    case RECORDER_NOTHING:
    case RECORDER_KINDS:
        break;
    }
}

void autopsy_draw(
        FILE *file, const struct recorded_job *job, const struct analysis *analysis)
{
    struct window window = { .file = file };

    recorded_job_window(job, &window.begin, &window.end);
    (void)fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"8\" y=\"18\">",
            WIDTH, TOP + ROW * job->count + 10);
    put_text(file, analysis->conclusion);
    (void)fprintf(file,
            "</text>\n<text x=\"8\" y=\"38\" fill=\"#666\">%.3g s; blue: a batch "
            "moves; "
            "grey: a thread waits in tutti; green: submissions; red: a stall or a "
            "failure</text>\n",
            (double)(window.end - window.begin) / SECOND);
    for (size_t r = 0; r < job->count; r++) {
        const double y = TOP + ROW * (double)r;
        char name[128];

        analysis_rank_text(&job->ranks[r], name, sizeof name);
        (void)fprintf(file, "<text x=\"8\" y=\"%.1f\"%s>", y + BAR + 4,
                (int)r == analysis->culprit ? " fill=\"#c23b3b\"" : "");
        put_text(file, name);
        (void)fprintf(file, "</text>\n");
        for (size_t i = 0; i < job->ranks[r].event_count; i++) {
            draw_event(&window, &job->ranks[r], i, y);
        }
    }
    (void)fprintf(file, "</svg>\n");
}
