/*
 * A step as a drawing: for each rank its batches, above what it waits for.
 */
#include <inttypes.h>

#include "base/error.h"
#include "tools/recordings/svg.h"
#include "tools/trace/trace.h"

enum {
    ROW = 46,
    WORDS = 256
};

static const char legend[] = "first row: batches that move (blue), copies into fusion "
                             "buffers and out of them "
                             "(dark blue); second: agreement (yellow), the slowest "
                             "rank is awaited (orange); "
                             "third: the program waits in tutti (grey)";

static void draw_span(const struct svg *svg, const struct recording_of *recording,
        const int64_t span[2], double y, const char *color)
{
    const int64_t times[2] = { span[0] + recording->to_real_ns,
        span[1] + recording->to_real_ns };

    if (span[0] < span[1]) {
        svg_bar(svg, times, y, color);
    }
}

/* From `length` before a time to it. */
static void draw_before(const struct svg *svg, const struct recording_of *recording,
        int64_t end_ns, int64_t length, double y)
{
    draw_span(
            svg, recording, (const int64_t[]){ end_ns - length, end_ns }, y, "#1d3f6b");
}

static void draw_batch(const struct svg *svg, const struct recording_of *recording,
        const struct traced_batch *batch, double y)
{
    const int64_t came_ns = batch->complete_ns + batch->awaited_ns;

    draw_span(svg, recording, (const int64_t[]){ batch->launch_ns, batch->end_ns }, y,
            "#3b78c2");
    draw_before(svg, recording, batch->packed_ns, batch->pack_ns, y);
    draw_before(svg, recording, batch->unpacked_ns, batch->unpack_ns, y);
    draw_span(svg, recording, (const int64_t[]){ came_ns, batch->agreed_ns },
            y + SVG_BAR, "#e3c53b");
    draw_span(svg, recording, (const int64_t[]){ batch->complete_ns, came_ns },
            y + SVG_BAR, "#e07b28");
}

static void draw_rank(const struct svg *svg, const struct traced_rank *rank, double y)
{
    const struct recording_of *recording = rank->recording;

    for (size_t b = 0; b < rank->batch_count; b++) {
        draw_batch(svg, recording, &rank->batches[b], y);
    }
    for (size_t i = 0; i < recording->event_count; i++) {
        if (recording->events[i].kind == RECORDER_WAIT) {
            const int64_t end_ns = recorded_end_ns(recording, i);

            draw_span(svg, recording,
                    (const int64_t[]){ recording->events[i].time_ns,
                            end_ns == 0 ? recording->end_ns : end_ns },
                    y + 2 * SVG_BAR, "#c8c8c8");
        }
    }
}

/* False when no rank has it. */
static bool find_window(const struct trace *trace, uint64_t number, struct svg *svg)
{
    svg->begin = INT64_MAX;
    svg->end = INT64_MIN;
    for (size_t r = 0; r < trace->job->count; r++) {
        const struct traced_step *step = trace_step(&trace->ranks[r], number);
        const int64_t to_real_ns = trace->job->ranks[r].to_real_ns;

        if (step != NULL) {
            const int64_t begin = step->begin_ns + to_real_ns;
            const int64_t end = step->end_ns + to_real_ns;

            svg->begin = begin < svg->begin ? begin : svg->begin;
            svg->end = end > svg->end ? end : svg->end;
        }
    }
    return svg->begin < svg->end;
}

tutti_status trace_draw_step(FILE *file, const struct trace *trace, uint64_t number)
{
    struct svg svg = { .file = file };
    char title[WORDS];

    if (!find_window(trace, number, &svg)) {
        return error_set(TUTTI_ERR_INVALID,
                "no rank has recorded step %" PRIu64
                "; tutti-trace summary says which there are",
                number);
    }
    (void)snprintf(title, sizeof title, "step %" PRIu64 ", %.3f ms", number,
            (double)(svg.end - svg.begin) / 1e6);
    svg_begin(&svg, SVG_TOP + ROW * (int)trace->job->count + 10, title, legend);
    for (size_t r = 0; r < trace->job->count; r++) {
        const double y = SVG_TOP + ROW * (double)r;
        char name[WORDS];

        recorded_rank_text(&trace->job->ranks[r], name, sizeof name);
        svg_name(&svg, y, name, NULL);
        draw_rank(&svg, &trace->ranks[r], y);
    }
    svg_end(&svg);
    return TUTTI_OK;
}
