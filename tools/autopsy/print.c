/*
 * An autopsy in words.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tools/autopsy/autopsy.h"
#include "tools/recordings/account.h"

enum {
    WORDS = 512,
    SHORT_SLOW_MAX = 8 /* slow ranks that are named in short */
};

#define SECOND 1e9
#define MILLISECOND 1e6

/* An event among those of all ranks. */
struct moment {
    int64_t real_ns;
    const struct recording_of *recording;
    const struct recorder_event *event;
};

static int compare_moments(const void *a, const void *b)
{
    const struct moment *x = a;
    const struct moment *y = b;

    return x->real_ns < y->real_ns ? -1 : x->real_ns > y->real_ns;
}

static void print_event(FILE *file, const struct recording_of *recording,
        const struct recorder_event *e)
{
    static const char *const texts[RECORDER_KINDS] = {
        [RECORDER_STALL] = "reported a stall",
        [RECORDER_ERROR] = "has an operation that failed",
        [RECORDER_FAILURE] = "has a context that failed",
    };
    char name[WORDS] = "";

    if (e->tensor > 0) { /* which use it was is known of the last alone */
        const struct recorded_tensor *tensor = &recording->tensors[e->tensor - 1];

        (void)snprintf(name, sizeof name, "%s \"%s\"", recorded_collective(tensor),
                tensor->name);
    }
    if (texts[e->kind] != NULL) {
        (void)fprintf(file, "%s\n", texts[e->kind]);
    } else if (e->kind == RECORDER_TAKEN) {
        (void)fprintf(file, "submitted %" PRIu64 ", up to %s\n", e->amount, name);
    } else if (e->kind == RECORDER_LAUNCHED) {
        (void)fprintf(file,
                "began batch %" PRIu64
                " of process set %u, %s, after %.3g ms for the others\n",
                e->place, e->set, name, (double)e->amount / MILLISECOND);
    } else if (e->kind == RECORDER_FINISHED) {
        (void)fprintf(file,
                "ended batch %" PRIu64 " of process set %u, %" PRIu64 " tensors\n",
                e->place, e->set, e->amount);
    } else if (e->kind == RECORDER_WAIT || e->kind == RECORDER_LEFT) {
        (void)fprintf(file, "%s %s\n",
                e->kind == RECORDER_WAIT ? "waits for" : "has waited for", name);
    } else if (e->kind == RECORDER_STEP) {
        (void)fprintf(file, "began step %" PRIu64 "\n", e->place);
    } else {
        (void)fprintf(file, "(of a batch, for tutti-trace)\n");
    }
}

static size_t gather_moments(const struct recorded_job *job, struct moment **moments)
{
    size_t count = 0;

    for (size_t r = 0; r < job->count; r++) {
        count += job->ranks[r].event_count;
    }
    *moments = mem_calloc(count + 1, sizeof **moments);
    count = 0;
    for (size_t r = 0; r < job->count && *moments != NULL; r++) {
        const struct recording_of *recording = &job->ranks[r];

        for (size_t i = 0; i < recording->event_count; i++) {
            (*moments)[count++] = (struct moment){
                .real_ns = recording->events[i].time_ns + recording->to_real_ns,
                .recording = recording,
                .event = &recording->events[i],
            };
        }
    }
    return count;
}

static void print_timeline(FILE *file, const struct recorded_job *job, size_t events)
{
    struct moment *moments;
    const size_t count = gather_moments(job, &moments);
    size_t first;

    if (count == 0 || moments == NULL) {
        mem_free(moments);
        return;
    }
    qsort(moments, count, sizeof *moments, compare_moments);
    first = count > events ? count - events : 0;
    (void)fprintf(file, "\nLast events (seconds before the last of them)\n");
    for (size_t i = first; i < count; i++) {
        (void)fprintf(file, "  %12.6f  rank %d ",
                (double)(moments[i].real_ns - moments[count - 1].real_ns) / SECOND,
                moments[i].recording->rank);
        print_event(file, moments[i].recording, moments[i].event);
    }
    mem_free(moments);
}

static void print_text(FILE *file, const char *what, const char *text)
{
    if (text[0] != '\0') {
        (void)fprintf(file, "    %s: %s\n", what, text);
    }
}

