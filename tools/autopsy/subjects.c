/*
 * Brings together what ranks have recorded under the same names.
 */
#include "tools/autopsy/subjects.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    DECIMAL = 10
};

/* One rank's part of a subject. */
struct part {
    const struct recorded_tensor *tensor;
    size_t at; /* the recording */
};

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_names(
        const struct recorded_tensor *a, const struct recorded_tensor *b)
{
    int order = compare_numbers(a->set, b->set);

    if (order == 0) {
        order = compare_numbers(a->collective, b->collective);
    }
    return order != 0 ? order : strcmp(a->name, b->name);
}

/* By name, and of a rank that has a name twice (it had forgotten it) the last use first. */
static int compare_parts(const void *one, const void *other)
{
    const struct part *a = one;
    const struct part *b = other;
    int order = compare_names(a->tensor, b->tensor);

    if (order == 0) {
        order = compare_numbers(a->at, b->at);
    }
    return order != 0 ? order : compare_numbers(b->tensor->order, a->tensor->order);
}

static bool is_subject(const struct recorded_tensor *tensor)
{
    return tensor->uses > 0 && tensor->collective != RECORDER_OF_SET;
}

/* Adds those of one rank; returns how many there are now. */
static size_t gather_rank(
        const struct recorded_job *job, size_t at, struct part *parts, size_t count)
{
    const struct recording_of *recording = &job->ranks[at];

    for (size_t i = 0; i < recording->tensor_count; i++) {
        if (is_subject(&recording->tensors[i])) {
            parts[count++] =
                    (struct part){ .tensor = &recording->tensors[i], .at = at };
        }
    }
    return count;
}

static struct part *gather(const struct recorded_job *job, size_t *count)
{
    struct part *parts;
    size_t most = 0;

    for (size_t r = 0; r < job->count; r++) {
        most += job->ranks[r].tensor_count;
    }
    parts = mem_calloc(most + 1, sizeof *parts);
    *count = 0;
    for (size_t r = 0; r < job->count && parts != NULL; r++) {
        *count = gather_rank(job, r, parts, *count);
    }
    return parts;
}

static const char *members_by(const struct recording_of *recording, uint32_t set)
{
    for (size_t i = 0; i < recording->tensor_count; i++) {
        const struct recorded_tensor *tensor = &recording->tensors[i];

        if (tensor->collective == RECORDER_OF_SET && tensor->set == set) {
            return tensor->name;
        }
    }
    return NULL;
}

/* Any member of a set has its list. */
static const char *find_members(const struct recorded_job *job, uint32_t set)
{
    const char *members = NULL;

    if (set == TUTTI_WORLD) {
        return NULL;
    }
    for (size_t r = 0; r < job->count && members == NULL; r++) {
        members = members_by(&job->ranks[r], set);
    }
    return members == NULL ? "" : members;
}

/* Of the parts of a name, what each rank has; returns how many parts there are. */
static size_t fill(struct subject *subject, const struct recorded_job *job,
        const struct part *parts, size_t count)
{
    size_t i = 0;

    memset(subject->of, 0, job->count * sizeof *subject->of);
    subject->members = find_members(job, parts[0].tensor->set);
    do {
        if (subject->of[parts[i].at] == NULL) {
            subject->of[parts[i].at] = parts[i].tensor;
        }
        i++;
    } while (i < count && compare_names(parts[0].tensor, parts[i].tensor) == 0);
    return i;
}

tutti_status subjects_visit(
        const struct recorded_job *job, subject_visitor visit, void *context)
{
    size_t count;
    struct part *parts = gather(job, &count);
    struct subject subject = { .of = mem_calloc(job->count + 1, sizeof *subject.of) };
    const bool has_memory = parts != NULL && subject.of != NULL;

    if (has_memory) {
        qsort(parts, count, sizeof *parts, compare_parts);
        for (size_t i = 0; i < count;) {
            i += fill(&subject, job, parts + i, count - i);
            visit(context, job, &subject);
        }
    }
    mem_free(parts);
    mem_free(subject.of);
    return has_memory ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

/* "0, 2-5, 9" */
bool subject_has(const struct subject *subject, int rank)
{
    const char *at = subject->members;

    while (at != NULL && *at != '\0') {
        char *end;
        const long first = strtol(at, &end, DECIMAL);
        const long last = *end == '-' ? strtol(end + 1, &end, DECIMAL) : first;

        if (end == at) {
            return false;
        }
        if (rank >= first && rank <= last) {
            return true;
        }
        at = end + strspn(end, ", ");
    }
    return subject->members == NULL;
}

bool subject_waits(const struct subject *subject, size_t at)
{
    const struct recorded_tensor *tensor = subject->of[at];

    return tensor != NULL && tensor->is_in_flight;
}

/* With the same step, or, where none is given, as often. */
static bool has_come_to(
        const struct recorded_tensor *tensor, const struct recorded_tensor *asked)
{
    if (tensor == NULL) {
        return false;
    }
    return tensor->step != 0 && asked->step != 0 ? tensor->step >= asked->step
                                                 : tensor->uses >= asked->uses;
}

bool subject_misses(const struct subject *subject, const struct recorded_job *job,
        size_t at, const struct recorded_tensor *asked)
{
    return subject_has(subject, job->ranks[at].rank) && !job->ranks[at].has_joined &&
            !has_come_to(subject->of[at], asked);
}

const struct recorded_tensor *subject_asked(const struct subject *subject, size_t ranks)
{
    const struct recorded_tensor *asked = NULL;

    for (size_t r = 0; r < ranks; r++) {
        if (subject_waits(subject, r) &&
                (asked == NULL || !has_come_to(asked, subject->of[r]))) {
            asked = subject->of[r];
        }
    }
    return asked;
}
