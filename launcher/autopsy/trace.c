/*
 * Recordings in the Trace Event Format of Chrome, which Perfetto reads. A rank is a process. Batches
 * overlap, and so do threads that wait, so both are asynchronous events, which viewers put side by
 * side: NEGOTIATE_..., as Horovod calls it, while a rank that has submitted a batch waits for the
 * others, then the batch itself. Names and arguments escape through jansson.
 */
#include <inttypes.h>
#include <jansson.h>

#include "base/error.h"
#include "launcher/autopsy/autopsy.h"
#include "launcher/json.h"

enum {
    WORDS = 256,
    ID_BYTES = 96,
    PRECISION = 15 /* digits of a time */
};

#define US 1e3

struct trace {
    FILE *file;
    int64_t begin_ns, end_ns; /* by the time of day; what is not over ends at the end */
    size_t count; /* events written                                   */
    bool has_failed; /* for want of memory                               */
};

/* Takes the event, which may be NULL. */
static void put(struct trace *trace, json_t *event)
{
    (void)fputs(trace->count++ == 0 ? "[\n" : ",\n", trace->file);
    if (event == NULL ||
            json_dumpf(event, trace->file,
                    JSON_COMPACT | JSON_REAL_PRECISION(PRECISION)) != 0) {
        trace->has_failed = true;
    }
    json_decref(event);
}

static double us_of(const struct trace *trace, int64_t real_ns)
{
    return (double)(real_ns - trace->begin_ns) / US;
}

static json_t *tensor_name(
        const struct recording_of *recording, const struct recorder_event *event)
{
    return json_text(
            event->tensor > 0 ? recording->tensors[event->tensor - 1].name : NULL);
}

static const char *collective(
        const struct recording_of *recording, const struct recorder_event *event)
{
    return event->tensor > 0
            ? recorded_collective(&recording->tensors[event->tensor - 1])
            : "batch";
}

/* A span; `id` tells it from others that are open meanwhile. Takes the arguments. */
static void put_span(struct trace *trace, const struct recording_of *recording,
        const char *id, const char *name, const int64_t times[2], json_t *arguments)
{
    put(trace,
            json_pack("{ss ss ss ss sf si si so}", "ph", "b", "cat", "tutti", "id", id,
                    "name", name, "ts", us_of(trace, times[0]), "pid", recording->rank,
                    "tid", 0, "args", arguments));
    put(trace,
            json_pack("{ss ss ss ss sf si si}", "ph", "e", "cat", "tutti", "id", id,
                    "name", name, "ts", us_of(trace, times[1]), "pid", recording->rank,
                    "tid", 0));
}

/* What happened at once. */
static void put_instant(struct trace *trace, const struct recording_of *recording,
        const char *name, int64_t real_ns, json_t *arguments)
{
    put(trace,
            json_pack("{ss ss ss sf si si so}", "ph", "i", "s", "p", "name", name, "ts",
                    us_of(trace, real_ns), "pid", recording->rank, "tid", 0, "args",
                    arguments));
}

