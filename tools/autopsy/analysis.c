/*
 * Finds why a job makes no progress. The first of these that applies is the cause:
 *
 * - A rank has ended or was stopped, so it cannot submit.
 * - A rank has not submitted what another one waits for. If it waits itself, it is not the culprit. If
 *   all such ranks wait, they wait in a circle: the culprit is the only one that has left out a tensor
 *   and has gone on to a later step, else they submit and wait in different orders.
 * - A rank has submitted everything but does not take part, because its engine is stuck or for another
 *   reason.
 * - An operation or a context has failed with an error of the library.
 */
#include "tools/autopsy/analysis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "tools/autopsy/subjects.h"

enum {
    WORDS = 512 /* bytes of a part of a sentence */
};

#define SECOND 1e9
/* A shorter wait is not reported, unless something has failed. */
#define PATIENCE_S 0.1

/* ------------------------------------------------------------------ in words */

void analysis_tensor_text(
        const struct recorded_tensor *tensor, char *text, size_t capacity)
{
    char round[64] = "";

    if (tensor->step != 0) {
        (void)snprintf(round, sizeof round, " of step %" PRId64,
                (int64_t)(tensor->step + (uint64_t)TUTTI_NO_STEP));
    } else if (tensor->uses > 1) {
        (void)snprintf(round, sizeof round, ", its use number %" PRIu64, tensor->uses);
    }
    if (tensor->collective >= RECORDER_FIRST_INTERNAL) {
        (void)snprintf(text, capacity, "%s", recorded_collective(tensor));
    } else {
        (void)snprintf(text, capacity, "%s \"%s\"%s", recorded_collective(tensor),
                tensor->name, round);
    }
}

static const struct recorder_event *last_of(
        const struct recording_of *recording, unsigned kinds)
{
    for (size_t i = recording->event_count; i > 0; i--) {
        if ((kinds >> recording->events[i - 1].kind & 1) != 0) {
            return &recording->events[i - 1];
        }
    }
    return NULL;
}

static void event_tensor_text(const struct recording_of *recording,
        const struct recorder_event *event, const char *before, char *text,
        size_t capacity)
{
    size_t len;

    text[0] = '\0';
    if (event->tensor > 0) {
        (void)snprintf(text, capacity, "%s", before);
        len = strlen(text);
        analysis_tensor_text(
                &recording->tensors[event->tensor - 1], text + len, capacity - len);
    }
}

static double seconds_before_end(const struct recording_of *recording, int64_t time_ns)
{
    return (double)(recording->end_ns - time_ns) / SECOND;
}

void analysis_last_text(
        const struct recording_of *recording, char *text, size_t capacity)
{
    const unsigned waits = 1U << RECORDER_WAIT | 1U << RECORDER_LEFT;
    const struct recorder_event *event = last_of(recording, waits);
    char about[WORDS];
    double age;

    /* A rank that waits also processes what it has submitted before. */
    if (event == NULL || event->kind != RECORDER_WAIT) {
        event = last_of(recording, waits | 1U << RECORDER_TAKEN);
    }
    if (event == NULL) {
        (void)snprintf(text, capacity, "it has submitted nothing");
        return;
    }
    age = seconds_before_end(recording, event->time_ns);
    event_tensor_text(recording, event, event->kind == RECORDER_LEFT ? ", after " : " ",
            about, sizeof about);
    if (event->kind == RECORDER_WAIT) {
        (void)snprintf(
                text, capacity, "it waits in tutti for%s since %.3g s", about, age);
    } else if (event->kind == RECORDER_LEFT) {
        (void)snprintf(text, capacity, "it left tutti %.3g s ago%s", age, about);
    } else {
        (void)snprintf(text, capacity, "it last submitted, %.3g s ago,%s", age, about);
    }
}

/* Appends to the conclusion. */
static void __attribute__((format(printf, 2, 3)))
append(struct analysis *analysis, const char *format, ...)
{
    const size_t len = strlen(analysis->conclusion);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(analysis->conclusion + len, sizeof analysis->conclusion - len,
            format, args);
    va_end(args);
}

/* What the rank did last, and what its process is doing. */
static void append_activity(
        struct analysis *analysis, const struct recording_of *recording)
{
    char words[2 * WORDS];

