/*
 * Timelines in the Trace Event Format of Chrome, which Perfetto reads. A rank is a process. It has a
 * row for its steps, rows for the batches of each process set, and one for each tensor, with Horovod's names
 * of activities. Waits of threads, and agreement on batches, overlap: they are asynchronous
 * events, which viewers put side by side. Names and arguments escape through jansson.
 */
#include <inttypes.h>
#include <jansson.h>

#include "base/error.h"
#include "launcher/json.h"
#include "tools/trace/trace.h"

enum {
    WORDS = 256,
    PRECISION = 15, /* digits of a time                                   */
    ROWS_OF_SET = 16, /* for batches of a set that overlap                  */
    SETS = 64, /* that have rows of their own                             */
    ROW_STEPS = 0,
    ROW_SETS = 1,
    ROW_TENSORS = ROW_SETS + SETS * ROWS_OF_SET
};

#define US 1e3

/* Of one rank. */
struct writer {
    FILE *file;
    const struct traced_rank *rank;
    const struct merge_choice *choice;
    int64_t offset_ns; /* from the clock of the rank to the times that are written   */
    int64_t begin_ns, end_ns; /* what is chosen, by the clock of the rank          */
    int64_t busy_until[SETS][ROWS_OF_SET]; /* when the rows are free                */
    size_t count; /* events written, of all ranks                                  */
    bool has_failed; /* for want of memory                                            */
};

/* Something with a length, in a row. */
struct span {
    const char *name;
    int row;
    int64_t begin_ns, end_ns;
};

/* Takes the event, which may be NULL. */
static void put(struct writer *writer, json_t *event)
{
    (void)fputs(writer->count++ == 0 ? "[\n" : ",\n", writer->file);
    if (event == NULL ||
            json_dumpf(event, writer->file,
                    JSON_COMPACT | JSON_REAL_PRECISION(PRECISION)) != 0) {
        writer->has_failed = true;
    }
    json_decref(event);
}

static double us_of(const struct writer *writer, int64_t time_ns)
{
    return (double)(time_ns + writer->offset_ns) / US;
}

static bool is_chosen(const struct writer *writer, int64_t begin_ns, int64_t end_ns)
{
    return begin_ns < writer->end_ns && end_ns > writer->begin_ns;
}

/* Takes the arguments, which may be NULL: none. */
static void put_span(struct writer *writer, const struct span *span, json_t *arguments)
{
    if (span->end_ns > span->begin_ns || arguments != NULL) {
        put(writer,
                json_pack("{ss ss sf sf si si so*}", "ph", "X", "name", span->name,
                        "ts", us_of(writer, span->begin_ns), "dur",
                        (double)(span->end_ns - span->begin_ns) / US, "pid",
                        writer->rank->recording->rank, "tid", span->row, "args",
                        arguments));
    }
}

/* One that overlaps others; `id` tells it from them. Takes the arguments. */
static void put_async(struct writer *writer, const struct span *span, const char *id,
        json_t *arguments)
{
    const int rank = writer->rank->recording->rank;

    put(writer,
            json_pack("{ss ss ss ss sf si si so}", "ph", "b", "cat", "tutti", "id", id,
                    "name", span->name, "ts", us_of(writer, span->begin_ns), "pid",
                    rank, "tid", span->row, "args", arguments));
    put(writer,
            json_pack("{ss ss ss ss sf si si}", "ph", "e", "cat", "tutti", "id", id,
                    "name", span->name, "ts", us_of(writer, span->end_ns), "pid", rank,
                    "tid", span->row));
}

/* What happened at once. Takes the arguments. */
static void put_instant(
        struct writer *writer, const char *name, int64_t time_ns, json_t *arguments)
{
    put(writer,
            json_pack("{ss ss ss sf si si so}", "ph", "i", "s", "p", "name", name, "ts",
                    us_of(writer, time_ns), "pid", writer->rank->recording->rank, "tid",
                    ROW_STEPS, "args", arguments));
}

static void name_row(struct writer *writer, int row, const char *name)
{
    put(writer,
            json_pack("{ss ss si si s{so}}", "ph", "M", "name", "thread_name", "pid",
                    writer->rank->recording->rank, "tid", row, "args", "name",
                    json_text(name)));
}

static json_t *tensor_name(const struct recording_of *recording, uint32_t tensor)
{
    return json_text(tensor > 0 ? recording->tensors[tensor - 1].name : NULL);
}

