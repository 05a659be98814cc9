/*
 * Aligns the clocks of several hosts. Ranks of one host share a clock. Between hosts the time of day
 * differs by what NTP leaves, but a batch begins on all ranks within the latency of a message, when they
 * know that the last rank has arrived. So the clocks differ by the median of the differences between the
 * beginnings of the same batches.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tools/recordings/job.h"

/* By how much later each common batch begins by the time of day of the second. */
static size_t find_differences(const struct recording_of *first,
        const struct recording_of *second, int64_t *differences)
{
    size_t count = 0;
    size_t from = 0;

    for (size_t i = 0; i < first->event_count; i++) {
        const struct recorder_event *event = &first->events[i];
        const struct recorder_event *same = NULL;

        if (event->kind == RECORDER_LAUNCHED && event->set == TUTTI_WORLD) {
            same = recorded_batch(second, &from, event);
        }
        if (same != NULL) {
            differences[count++] = same->time_ns + second->to_real_ns - event->time_ns -
                    first->to_real_ns;
        }
    }
    return count;
}

tutti_status clocks_align(struct recorded_job *job)
{
    const struct recording_of *first = &job->ranks[0];
    int64_t *differences = mem_calloc(first->event_count + 1, sizeof *differences);

    if (differences == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    for (size_t r = 1; r < job->count; r++) {
        struct recording_of *other = &job->ranks[r];
        size_t count = 0;

        if (strcmp(first->host, other->host) != 0) {
            count = find_differences(first, other, differences);
        }
        if (count > 0) {
            qsort(differences, count, sizeof *differences, recorded_compare_times);
            other->to_real_ns -= differences[count / 2];
        }
    }
    mem_free(differences);
    return TUTTI_OK;
}
