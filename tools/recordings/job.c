/*
 * Loads the recordings of a folder.
 */
#include "tools/recordings/job.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    PATH_BYTES = 4096
};

static const char prefix[] = "rank.";

static bool is_recording_name(const char *name)
{
    int64_t number;

    return strncmp(name, prefix, sizeof prefix - 1) == 0 &&
            text_to_int64(name + sizeof prefix - 1, &number) && number >= 0;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct recording_of *x = a;
    const struct recording_of *y = b;

    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* False for a recording of another job, or of a rank that is already loaded. */
static bool fits(const struct recorded_job *job, const struct recording_of *recording)
{
    for (size_t r = 0; r < job->count; r++) {
        if (job->ranks[r].rank == recording->rank) {
            return false;
        }
    }
    return job->count == 0 || job->size == recording->size;
}

static tutti_status load_one(
        struct recorded_job *job, size_t *capacity, const char *path, FILE *complaints)
{
    struct recording_of recording;
    const tutti_status status = recording_load(&recording, path);

    if (status != TUTTI_OK) {
        (void)fprintf(complaints, "%s: %s\n", path, tutti_last_error());
        return TUTTI_OK;
    }
    if (!fits(job, &recording)) {
        (void)fprintf(complaints, "%s: of another job\n", path);
        recording_fini(&recording);
        return TUTTI_OK;
    }
    if (!mem_grow(&job->ranks, capacity, job->count + 1, sizeof *job->ranks)) {
        recording_fini(&recording);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the recordings");
    }
    job->size = recording.size;
    job->ranks[job->count++] = recording;
    return TUTTI_OK;
}

static tutti_status load_all(
        struct recorded_job *job, DIR *folder, const char *name, FILE *complaints)
{
    tutti_status status = TUTTI_OK;
    const struct dirent *entry;
    char path[PATH_BYTES];
    size_t capacity = 0;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is read by one thread */
    while (status == TUTTI_OK && (entry = readdir(folder)) != NULL) {
        if (is_recording_name(entry->d_name) &&
                snprintf(path, sizeof path, "%s/%s", name, entry->d_name) <
                        (int)sizeof path) {
            status = load_one(job, &capacity, path, complaints);
        }
    }
    if (status == TUTTI_OK && job->count == 0) {
        status = error_set(TUTTI_ERR_SYSTEM, "%s: no recordings (rank.N) there", name);
    }
    return status;
}

tutti_status recorded_job_load(
        struct recorded_job *job, const char *folder, FILE *complaints)
{
    DIR *opened = opendir(folder);
    tutti_status status;

    *job = (struct recorded_job){ .count = 0 };
    if (opened == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read %s", folder);
    }
    status = load_all(job, opened, folder, complaints);
    (void)closedir(opened);
    if (status == TUTTI_OK) {
        qsort(job->ranks, job->count, sizeof *job->ranks, compare_ranks);
        status = clocks_align(job);
    }
    if (status != TUTTI_OK) {
        recorded_job_fini(job);
    }
    return status;
}

void recorded_job_fini(struct recorded_job *job)
{
    for (size_t r = 0; r < job->count; r++) {
        recording_fini(&job->ranks[r]);
    }
    mem_free(job->ranks);
    *job = (struct recorded_job){ .count = 0 };
}

void recorded_job_window(
        const struct recorded_job *job, int64_t *begin_ns, int64_t *end_ns)
{
    *begin_ns = INT64_MAX;
    *end_ns = INT64_MIN;
    for (size_t r = 0; r < job->count; r++) {
        const struct recording_of *recording = &job->ranks[r];
        int64_t begin;
        int64_t end;

        if (recording->event_count > 0) {
            recording_window(recording, &begin, &end);
            begin += recording->to_real_ns;
            end += recording->to_real_ns;
            *begin_ns = begin < *begin_ns ? begin : *begin_ns;
            *end_ns = end > *end_ns ? end : *end_ns;
        }
    }
    if (*end_ns <= *begin_ns) { /* of no event, or of one */
        *begin_ns = *end_ns == INT64_MIN ? 0 : *begin_ns;
        *end_ns = *begin_ns + 1;
    }
}