/* ALLREDUCE, and NEGOTIATE_ALLREDUCE, as Horovod calls them. */
static void name_activity(const struct recording_of *recording, uint32_t tensor,
        const char *before, char name[WORDS])
{
    const char *collective =
            tensor > 0 ? recorded_collective(&recording->tensors[tensor - 1]) : "batch";

    (void)snprintf(name, WORDS, "%s%s", before, collective);
    for (; *name != '\0'; name++) {
        *name = (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
    }
}

/* ---------------------------------------------------------------------- tensors */

/* A tensor of a batch, from when it was taken in to when it is over. */
static void put_tensor(struct writer *writer, const struct traced_batch *batch,
        const struct traced_member *member)
{
    const struct recording_of *recording = writer->rank->recording;
    const int row = ROW_TENSORS + (int)member->tensor;
    char negotiate[WORDS];
    char collective[WORDS];
    const int64_t begins_ns =
            batch->packed_ns > 0 ? batch->packed_ns : batch->launch_ns;
    const int64_t ends_ns = batch->end_ns - batch->unpack_ns;
    const struct span spans[] = {
        { "WAIT_FOR_OTHER_TENSOR_DATA", row, member->taken_ns, batch->complete_ns },
        { negotiate, row, batch->complete_ns, batch->agreed_ns },
        { "QUEUE", row, batch->agreed_ns, batch->launch_ns },
        { "MEMCPY_IN_FUSION_BUFFER", row, begins_ns - batch->pack_ns, begins_ns },
        { collective, row, begins_ns, ends_ns },
        { "MEMCPY_OUT_FUSION_BUFFER", row, ends_ns, batch->end_ns },
    };

    name_activity(recording, member->tensor, "NEGOTIATE_", negotiate);
    name_activity(recording, member->tensor, "", collective);
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        put_span(writer, &spans[i], NULL);
    }
}

static void put_tensors(struct writer *writer, const struct traced_batch *batch)
{
    struct traced_member member;
    size_t position = 0;

    while (writer->choice->has_tensors &&
            trace_member(writer->rank, batch, &position, &member)) {
        put_tensor(writer, batch, &member);
    }
}

/* ---------------------------------------------------------------------- batches */

/* A row of the set that is free when a batch begins; the last, when none is. */
static int row_of(struct writer *writer, const struct traced_batch *batch)
{
    const uint32_t set = batch->set % SETS;
    int row = 0;

    while (row + 1 < ROWS_OF_SET && writer->busy_until[set][row] > batch->launch_ns) {
        row++;
    }
    if (writer->busy_until[set][row] == 0) {
        char name[WORDS];

        (void)snprintf(name, sizeof name,
                row == 0 ? "process set %u" : "process set %u, at once (%d)", set,
                row + 1);
        name_row(writer, ROW_SETS + (int)set * ROWS_OF_SET + row, name);
    }
    writer->busy_until[set][row] = batch->end_ns;
    return ROW_SETS + (int)set * ROWS_OF_SET + row;
}

static void put_negotiation(
        struct writer *writer, const struct traced_batch *batch, const char *id)
{
    const struct recording_of *recording = writer->rank->recording;
    char name[WORDS];
    const struct span span = { name, ROW_STEPS, batch->complete_ns, batch->agreed_ns };
    json_t *arguments =
            json_pack("{so sf}", "tensor", tensor_name(recording, batch->tensor),
                    "for the slowest us", (double)batch->awaited_ns / US);

    name_activity(recording, batch->tensor, "NEGOTIATE_", name);
    put_async(writer, &span, id, arguments);
}

static void put_batch(struct writer *writer, const struct traced_batch *batch)
{
    const struct recording_of *recording = writer->rank->recording;
    const int row = row_of(writer, batch);
    char name[WORDS];
    char id[WORDS];
    const struct span whole = { name, row, batch->launch_ns, batch->end_ns };
    const struct span in = { "MEMCPY_IN_FUSION_BUFFER", row,
        batch->packed_ns - batch->pack_ns, batch->packed_ns };
    const struct span out = { "MEMCPY_OUT_FUSION_BUFFER", row,
        batch->unpacked_ns - batch->unpack_ns, batch->unpacked_ns };

    (void)snprintf(id, sizeof id, "%d.%" PRIu32 ".%" PRIu64, recording->rank,
            batch->set, batch->place);
    put_negotiation(writer, batch, id);
    name_activity(recording, batch->tensor, "", name);
    put_span(writer, &whole,
            json_pack("{so sI sI sI sI sf sb}", "tensor",
                    tensor_name(recording, batch->tensor), "operations",
                    (json_int_t)batch->operations, "bytes", (json_int_t)batch->bytes,
                    "batch", (json_int_t)batch->place, "process set",
                    (json_int_t)batch->set, "reduction us",
                    (double)batch->reduce_ns / US, "is over", batch->is_over));
    put_span(writer, &in, NULL);
    put_span(writer, &out, NULL);
    put_tensors(writer, batch);
}

/* ---------------------------------------------------------------- waits, and the rest */

static void put_wait(struct writer *writer, size_t at)
{
    const struct recording_of *recording = writer->rank->recording;
    const struct recorder_event *event = &recording->events[at];
    const int64_t ended_ns = recorded_end_ns(recording, at);
    const struct span span = { "wait", ROW_STEPS, event->time_ns,
        ended_ns == 0 ? recording->end_ns : ended_ns };
    char id[WORDS];

    (void)snprintf(id, sizeof id, "%d.wait.%zu", recording->rank, at);
    put_async(writer, &span, id,
            json_pack("{so sb}", "tensor", tensor_name(recording, event->tensor),
                    "is over", ended_ns != 0));
}