/* NEGOTIATE_ALLREDUCE */
static void name_negotiation(const char *what, char *name, size_t capacity)
{
    (void)snprintf(name, capacity, "NEGOTIATE_%s", what);
    for (; *name != '\0'; name++) {
        *name = (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
    }
}

/* The negotiation and the batch. */
static void put_batch(
        struct trace *trace, const struct recording_of *recording, size_t at)
{
    const struct recorder_event *event = &recording->events[at];
    const int64_t begin_ns = event->time_ns + recording->to_real_ns;
    const int64_t ended_ns = recorded_end_ns(recording, at);
    const int64_t end_ns =
            ended_ns == 0 ? trace->end_ns : ended_ns + recording->to_real_ns;
    const char *what = collective(recording, event);
    char id[ID_BYTES];
    char name[WORDS];

    (void)snprintf(id, sizeof id, "%d.%" PRIu32 ".%" PRIu32 ".%" PRIu64,
            recording->rank, event->set, event->lane, event->place);
    name_negotiation(what, name, sizeof name);
    if (event->amount <= (uint64_t)(begin_ns - trace->begin_ns)) {
        put_span(trace, recording, id, name,
                (const int64_t[]){ begin_ns - (int64_t)event->amount, begin_ns },
                json_pack("{so}", "tensor", tensor_name(recording, event)));
    }
    put_span(trace, recording, id, what, (const int64_t[]){ begin_ns, end_ns },
            json_pack("{so sI si si sb}", "tensor", tensor_name(recording, event),
                    "batch", (json_int_t)event->place, "lane", (int)event->lane,
                    "process set", (int)event->set, "is over", ended_ns != 0));
}

static void put_wait(
        struct trace *trace, const struct recording_of *recording, size_t at)
{
    const struct recorder_event *event = &recording->events[at];
    const int64_t ended_ns = recorded_end_ns(recording, at);
    const int64_t times[] = { event->time_ns + recording->to_real_ns,
        ended_ns == 0 ? trace->end_ns : ended_ns + recording->to_real_ns };
    char id[ID_BYTES];

    (void)snprintf(id, sizeof id, "%d.wait.%zu", recording->rank, at);
    put_span(trace, recording, id, "wait", times,
            json_pack("{so sb}", "tensor", tensor_name(recording, event), "is over",
                    ended_ns != 0));
}

static void put_event(
        struct trace *trace, const struct recording_of *recording, size_t at)
{
    const struct recorder_event *event = &recording->events[at];
    const int64_t real_ns = event->time_ns + recording->to_real_ns;

    switch (event->kind) {
    case RECORDER_LAUNCHED:
        put_batch(trace, recording, at);
        break;
    case RECORDER_WAIT:
        put_wait(trace, recording, at);
        break;
    case RECORDER_TAKEN:
        put_instant(trace, recording, "submitted", real_ns,
                json_pack("{sI so}", "tensors", (json_int_t)event->amount, "up to",
                        tensor_name(recording, event)));
        break;
    case RECORDER_PLAN_LEFT:
        put_instant(trace, recording, "plan left", real_ns,
                json_pack("{si}", "process set", (int)event->set));
        break;
    case RECORDER_STALL:
        put_instant(trace, recording, "stall", real_ns,
                json_pack("{so}", "text", json_text(recording->stall)));
        break;
    case RECORDER_ERROR:
        put_instant(trace, recording, "failed operation", real_ns,
                json_pack("{so}", "text", json_text(recording->error)));
        break;
    case RECORDER_FAILURE:
        put_instant(trace, recording, "failed context", real_ns,
                json_pack("{so}", "text", json_text(recording->failure)));
        break;
    case RECORDER_FINISHED:
    case RECORDER_LEFT:
    case RECORDER_NOTHING:
    case RECORDER_KINDS:
        break;
    }
}

static void put_rank(struct trace *trace, const struct recording_of *recording)
{
    char name[WORDS];

    analysis_rank_text(recording, name, sizeof name);
    put(trace,
            json_pack("{ss ss si s{so}}", "ph", "M", "name", "process_name", "pid",
                    recording->rank, "args", "name", json_text(name)));
    put(trace,
            json_pack("{ss ss si s{si}}", "ph", "M", "name", "process_sort_index",
                    "pid", recording->rank, "args", "sort_index", recording->rank));
    for (size_t i = 0; i < recording->event_count; i++) {
        put_event(trace, recording, i);
    }
}

tutti_status autopsy_trace(FILE *file, const struct recorded_job *job)
{
    struct trace trace = { .file = file };

    recorded_job_window(job, &trace.begin_ns, &trace.end_ns);
    for (size_t r = 0; r < job->count; r++) {
        put_rank(&trace, &job->ranks[r]);
    }
    (void)fprintf(file, "\n]\n");
    return trace.has_failed ? error_set(TUTTI_ERR_NO_MEMORY, "no memory for a trace")
                            : TUTTI_OK;
}