    analysis_last_text(recording, words, sizeof words);
    append(analysis, "; %s", words);
    if (recording->process[0] != '\0') {
        append(analysis, "; its process %s", recording->process);
    }
}

/* "ranks 0-2, 4", of indices of recordings. */
static void ranks_text(const struct recorded_job *job, const struct bitset *indices,
        char *text, size_t capacity)
{
    char list[WORDS];
    struct bitset ranks;

    if (!bitset_init(&ranks, job->size)) {
        (void)snprintf(text, capacity, "some ranks");
        return;
    }
    for (size_t r = 0; r < job->count; r++) {
        if (bitset_has(indices, (int)r)) {
            bitset_add(&ranks, job->ranks[r].rank);
        }
    }
    (void)snprintf(text, capacity, "rank%s %s", bitset_count(indices) == 1 ? "" : "s",
            bitset_format(&ranks, NULL, list, sizeof list));
    bitset_fini(&ranks);
}

/* -------------------------------------------------------- which ranks are awaited */

static int64_t since_real(
        const struct recording_of *recording, const struct recorded_tensor *tensor)
{
    const int64_t at = recording_submitted_at(recording, tensor);

    return at == 0 ? INT64_MAX : at + recording->to_real_ns;
}

static void blame_one(struct blame *blame, const struct subject *subject,
        const struct recorded_job *job, const struct recorded_tensor *asked)
{
    blame->tensors++;
    for (size_t r = 0; r < job->count; r++) {
        int64_t since;

        if (!subject_waits(subject, r) || subject_misses(subject, job, r, asked)) {
            continue;
        }
        bitset_add(&blame->waiters, (int)r);
        since = since_real(&job->ranks[r], subject->of[r]);
        if (blame->first == NULL || since < blame->since_real_ns) {
            blame->since_real_ns = since;
            blame->first = subject->of[r];
        }
    }
}

static void blame_for(
        void *context, const struct recorded_job *job, const struct subject *subject)
{
    struct analysis *analysis = context;
    const struct recorded_tensor *asked = subject_asked(subject, job->count);
    size_t missing = 0;

    for (size_t r = 0; r < job->count && asked != NULL; r++) {
        if (subject_misses(subject, job, r, asked)) {
            missing++;
            blame_one(&analysis->blames[r], subject, job, asked);
        }
    }
    for (size_t r = 0; r < job->count && missing > 0; r++) {
        analysis->blames[r].waits = analysis->blames[r].waits ||
                (subject_waits(subject, r) && !subject_misses(subject, job, r, asked));
    }
}

/* The rank for which most others wait; -1: none. */
static int most_blamed(const struct analysis *analysis, bool even_if_it_waits)
{
    int most = -1;
    int waiters = 0;

    for (size_t r = 0; r < analysis->count; r++) {
        const struct blame *blame = &analysis->blames[r];
        const int count = bitset_count(&blame->waiters);

        if (blame->tensors > 0 && (even_if_it_waits || !blame->waits) &&
                count > waiters) {
            most = (int)r;
            waiters = count;
        }
    }
    return most;
}

/* Which round of its name: comparable within a job whose ranks began together. */
static uint64_t round_of(const struct recorded_tensor *tensor)
{
    return tensor->step != 0 ? tensor->step : tensor->uses;
}

/* In a circle, the only rank that lacks something of the earliest round; -1: there is none. */
static int find_first_to_part(const struct analysis *analysis)
{
    uint64_t earliest = UINT64_MAX;
    int found = -1;

    for (size_t r = 0; r < analysis->count; r++) {
        const struct blame *blame = &analysis->blames[r];

        if (blame->first == NULL) {
            continue;
        }
        if (round_of(blame->first) < earliest) {
            earliest = round_of(blame->first);
            found = (int)r;
        } else if (round_of(blame->first) == earliest) {
            found = -1;
        }
    }
    return found;
}

/* --------------------------------------------------------------------- causes */

static void conclude(struct analysis *analysis, enum culprit_cause cause, int culprit)
{
    analysis->cause = cause;
    analysis->culprit = culprit;
}

