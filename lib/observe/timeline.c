/*
 * When there is a timeline, and what only timelines hold.
 */
#include "observe/timeline.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "run/context.h"

enum {
    PATH_BYTES = 4096
};

static bool is_file(const char *name)
{
    return text_ends_in(name, ".json") || text_ends_in(name, ".json.gz");
}

/* Who set the parameter in the program would look for the file in vain. */
static void tell_of_folder(const struct tutti *t)
{
    const char *file = t->config.timeline;
    const char *known = config_internal(TIMELINE_VARIABLE);

    if (t->rank == 0 && is_file(file) && (known == NULL || strcmp(known, file) != 0)) {
        log_warn(&t->log,
                "timeline: tuttirun was not told of %s: make it of what the ranks "
                "write with tutti-trace merge %s.ranks -o %s, or give --timeline",
                file, file, file);
    }
}

tutti_status timeline_open(struct tutti *t)
{
    const char *steps = t->config.timeline_steps;
    struct timeline *timeline = &t->observer.timeline;
    const bool is_later = strcmp(steps, "none") == 0;
    tutti_status status;

    if (steps[0] != '\0' && !is_later &&
            !text_to_range(steps, &timeline->first, &timeline->last)) {
        return error_set(TUTTI_ERR_CONFIG,
                "timeline_steps=%s (rank %d): write 100-120, 100- or none", steps,
                t->rank);
    }
    if (t->config.timeline[0] == '\0' || is_later) {
        return TUTTI_OK;
    }
    status = timeline_start(t, NULL);
    if (status != TUTTI_OK) { /* a rank without a timeline works as well */
        log_warn(&t->log, "no timeline: %s", tutti_last_error());
        return TUTTI_OK;
    }
    tell_of_folder(t);
    if (steps[0] != '\0') {
        timeline_stop(t);
        atomic_store_explicit(&timeline->mode, TIMELINE_WINDOW, memory_order_relaxed);
    }
    return TUTTI_OK;
}

void timeline_fini(struct tutti *t)
{
    atomic_store_explicit(&t->observer.recorder.is_timed, 0, memory_order_relaxed);
    t->observer.recorder.timeline = NULL;
    recorder_close_file(&t->observer.timeline.file);
    mem_free(t->observer.timeline.folder);
    mem_free(t->observer.timeline.used);
}

/* The directory of the parameter; a file's has another name. */
static tutti_status find_folder(const struct tutti *t, const char *folder, char *path)
{
    const char *from = folder != NULL ? folder : t->config.timeline;

    if (from[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID,
                "no directory for a timeline (rank %d): name one, or set the parameter "
                "timeline",
                t->rank);
    }
    if (snprintf(path, PATH_BYTES, "%s%s", from, is_file(from) ? ".ranks" : "") >=
            PATH_BYTES) {
        return error_set(TUTTI_ERR_INVALID, "the path of a timeline is too long");
    }
    return TUTTI_OK;
}

/* Lock held. In a directory where this rank has recorded before it goes on. */
static tutti_status open_file(struct tutti *t, const char *folder)
{
    struct timeline *timeline = &t->observer.timeline;
    const struct recorder_spec spec = { .folder = folder,
        .events = (size_t)t->config.timeline_events,
        .rank = t->rank,
        .size = t->size,
        .link_mbs = t->observer.recorder.shared->header.link_mbs,
        .over = timeline->file.shared };
    char *copy = mem_strdup(folder);
    struct recorder next;
    tutti_status status;

    if (timeline->used == NULL) {
        timeline->used = mem_calloc(RECORDER_TENSORS, sizeof *timeline->used);
    }
    if (copy == NULL || timeline->used == NULL) {
        mem_free(copy);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a timeline");
    }
    status = recorder_open(&next, &spec);
    if (status != TUTTI_OK) {
        mem_free(copy);
        return status;
    }
    mem_free(timeline->file.path);
    mem_free(timeline->file.owners);
    mem_free(timeline->folder);
    if (timeline->file.shared == NULL) {
        timeline->file = next;
    } else { /* others read the rest, which is the same */
        timeline->file.path = next.path;
        timeline->file.owners = next.owners;
    }
    timeline->folder = copy;
    recorder_set_timeline(&t->observer.recorder, &timeline->file);
    return TUTTI_OK;
}

