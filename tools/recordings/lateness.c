/*
 * Finds slow ranks. A batch begins everywhere when the last rank has arrived, so the rank that has waited
 * least arrived last; clocks of hosts are not compared. Of batches that a rank has submitted together only
 * the first counts, since a rank that is late for it is late for all of them.
 */
#include "tools/recordings/lateness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/*
 * A rank is slow when it is late for most batches, by an amount that matters. One rank is always last:
 * each of two ranks with random disturbances is last in half of the batches, and in three quarters of
 * thirty only once in hundreds of jobs.
 */
enum {
    PERCENT = 100,
    BATCHES_MIN = 30,
    LATE_PERCENT = 75,
    TIME_PERCENT = 1,
    RANK_BYTES = 128 /* of a rank's name and host */
};

/* Later than that, a rank was late for a batch. */
#define LATE_NS INT64_C(1000000)

/* What is known of all batches. */
struct arrivals {
    int64_t *waited; /* of each rank, for one batch                           */
    int64_t *sorted; /* likewise                                              */
    int64_t *late; /* [rank][capacity]: by how much, where it was            */
    size_t *from; /* of each rank, the event from which to search          */
    size_t capacity;
    int64_t first_ns, last_ns; /* when batches began, by the clock of the first rank */
    int64_t submitted_ns; /* when that one had submitted the last of them        */
};

/* How long a rank waited for the others before a batch; -1: it is not recorded. */
static int64_t waited_for(const struct recording_of *recording, size_t *from,
        const struct recorder_event *batch)
{
    const struct recorder_event *same = recorded_batch(recording, from, batch);

    return same != NULL && same->amount <= INT64_MAX / 4 ? (int64_t)same->amount : -1;
}

/* True when all ranks have recorded it. */
static bool find_arrivals(struct arrivals *arrivals, const struct recorded_job *job,
        const struct recorder_event *batch)
{
    bool all = batch->kind == RECORDER_LAUNCHED && batch->set == TUTTI_WORLD;

    for (size_t r = 0; r < job->count && all; r++) {
        arrivals->waited[r] = waited_for(&job->ranks[r], &arrivals->from[r], batch);
        all = arrivals->waited[r] >= 0;
    }
    return all && batch->time_ns >= arrivals->waited[0];
}

/* False when the first rank had submitted the one before at the same time. */
static bool is_new(struct arrivals *arrivals, const struct recorder_event *batch)
{
    const int64_t submitted_ns = batch->time_ns - arrivals->waited[0];
    const bool is_first = arrivals->first_ns == 0;

    if (!is_first && submitted_ns - arrivals->submitted_ns < LATE_NS) {
        return false;
    }
    arrivals->first_ns = is_first ? batch->time_ns : arrivals->first_ns;
    arrivals->last_ns = batch->time_ns;
    arrivals->submitted_ns = submitted_ns;
    return true;
}

static void compare_arrivals(
        struct lateness *all, struct arrivals *arrivals, size_t count)
{
    memcpy(arrivals->sorted, arrivals->waited, count * sizeof *arrivals->sorted);
    qsort(arrivals->sorted, count, sizeof *arrivals->sorted, recorded_compare_times);
    for (size_t r = 0; r < count; r++) {
        const int64_t late = arrivals->sorted[count / 2] - arrivals->waited[r];
        struct lateness *lateness = &all[r];

        lateness->batches++;
        if (late > LATE_NS) {
            arrivals->late[r * arrivals->capacity + lateness->late] = late;
            lateness->late++;
        }
    }
}

static void judge(struct lateness *lateness, int64_t *late, int64_t span_ns)
{
    double sum_ns = 0;

    if (lateness->late == 0) {
        return;
    }
    qsort(late, lateness->late, sizeof *late, recorded_compare_times);
    for (size_t i = 0; i < lateness->late; i++) {
        sum_ns += (double)late[i];
    }
    lateness->median_ns = late[lateness->late / 2];
    lateness->is_slow = lateness->batches >= BATCHES_MIN &&
            PERCENT * lateness->late >= LATE_PERCENT * lateness->batches &&
            PERCENT * sum_ns >= TIME_PERCENT * (double)span_ns;
}

static void find_all(struct lateness *lateness, const struct recorded_job *job,
        struct arrivals *arrivals)
{
    for (size_t i = 0; i < job->ranks[0].event_count; i++) {
        const struct recorder_event *batch = &job->ranks[0].events[i];

        if (find_arrivals(arrivals, job, batch) && is_new(arrivals, batch)) {
            compare_arrivals(lateness, arrivals, job->count);
        }
    }
    for (size_t r = 0; r < job->count; r++) {
        judge(&lateness[r], arrivals->late + r * arrivals->capacity,
                arrivals->last_ns - arrivals->first_ns);
    }
}

tutti_status lateness_find(struct lateness *lateness, const struct recorded_job *job)
{
    struct arrivals arrivals = { .capacity = 0 };
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    if (job->count < 2) {
        return TUTTI_OK;
    }
    for (size_t i = 0; i < job->ranks[0].event_count; i++) {
        arrivals.capacity += job->ranks[0].events[i].kind == RECORDER_LAUNCHED ? 1 : 0;
    }
    arrivals.waited = mem_calloc(job->count, sizeof *arrivals.waited);
    arrivals.sorted = mem_calloc(job->count, sizeof *arrivals.sorted);
    arrivals.from = mem_calloc(job->count, sizeof *arrivals.from);
    arrivals.late =
            mem_calloc(job->count * (arrivals.capacity + 1), sizeof *arrivals.late);
    if (arrivals.waited != NULL && arrivals.sorted != NULL && arrivals.from != NULL &&
            arrivals.late != NULL) {
        find_all(lateness, job, &arrivals);
        status = TUTTI_OK;
    }
    mem_free(arrivals.waited);
    mem_free(arrivals.sorted);
    mem_free(arrivals.from);
    mem_free(arrivals.late);
    return status;
}

bool lateness_text(const struct recording_of *recording,
        const struct lateness *lateness, char *text, size_t capacity)
{
    char rank[RANK_BYTES];

    if (!lateness->is_slow) {
        return false;
    }
    recorded_rank_text(recording, rank, sizeof rank);
    (void)snprintf(text, capacity,
            "%s arrives %.3g ms after the median of all in %.0f %% of the last %zu "
            "batches",
            rank, (double)lateness->median_ns / 1e6,
            100.0 * (double)lateness->late / (double)lateness->batches,
            lateness->batches);
    return true;
}
