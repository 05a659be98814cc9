/*
 * Which ranks are slow. A batch begins everywhere when the last rank has come, so who has waited
 * least for it came last, whatever the clocks of hosts say.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/autopsy/analysis.h"

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* How long a rank waited for the others before a batch; -1: it is not recorded. */
static int64_t waited_for(const struct recording_of *recording, size_t *from,
        const struct recorder_event *batch)
{
    for (size_t i = *from; i < recording->event_count; i++) {
        const struct recorder_event *event = &recording->events[i];

        if (event->kind == RECORDER_LAUNCHED && event->set == batch->set &&
                event->lane == batch->lane && event->place >= batch->place) {
            *from = event->place == batch->place ? i : *from;
            return event->place == batch->place ? (int64_t)event->amount : -1;
        }
    }
    return -1;
}

static void compare_arrivals(
        struct analysis *analysis, const int64_t *waited, int64_t *sorted)
{
    const size_t count = analysis->count;

    memcpy(sorted, waited, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_times);
    for (size_t r = 0; r < count; r++) {
        const int64_t late = sorted[count / 2] - waited[r];

        analysis->lateness[r].batches++;
        if (late > LATE_NS) {
            analysis->lateness[r].late++;
            analysis->lateness[r].sum_ns += late;
        }
    }
}

tutti_status lateness_find(struct analysis *analysis, const struct recorded_job *job)
{
    int64_t *waited = mem_calloc(2 * job->count + 1, sizeof *waited);
    size_t *from = mem_calloc(job->count + 1, sizeof *from);
    const bool enough = waited != NULL && from != NULL;

    for (size_t i = 0; enough && job->count > 1 && i < job->ranks[0].event_count; i++) {
        const struct recorder_event *batch = &job->ranks[0].events[i];
        bool all = batch->kind == RECORDER_LAUNCHED && batch->set == TUTTI_WORLD;

        for (size_t r = 0; r < job->count && all; r++) {
            waited[r] = waited_for(&job->ranks[r], &from[r], batch);
            all = waited[r] >= 0;
        }
        if (all) {
            compare_arrivals(analysis, waited, waited + job->count);
        }
    }
    mem_free(waited);
    mem_free(from);
    return enough ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}