tutti_status timeline_start(struct tutti *t, const char *folder)
{
    struct timeline *timeline = &t->observer.timeline;
    char path[PATH_BYTES];
    tutti_status status = find_folder(t, folder, path);

    if (status != TUTTI_OK) {
        return status;
    }
    if (t->observer.recorder.shared == NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "no timeline of rank %d: nothing is recorded, with record_events=0, in "
                "a second "
                "context of a process of tuttirun, or of one rank alone without the "
                "parameter timeline",
                t->rank);
    }
    pthread_mutex_lock(&t->lock);
    if (timeline->folder == NULL || strcmp(timeline->folder, path) != 0) {
        status = open_file(t, path);
    }
    if (status == TUTTI_OK) {
        /* Release: who sees it finds the memory, and the mapping. */
        atomic_store_explicit(&timeline->mode, TIMELINE_ALL, memory_order_release);
        atomic_store_explicit(&t->observer.recorder.is_timed,
                t->config.timeline_every == 1, memory_order_release);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

void timeline_stop(struct tutti *t)
{
    pthread_mutex_lock(&t->lock);
    recorder_add_timed(&t->observer.recorder,
            &(struct recorder_event){ .kind = RECORDER_STEP,
                    .time_ns = clock_ns(),
                    .amount = RECORDER_STEP_CUT });
    atomic_store_explicit(
            &t->observer.timeline.mode, TIMELINE_OFF, memory_order_relaxed);
    atomic_store_explicit(&t->observer.recorder.is_timed, 0, memory_order_relaxed);
    pthread_mutex_unlock(&t->lock);
}

void timeline_look(struct tutti *t)
{
    const uint32_t asked = atomic_load_explicit(
            &t->observer.recorder.shared->header.timeline_asked, memory_order_relaxed);

    t->observer.timeline.heard = asked;
    if (asked % 2 == 0) {
        timeline_stop(t);
    } else if (timeline_start(t, NULL) != TUTTI_OK) {
        log_warn(&t->log, "no timeline: %s", tutti_last_error());
    }
}

/* What a step that is left out begins with is the end of one that is not. */
static void begin_step(struct tutti *t)
{
    const struct timeline *timeline = &t->observer.timeline;
    const uint32_t mode = atomic_load_explicit(&timeline->mode, memory_order_relaxed);
    const bool is_wanted = timeline->step % (uint64_t)t->config.timeline_every == 0 &&
            (mode == TIMELINE_ALL ||
                    (mode == TIMELINE_WINDOW && timeline->step >= timeline->first &&
                            timeline->step <= timeline->last));
    const struct recorder_event event = { .kind = RECORDER_STEP,
        .time_ns = t->engine.now_ns,
        .place = timeline->step,
        .amount = is_wanted ? RECORDER_STEP_FOLLOWS : RECORDER_STEP_LEFT_OUT };

    recorder_add_timed(&t->observer.recorder, &event);
    if (is_wanted != recorder_is_timed(&t->observer.recorder)) {
        atomic_store_explicit(
                &t->observer.recorder.is_timed, is_wanted, memory_order_release);
        if (is_wanted) {
            recorder_add_timed(&t->observer.recorder, &event);
        }
    }
}

/* True when the program says so; `given` is 1 + the step. */
static bool find_given_step(struct timeline *timeline, uint64_t given)
{
    if (given == 0 || (timeline->has_steps && given - 1 <= timeline->step)) {
        return false;
    }
    timeline->has_steps = true;
    timeline->step = given - 1;
    return true;
}

/* True when a tensor is submitted again. */
static bool find_step(struct timeline *timeline, uint32_t tensor)
{
    uint32_t *used = &timeline->used[tensor - 1];

    if (timeline->ordinal > 0 && *used != timeline->ordinal) {
        *used = timeline->ordinal;
        return false;
    }
    timeline->step = timeline->ordinal++;
    *used = timeline->ordinal;
    return true;
}

void timeline_take_in(struct tutti *t, const struct operation *operation)
{
    struct timeline *timeline = &t->observer.timeline;
    const uint64_t given = operation->request.meta.step;
    bool is_new;

    if (given > 0 || timeline->has_steps) {
        is_new = find_given_step(timeline, given);
    } else {
        is_new = operation->record.mark != NULL &&
                operation->request.collective < META_SET_CREATE &&
                find_step(timeline,
                        recorder_number(&t->observer.recorder, operation->record.mark));
    }
    if (is_new) {
        pthread_mutex_lock(&t->lock);
        begin_step(t);
        pthread_mutex_unlock(&t->lock);
    }
}

/* Most were taken in together. */
size_t timeline_members(const struct tutti *t, const struct batch *batch)
{
    struct recorder_event event = {
        .kind = RECORDER_MEMBERS, .time_ns = t->engine.now_ns, .set = batch->set->id
    };
    int64_t taken_ns = INT64_MIN;
    uint16_t age = 0;
    size_t bytes = 0;
    size_t i = 0;

    while (i < batch->operation_count) {
        struct recorder_members members = { .tensors = { 0 } };

        for (int m = 0; m < RECORDER_MEMBERS_MAX && i < batch->operation_count; m++) {
            const struct operation *operation = batch->operations[i++];

            age = operation->taken_ns == taken_ns
                    ? age
                    : recorder_age(t->engine.now_ns - operation->taken_ns);
            taken_ns = operation->taken_ns;
            members.tensors[m] = (uint16_t)recorder_number(
                    &t->observer.recorder, operation->record.mark);
            members.ages[m] = age;
            bytes += operation->memory.bytes;
        }
        memcpy(&event.place, members.tensors, sizeof event.place);
        memcpy(&event.amount, members.ages, sizeof event.amount);
        recorder_add_timed(&t->observer.recorder, &event);
    }
    return bytes;
}
