/*
 * Brings events together: those of a batch, of a step, and of the same batch on all ranks.
 */
#include "tools/recordings/spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_batches(const void *a, const void *b)
{
    const struct traced_batch *x = a;
    const struct traced_batch *y = b;
    const int order = compare_numbers(x->set, y->set);

    return order == 0 ? compare_numbers(x->place, y->place) : order;
}

/* A length of time that may be taken from a time; longer ones are damaged. */
static int64_t checked_length(uint64_t ns, int64_t time_ns)
{
    return ns <= (uint64_t)time_ns ? (int64_t)ns : 0;
}

static struct traced_batch batch_of(const struct recorder_event *event)
{
    return (struct traced_batch){ .set = event->set,
        .place = event->place,
        .tensor = event->tensor,
        .complete_ns = event->time_ns - checked_length(event->amount, event->time_ns),
        .agreed_ns = event->time_ns,
        .launch_ns = event->time_ns,
        .slowest = -1 };
}

static struct traced_batch *find_batch(
        const struct traced_rank *rank, const struct recorder_event *event)
{
    const struct traced_batch key = { .set = event->set, .place = event->place };

    return bsearch(&key, rank->batches, rank->batch_count, sizeof key, compare_batches);
}

static void add_to_batch(struct traced_batch *batch, const struct recorder_event *event)
{
    const int64_t length = checked_length(event->amount, event->time_ns);

    if (event->kind == RECORDER_AGREED) {
        batch->agreed_ns =
                event->time_ns < batch->launch_ns ? event->time_ns : batch->launch_ns;
        batch->bytes = event->amount;
    } else if (event->kind == RECORDER_PACKED) {
        batch->packed_ns = event->time_ns;
        batch->pack_ns = length;
    } else if (event->kind == RECORDER_UNPACKED) {
        batch->unpacked_ns = event->time_ns;
        batch->unpack_ns = length;
    } else if (event->kind == RECORDER_REDUCED) {
        batch->reduce_ns = length;
    } else if (event->kind == RECORDER_FINISHED && event->time_ns >= batch->launch_ns) {
        batch->end_ns = event->time_ns;
        batch->is_over = true;
        batch->operations = (size_t)event->amount;
    }
}

/* Gives batches what was recorded of them. */
static void fill_batches(struct traced_rank *rank)
{
    const struct recording_of *recording = rank->recording;
    struct traced_batch *launched = NULL; /* that was launched last */

    for (size_t i = 0; i < recording->event_count; i++) {
        const struct recorder_event *event = &recording->events[i];
        struct traced_batch *batch =
                event->kind == RECORDER_MEMBERS ? NULL : find_batch(rank, event);

        if (event->kind == RECORDER_MEMBERS && launched != NULL &&
                launched->members == 0 && launched->set == event->set) {
            launched->members = i;
        }
        if (batch != NULL) {
            add_to_batch(batch, event);
        }
        launched = event->kind == RECORDER_LAUNCHED ? batch : launched;
    }
}

static bool make_batches(struct traced_rank *rank)
{
    const struct recording_of *recording = rank->recording;

    rank->batches = mem_calloc(recording->event_count + 1, sizeof *rank->batches);
    if (rank->batches == NULL) {
        return false;
    }
    for (size_t i = 0; i < recording->event_count; i++) {
        if (recording->events[i].kind == RECORDER_LAUNCHED) {
            rank->batches[rank->batch_count++] = batch_of(&recording->events[i]);
        }
    }
    qsort(rank->batches, rank->batch_count, sizeof *rank->batches, compare_batches);
    fill_batches(rank);
    for (size_t b = 0; b < rank->batch_count; b++) {
        struct traced_batch *batch = &rank->batches[b];

        if (!batch->is_over) {
            batch->end_ns = recording->end_ns > batch->launch_ns ? recording->end_ns
                                                                 : batch->launch_ns;
        }
    }
    return true;
}

static bool make_steps(struct traced_rank *rank)
{
    const struct recording_of *recording = rank->recording;
    struct traced_step step = { .begin_ns = 0 };
    size_t count = 1;
    bool is_open = false;

    for (size_t i = 0; i < recording->event_count; i++) {
        count += recording->events[i].kind == RECORDER_STEP ? 1 : 0;
    }
    rank->steps = mem_calloc(count, sizeof *rank->steps);
    for (size_t i = 0; i < recording->event_count && rank->steps != NULL; i++) {
        const struct recorder_event *event = &recording->events[i];

        if (event->kind != RECORDER_STEP) {
            continue;
        }
        if (is_open && event->amount != RECORDER_STEP_CUT &&
                event->time_ns > step.begin_ns) {
            step.end_ns = event->time_ns;
            rank->steps[rank->step_count++] = step;
        }
        is_open = event->amount == RECORDER_STEP_FOLLOWS;
        step = (struct traced_step){ .number = event->place,
            .begin_ns = event->time_ns };
    }
    return rank->steps != NULL;
}

/* ------------------------------------------------------- the same batch on all ranks */

struct part {
    struct traced_batch *batch;
    size_t rank; /* index */
};

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;
    const int order = compare_batches(x->batch, y->batch);

    return order == 0 ? compare_numbers(x->rank, y->rank) : order;
}