bool autopsy_time_text(
        const struct recording_of *recording, char *text, size_t capacity)
{
    struct account whole;
    double percent;

    if (!account_whole(&whole, recording)) {
        return false;
    }
    percent = 100.0 / whole.total;
    (void)snprintf(text, capacity,
            "of %.3g s, %.0f %% outside tutti (batches moved in %.0f %%), %.0f %% in "
            "it while "
            "batches moved, %.0f %% in it for other ranks, %.0f %% in it otherwise",
            whole.total / SECOND, percent * whole.parts[PART_COMPUTE],
            percent * whole.hidden, percent * (whole.moving - whole.hidden),
            percent * (whole.parts[PART_AGREEMENT] + whole.parts[PART_SLOWEST]),
            percent * whole.parts[PART_OTHER]);
    return true;
}

static void print_rank(
        FILE *file, const struct recording_of *recording, const struct blame *blame)
{
    char words[2 * WORDS];

    recorded_rank_text(recording, words, sizeof words);
    (void)fprintf(file, "  %s, pid %d", words, recording->pid);
    if (recording->is_finalized) {
        (void)fprintf(file, ": it has finalized\n");
        return;
    }
    analysis_last_text(recording, words, sizeof words);
    (void)fprintf(file, ": %s\n", words);
    print_text(file, "its process", recording->process);
    if (autopsy_time_text(recording, words, sizeof words)) {
        print_text(file, "its time", words);
    }
    if (blame->tensors > 0 && blame->first != NULL) {
        analysis_tensor_text(blame->first, words, sizeof words);
        (void)fprintf(file, "    it has not submitted: %s%s\n", words,
                blame->tensors > 1 ? " and more" : "");
    }
    print_text(file, "stall", recording->stall);
    print_text(file, "failed operation", recording->error);
    print_text(file, "failed context", recording->failure);
}

static void print_slow(
        FILE *file, const struct recorded_job *job, const struct analysis *analysis)
{
    bool any = false;

    for (size_t r = 0; r < job->count; r++) {
        char words[2 * WORDS];

        if (lateness_text(
                    &job->ranks[r], &analysis->lateness[r], words, sizeof words)) {
            (void)fprintf(file, "%s  %s\n", any ? "" : "\nSlow ranks\n", words);
            any = true;
        }
    }
}

static void print_links(FILE *file, const struct recorded_job *job)
{
    char words[2 * WORDS];

    if (links_text(job, words, sizeof words)) {
        (void)fprintf(file, "\nSlow links\n  %s\n", words);
    }
}

static void print_absent(FILE *file, const struct recorded_job *job)
{
    if (job->count < (size_t)job->size) {
        (void)fprintf(file, "  %zu of %d ranks have left no recording here\n",
                (size_t)job->size - job->count, job->size);
    }
}

void autopsy_print(FILE *file, const struct recorded_job *job,
        const struct analysis *analysis, size_t events)
{
    (void)fprintf(file, "%s\n\nRanks\n", analysis->conclusion);
    for (size_t r = 0; r < job->count; r++) {
        print_rank(file, &job->ranks[r], &analysis->blames[r]);
    }
    print_absent(file, job);
    print_slow(file, job, analysis);
    print_links(file, job);
    print_timeline(file, job, events);
}

void autopsy_print_short(
        FILE *file, const struct recorded_job *job, const struct analysis *analysis)
{
    char words[2 * WORDS];
    size_t slow = 0;

    (void)fprintf(file, "%s\n", analysis->conclusion);
    if (links_text(job, words, sizeof words)) {
        (void)fprintf(file, "%s\n", words);
    }
    for (size_t r = 0; r < job->count; r++) {
        if (lateness_text(
                    &job->ranks[r], &analysis->lateness[r], words, sizeof words) &&
                ++slow <= SHORT_SLOW_MAX) {
            (void)fprintf(file, "%s\n", words);
        }
    }
    if (slow > SHORT_SLOW_MAX) {
        (void)fprintf(file, "%zu more ranks are slow\n", slow - SHORT_SLOW_MAX);
    }
}