static void put_event(struct writer *writer, size_t at)
{
    const struct recording_of *recording = writer->rank->recording;
    const struct recorder_event *event = &recording->events[at];
    const struct {
        const char *name, *text;
    } texts[RECORDER_KINDS] = {
        [RECORDER_STALL] = { "stall", recording->stall },
        [RECORDER_ERROR] = { "failed operation", recording->error },
        [RECORDER_FAILURE] = { "failed context", recording->failure },
    };

    if (event->kind == RECORDER_WAIT) {
        put_wait(writer, at);
    } else if (event->kind == RECORDER_TAKEN) {
        put_instant(writer, "submitted", event->time_ns,
                json_pack("{sI so}", "tensors", (json_int_t)event->amount, "up to",
                        tensor_name(recording, event->tensor)));
    } else if (texts[event->kind].name != NULL) {
        put_instant(writer, texts[event->kind].name, event->time_ns,
                json_pack("{so}", "text", json_text(texts[event->kind].text)));
    }
}

static void put_steps(struct writer *writer)
{
    for (size_t s = 0; s < writer->rank->step_count; s++) {
        const struct traced_step *step = &writer->rank->steps[s];
        char name[WORDS];
        const struct span span = { name, ROW_STEPS, step->begin_ns, step->end_ns };

        (void)snprintf(name, sizeof name, "step %" PRIu64, step->number);
        if (is_chosen(writer, step->begin_ns, step->end_ns)) {
            put_span(writer, &span, NULL);
        }
    }
}

static void put_names(struct writer *writer)
{
    const struct recording_of *recording = writer->rank->recording;
    char name[WORDS];

    recorded_rank_text(recording, name, sizeof name);
    put(writer,
            json_pack("{ss ss si s{so}}", "ph", "M", "name", "process_name", "pid",
                    recording->rank, "args", "name", json_text(name)));
    put(writer,
            json_pack("{ss ss si s{si}}", "ph", "M", "name", "process_sort_index",
                    "pid", recording->rank, "args", "sort_index", recording->rank));
    name_row(writer, ROW_STEPS, "steps");
    for (size_t i = 0; i < recording->tensor_count && writer->choice->has_tensors;
            i++) {
        if (recording->tensors[i].collective < RECORDER_FIRST_INTERNAL) {
            name_row(writer, ROW_TENSORS + (int)i + 1, recording->tensors[i].name);
        }
    }
}

/* The steps that are chosen, by the clock of the rank. */
static void choose(struct writer *writer)
{
    const struct merge_choice *choice = writer->choice;

    writer->begin_ns = INT64_MIN;
    writer->end_ns = INT64_MAX;
    if (choice->first == 0 && choice->last == UINT64_MAX) {
        return;
    }
    writer->begin_ns = INT64_MAX;
    writer->end_ns = INT64_MIN;
    for (size_t s = 0; s < writer->rank->step_count; s++) {
        const struct traced_step *step = &writer->rank->steps[s];

        if (step->number >= choice->first && step->number <= choice->last) {
            writer->begin_ns = step->begin_ns < writer->begin_ns ? step->begin_ns
                                                                 : writer->begin_ns;
            writer->end_ns =
                    step->end_ns > writer->end_ns ? step->end_ns : writer->end_ns;
        }
    }
}

static void put_rank(struct writer *writer)
{
    const struct traced_rank *rank = writer->rank;
    const struct recording_of *recording = rank->recording;

    choose(writer);
    put_names(writer);
    put_steps(writer);
    for (size_t b = 0; b < rank->batch_count; b++) {
        if (is_chosen(writer, rank->batches[b].complete_ns, rank->batches[b].end_ns)) {
            put_batch(writer, &rank->batches[b]);
        }
    }
    for (size_t i = 0; i < recording->event_count; i++) {
        const int64_t at = recording->events[i].time_ns;

        if (is_chosen(writer, at, at + 1)) {
            put_event(writer, i);
        }
    }
}

tutti_status trace_merge(
        FILE *file, const struct trace *trace, const struct merge_choice *choice)
{
    size_t count = 0;
    bool has_failed = false;
    int64_t begin_ns;
    int64_t end_ns;

    recorded_job_window(trace->job, &begin_ns, &end_ns);
    for (size_t r = 0; r < trace->job->count; r++) {
        struct writer writer = { .file = file,
            .rank = &trace->ranks[r],
            .choice = choice,
            .offset_ns = trace->job->ranks[r].to_real_ns - begin_ns,
            .count = count };

        put_rank(&writer);
        count = writer.count;
        has_failed = has_failed || writer.has_failed;
    }
    (void)fprintf(file, "\n]\n");
    return has_failed ? error_set(TUTTI_ERR_NO_MEMORY, "no memory for a trace")
                      : TUTTI_OK;
}