/*
 * The last rank to arrive waits for agreement alone; what others waited longer, they waited for that rank.
 * So clocks need not be compared.
 */
static void compare_waits(const struct part *parts, size_t count, int64_t *waited)
{
    size_t slowest = 0;
    int64_t least;

    for (size_t i = 0; i < count; i++) {
        waited[i] = parts[i].batch->launch_ns - parts[i].batch->complete_ns;
        slowest = waited[i] < waited[slowest] ? i : slowest;
    }
    least = waited[slowest];
    for (size_t i = 0; i < count; i++) {
        parts[i].batch->slowest = (int)parts[slowest].rank;
        parts[i].batch->awaited_ns = waited[i] - least;
    }
    qsort(waited, count, sizeof *waited, recorded_compare_times);
    for (size_t i = 0; i < count; i++) {
        parts[i].batch->late_ns = waited[count / 2] - least;
    }
}

/* The parts of a batch lie together then. */
static size_t gather_parts(const struct trace *trace, struct part *parts)
{
    size_t count = 0;

    for (size_t r = 0; r < trace->job->count; r++) {
        for (size_t b = 0; b < trace->ranks[r].batch_count; b++) {
            parts[count++] = (struct part){ &trace->ranks[r].batches[b], r };
        }
    }
    qsort(parts, count, sizeof *parts, compare_parts);
    return count;
}

static void join_parts(
        const struct part *parts, size_t count, size_t ranks, int64_t *waited)
{
    size_t end;

    for (size_t begin = 0; begin < count; begin = end) {
        const struct traced_batch *batch = parts[begin].batch;
        size_t members;

        for (end = begin + 1;
                end < count && compare_batches(parts[end].batch, batch) == 0;) {
            end++;
        }
        members = end - begin;
        /* The members of sets other than the world are not known for sure. */
        if (members >= 2 &&
                (members == ranks || (batch->set != TUTTI_WORLD && members < ranks))) {
            compare_waits(&parts[begin], members, waited);
        }
    }
}

static bool join_batches(struct trace *trace)
{
    const size_t ranks = trace->job->count;
    int64_t *waited = mem_calloc(ranks + 1, sizeof *waited);
    struct part *parts;
    size_t count = 1;
    bool has_memory;

    for (size_t r = 0; r < ranks; r++) {
        count += trace->ranks[r].batch_count;
    }
    parts = mem_calloc(count, sizeof *parts);
    has_memory = waited != NULL && parts != NULL;
    if (has_memory) {
        join_parts(parts, gather_parts(trace, parts), ranks, waited);
    }
    mem_free(waited);
    mem_free(parts);
    return has_memory;
}

tutti_status trace_make(struct trace *trace, const struct recorded_job *job)
{
    bool has_memory;

    *trace = (struct trace){ .job = job };
    trace->ranks = mem_calloc(job->count + 1, sizeof *trace->ranks);
    has_memory = trace->ranks != NULL;
    for (size_t r = 0; r < job->count && has_memory; r++) {
        trace->ranks[r].recording = &job->ranks[r];
        has_memory = make_batches(&trace->ranks[r]) && make_steps(&trace->ranks[r]);
    }
    if (!has_memory || !join_batches(trace)) {
        trace_fini(trace);
        return TUTTI_ERR_NO_MEMORY;
    }
    return TUTTI_OK;
}

void trace_fini(struct trace *trace)
{
    for (size_t r = 0; trace->ranks != NULL && r < trace->job->count; r++) {
        mem_free(trace->ranks[r].batches);
        mem_free(trace->ranks[r].steps);
    }
    mem_free(trace->ranks);
    *trace = (struct trace){ .job = NULL };
}

/* Threads that wait may write in between. */
static bool is_between(const struct recorder_event *event)
{
    return event->kind == RECORDER_WAIT || event->kind == RECORDER_LEFT;
}

bool trace_member(const struct traced_rank *rank, const struct traced_batch *batch,
        size_t *position, struct traced_member *member)
{
    const struct recording_of *recording = rank->recording;
    size_t at = batch->members + *position / RECORDER_MEMBERS_MAX;

    for (; batch->members > 0 && at < recording->event_count;
            at = batch->members + *position / RECORDER_MEMBERS_MAX) {
        const struct recorder_event *event = &recording->events[at];
        const size_t m = (*position)++ % RECORDER_MEMBERS_MAX;
        struct recorder_members members;
        int64_t age;

        if (is_between(event)) {
            continue;
        }
        if (event->kind != RECORDER_MEMBERS || event->set != batch->set) {
            return false;
        }
        memcpy(members.tensors, &event->place, sizeof event->place);
        memcpy(members.ages, &event->amount, sizeof event->amount);
        age = recorder_age_ns(members.ages[m]);
        if (members.tensors[m] > 0 && members.tensors[m] <= recording->tensor_count) {
            *member = (struct traced_member){ .tensor = members.tensors[m],
                .taken_ns = age <= event->time_ns ? event->time_ns - age : 0 };
            return true;
        }
    }
    return false;
}

const struct traced_step *trace_step(const struct traced_rank *rank, uint64_t number)
{
    for (size_t s = 0; s < rank->step_count; s++) {
        if (rank->steps[s].number == number) {
            return &rank->steps[s];
        }
    }
    return NULL;
}