static bool anyone_has_failed(const struct recorded_job *job)
{
    for (size_t r = 0; r < job->count; r++) {
        if (job->ranks[r].failure[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* A short wait is normal in any step, unless something has failed. */
static bool is_too_short(const struct recorded_job *job, double seconds)
{
    return seconds > 0 && seconds < PATIENCE_S && !anyone_has_failed(job);
}

static void append_missing(struct analysis *analysis, const struct recorded_job *job,
        const struct blame *blame)
{
    char name[WORDS];
    char ranks[2 * WORDS];

    if (blame->first == NULL) {
        return;
    }
    analysis_tensor_text(blame->first, name, sizeof name);
    ranks_text(job, &blame->waiters, ranks, sizeof ranks);
    append(analysis, "has not submitted %s", name);
    if (blame->tensors > 1) {
        append(analysis, " and %zu more", blame->tensors - 1);
    }
    append(analysis, ", which %s %s for", ranks,
            bitset_count(&blame->waiters) == 1 ? "waits" : "wait");
}

/* For how long the ranks have waited, by their own clocks; 0: not known. */
static double waited_s(const struct recorded_job *job, const struct blame *blame)
{
    int64_t end = INT64_MIN;

    for (size_t r = 0; r < job->count; r++) {
        const int64_t at = job->ranks[r].end_ns + job->ranks[r].to_real_ns;

        end = bitset_has(&blame->waiters, (int)r) && at > end ? at : end;
    }
    return blame->since_real_ns == INT64_MAX || end < blame->since_real_ns
            ? 0
            : (double)(end - blame->since_real_ns) / SECOND;
}

static void append_duration(struct analysis *analysis, double seconds)
{
    if (seconds > 0) {
        append(analysis, " since %.3g s", seconds);
    }
}

static void conclude_missing(
        struct analysis *analysis, const struct recorded_job *job, int culprit)
{
    const struct blame *blame = &analysis->blames[culprit];
    const double seconds = waited_s(job, blame);
    char rank[WORDS];

    if (is_too_short(job, seconds)) {
        return;
    }
    conclude(analysis, CULPRIT_MISSING, culprit);
    recorded_rank_text(&job->ranks[culprit], rank, sizeof rank);
    append(analysis, "%s ", rank);
    append_missing(analysis, job, blame);
    append_duration(analysis, seconds);
    append_activity(analysis, &job->ranks[culprit]);
}

/* It has ended or was stopped, whatever it has not submitted. */
static void conclude_process(struct analysis *analysis, const struct recorded_job *job,
        int culprit, enum culprit_cause cause)
{
    const struct blame *blame = &analysis->blames[culprit];
    const struct recording_of *recording = &job->ranks[culprit];
    char words[2 * WORDS];

    conclude(analysis, cause, culprit);
    recorded_rank_text(recording, words, sizeof words);
    append(analysis, "%s %s", words, recording->process);
    if (blame->first != NULL) {
        append(analysis, "; it ");
        append_missing(analysis, job, blame);
        append_duration(analysis, waited_s(job, blame));
    }
    analysis_last_text(recording, words, sizeof words);
    append(analysis, "; %s", words);
}

/*
 * True if the program has not handled its last error. It has if afterwards a wait has ended, which
 * returned the error, and something that was submitted later has succeeded. Operations in flight at the
 * time of the error do not count. A program that never waits is assumed to know at once.
 */
static bool ends_with_error(const struct recording_of *recording)
{
    static const enum recorder_kind dealt_with[] = { RECORDER_FINISHED, RECORDER_TAKEN,
        RECORDER_LEFT };
    const int steps = last_of(recording, 1U << RECORDER_LEFT) != NULL ? 3 : 2;
    int step = 0;

    for (size_t i = recording->event_count; i > 0 && step < steps; i--) {
        const unsigned kind = recording->events[i - 1].kind;

        if (kind == RECORDER_ERROR) {
            break;
        }
        step += kind == dealt_with[step];
    }
    return recording->error[0] != '\0' && step < steps;
}

/* Ranks that ended because the library returned a failure to them are not the cause. */
static int find_process(const struct recorded_job *job, const char *states)
{
    for (size_t r = 0; r < job->count; r++) {
        const struct recording_of *recording = &job->ranks[r];

        if (recording->process_state != '\0' &&
                strchr(states, recording->process_state) != NULL &&
                !recording->is_finalized && recording->failure[0] == '\0' &&
                !ends_with_error(recording)) {
            return (int)r;
        }
    }
    return -1;
}

static void conclude_order(
        struct analysis *analysis, const struct recorded_job *job, int culprit)
{
    const struct blame *blame = &analysis->blames[culprit];
    const double seconds = waited_s(job, blame);
    int other = -1;
    char rank[WORDS];

    for (size_t r = 0; r < job->count && other < 0; r++) {
        if (bitset_has(&blame->waiters, (int)r) &&
                bitset_has(&analysis->blames[r].waiters, culprit)) {
            other = (int)r;
        }
    }
    if (is_too_short(job, seconds)) {
        return;
    }
    conclude(analysis, CULPRIT_ORDER, culprit);
    recorded_rank_text(&job->ranks[culprit], rank, sizeof rank);
    append(analysis, "ranks wait for each other: %s ", rank);
    append_missing(analysis, job, blame);
    append_duration(analysis, seconds);
    if (other >= 0) {
        recorded_rank_text(&job->ranks[other], rank, sizeof rank);
        append(analysis, ", while %s ", rank);
        append_missing(analysis, job, &analysis->blames[other]);
    }
    append(analysis, "; they submit and wait in different orders");
}

/* The first that the engine of a rank has not seen, and how many there are; or NULL. */
static const struct recorded_tensor *find_unseen(
        const struct recording_of *recording, size_t *count)
{
    const struct recorded_tensor *first = NULL;

    *count = 0;
    for (size_t i = 0; i < recording->tensor_count; i++) {
        const struct recorded_tensor *tensor = &recording->tensors[i];

        if (recorded_is_unseen(recording, tensor)) {
            first = first == NULL || tensor->order < first->order ? tensor : first;
            ++*count;
        }
    }
    return first;
}

static void conclude_engine(struct analysis *analysis, const struct recorded_job *job)
{
    for (size_t r = 0; r < job->count && analysis->cause == CULPRIT_NONE; r++) {
        const struct recording_of *recording = &job->ranks[r];
        size_t count;
        const struct recorded_tensor *unseen = find_unseen(recording, &count);
        double seconds;
        char words[WORDS];

        if (unseen == NULL) {
            continue;
        }
        seconds = seconds_before_end(
                recording, recording_submitted_at(recording, unseen));
        if (seconds < PATIENCE_S) {
            continue;
        }
        conclude(analysis, CULPRIT_ENGINE, (int)r);
        recorded_rank_text(recording, words, sizeof words);
        append(analysis, "%s has submitted ", words);
        analysis_tensor_text(unseen, words, sizeof words);
        append(analysis, "%s", words);
        if (count > 1) {
            append(analysis, " and %zu more", count - 1);
        }
        append(analysis,
                ", which tutti has not taken up since %.3g s (a callback that does not "
                "return?)",
                seconds);
        append_activity(analysis, recording);
    }
}

static bool is_of_batch(const struct recorder_event *event, enum recorder_kind kind,
        const struct recorder_event *batch)
{
    return event->kind == kind && event->set == batch->set;
}

/* True when a rank has begun or ended (`kind`) a batch, or a later one of its set. */
static bool has_reached(const struct recording_of *recording, enum recorder_kind kind,
        const struct recorder_event *batch)
{
    for (size_t i = recording->event_count; i > 0; i--) {
        const struct recorder_event *event = &recording->events[i - 1];

        if (is_of_batch(event, kind, batch) && event->place >= batch->place) {
            return true;
        }
    }
    return false;
}

/* The last batch that a rank has begun, when it has not ended; else NULL. */
static const struct recorder_event *find_open_batch(
        const struct recording_of *recording)
{
    const struct recorder_event *batch = last_of(recording, 1U << RECORDER_LAUNCHED);

    return batch == NULL || has_reached(recording, RECORDER_FINISHED, batch) ? NULL
                                                                             : batch;
}

/* A rank that has not begun a batch of the world; -1: none. */
static int find_behind(
        const struct recorded_job *job, const struct recorder_event *batch)
{
    for (size_t r = 0; r < job->count && batch->set == TUTTI_WORLD; r++) {
        if (!job->ranks[r].has_joined &&
                !has_reached(&job->ranks[r], RECORDER_LAUNCHED, batch)) {
            return (int)r;
        }
    }
    return -1;
}

/* A batch that has begun on some ranks and not on others. */
static void conclude_behind(struct analysis *analysis, const struct recorded_job *job)
{
    for (size_t r = 0; r < job->count && analysis->cause == CULPRIT_NONE; r++) {
        const struct recording_of *recording = &job->ranks[r];
        const struct recorder_event *batch = find_open_batch(recording);
        const int behind = batch == NULL ? -1 : find_behind(job, batch);
        char about[WORDS];
        char words[WORDS];

        if (behind < 0 ||
                is_too_short(job, seconds_before_end(recording, batch->time_ns))) {
            continue;
        }
        conclude(analysis, CULPRIT_BEHIND, behind);
        recorded_rank_text(&job->ranks[behind], words, sizeof words);
        event_tensor_text(recording, batch, " of ", about, sizeof about);
        append(analysis, "%s has not begun the batch%s, which rank %d has since %.3g s",
                words, about, recording->rank,
                seconds_before_end(recording, batch->time_ns));
        append_activity(analysis, &job->ranks[behind]);
    }
}

static void conclude_by_text(struct analysis *analysis, const struct recorded_job *job)
{
    for (size_t r = 0; r < job->count && analysis->cause == CULPRIT_NONE; r++) {
        if (ends_with_error(&job->ranks[r])) {
            conclude(analysis, CULPRIT_MISMATCH, -1);
            append(analysis, "%s", job->ranks[r].error);
        }
    }
    for (size_t r = 0; r < job->count && analysis->cause == CULPRIT_NONE; r++) {
        if (job->ranks[r].failure[0] != '\0') {
            conclude(analysis, CULPRIT_FAILED, -1);
            append(analysis, "%s", job->ranks[r].failure);
        }
    }
}

static void find_cause(struct analysis *analysis, const struct recorded_job *job)
{
    const int gone = find_process(job, "XZ");
    const int stopped = find_process(job, "Tt");
    const int missing = most_blamed(analysis, false);
    const int in_circle = most_blamed(analysis, true);
    const int first = missing >= 0 ? missing : find_first_to_part(analysis);

    if (gone >= 0) {
        conclude_process(analysis, job, gone, CULPRIT_GONE);
    } else if (stopped >= 0) {
        conclude_process(analysis, job, stopped, CULPRIT_STOPPED);
    } else if (first >= 0) {
        conclude_missing(analysis, job, first);
    } else if (in_circle >= 0) {
        conclude_order(analysis, job, in_circle);
    }
    if (analysis->cause == CULPRIT_NONE) {
        conclude_engine(analysis, job);
    }
    if (analysis->cause == CULPRIT_NONE) {
        conclude_behind(analysis, job);
    }
    if (analysis->cause == CULPRIT_NONE) {
        conclude_by_text(analysis, job);
    }
    if (analysis->cause == CULPRIT_NONE) {
        analysis->culprit = -1;
        append(analysis, "no rank waits for another");
    }
}

/* ------------------------------------------------------------------- the whole */

static tutti_status make_room(struct analysis *analysis, const struct recorded_job *job)
{
    *analysis = (struct analysis){ .culprit = -1 };
    analysis->blames = mem_calloc(job->count + 1, sizeof *analysis->blames);
    analysis->lateness = mem_calloc(job->count + 1, sizeof *analysis->lateness);
    if (analysis->blames == NULL || analysis->lateness == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    for (size_t r = 0; r < job->count; r++) {
        analysis->blames[r].since_real_ns = INT64_MAX;
        if (!bitset_init(&analysis->blames[r].waiters, (int)job->count)) {
            return TUTTI_ERR_NO_MEMORY;
        }
        analysis->count++;
    }
    return TUTTI_OK;
}

tutti_status analysis_make(struct analysis *analysis, const struct recorded_job *job)
{
    tutti_status status = make_room(analysis, job);

    if (status == TUTTI_OK) {
        status = subjects_visit(job, blame_for, analysis);
    }
    if (status == TUTTI_OK) {
        status = lateness_find(analysis->lateness, job);
    }
    if (status == TUTTI_OK) {
        find_cause(analysis, job);
    } else {
        analysis_fini(analysis);
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for an autopsy");
    }
    return status;
}

void analysis_fini(struct analysis *analysis)
{
    for (size_t r = 0; r < analysis->count; r++) {
        bitset_fini(&analysis->blames[r].waiters);
    }
    mem_free(analysis->blames);
    mem_free(analysis->lateness);
    *analysis = (struct analysis){ .culprit = -1 };
}
