/*
 * What is recorded, counted and shown of what happens.
 */
#include "observe/observe.h"

#include <stdio.h>

#include "base/bitset.h"
#include "base/clock.h"
#include "observe/profiler.h"

/* ------------------------------------------------------------------- batches */

/* Exchanges have no common count. */
static size_t bytes_of(const struct batch *batch)
{
    size_t bytes = batch->op.count * tutti_dtype_size(batch->op.dtype);

    for (size_t i = 0; i < batch->operation_count && batch->op.count == 0; i++) {
        bytes += batch->operations[i]->memory.bytes;
    }
    return bytes;
}

/* A profiler sees the batch under its first tensor. */
void observe_range(struct tutti *t, struct batch *batch)
{
    const struct request *first = &batch->operations[0]->request;
    char name[TUTTI_NAME_MAX + 64];

    (void)snprintf(name, sizeof name, "tutti/%s/%s",
            tutti_collective_name((tutti_collective)first->collective), first->name);
    batch->observed.range = profiler_begin(t->observer.profiler, name);
}

/* Fusion buffers that batches use, and those that none does. */
void observe_buffers(struct tutti *t, const struct batch *batch, int64_t bytes)
{
    const struct dispatcher *dispatcher = &t->dispatcher;
    uint64_t spare = 0;

    for (int i = 0; i < dispatcher->buffer_count; i++) {
        spare += dispatcher->buffers[i].bytes;
    }
    counter_set(&t->observer.metrics->spare_bytes, spare);
    metrics_fusion(t->observer.metrics, batch->buffer.set, bytes);
}

static void count_batch(struct tutti *t, const struct batch *batch)
{
    metrics_count(t->observer.metrics,
            &(struct metrics_batch){ .collective = op_is_pair(&batch->set->op)
                            ? TUTTI_MESSAGE
                            : (int)batch->op.collective,
                    .backend = batch->backend == NULL
                            ? -1
                            : (int)(batch->backend - t->dispatcher.backends),
                    .operations = batch->operation_count,
                    .bytes = bytes_of(batch),
                    .time_ns =
                            (uint64_t)(batch->time.ended_ns - batch->time.begun_ns) });
    observe_ends(t);
}

/* Nothing is in flight any more? */
void observe_busy(struct tutti *t, int64_t now_ns)
{
    struct observer *observer = &t->observer;

    if (t->dispatcher.running == NULL && observer->busy_since_ns != 0) {
        counter_step(&observer->metrics->busy_ns,
                (uint64_t)(now_ns - observer->busy_since_ns));
        observer->busy_since_ns = 0;
    }
}

static struct recorder_event event_of(const struct batch *batch,
        enum recorder_kind kind, int64_t time_ns, uint64_t amount)
{
    return (struct recorder_event){ .kind = kind,
        .time_ns = time_ns,
        .place = batch->op.sequence,
        .amount = amount,
        .set = batch->set->id };
}

static void record(const struct tutti *t, const struct batch *batch,
        enum recorder_kind kind, int64_t time_ns, uint64_t amount)
{
    struct recorder_event event = event_of(batch, kind, time_ns, amount);

    event.tensor =
            recorder_number(&t->observer.recorder, batch->operations[0]->record.mark);
    recorder_add(&t->observer.recorder, &event);
}

static void record_timed(const struct tutti *t, const struct batch *batch,
        enum recorder_kind kind, int64_t time_ns, int64_t spent_ns)
{
    const struct recorder_event event =
            event_of(batch, kind, time_ns, (uint64_t)spent_ns);

    recorder_add_timed(&t->observer.recorder, &event);
}

/*
 * How long this rank has waited for the others, since it had submitted a batch: what was submitted
 * last is mostly at one end or the other, since a batch is in the order of the log.
 */
void observe_launch(struct tutti *t, const struct batch *batch)
{
    const int64_t first = batch->operations[0]->taken_ns;
    const int64_t last = batch->operations[batch->operation_count - 1]->taken_ns;
    const uint64_t lead_ns =
            (uint64_t)(t->engine.now_ns - (first > last ? first : last));

    record(t, batch, RECORDER_LAUNCHED, t->engine.now_ns, lead_ns);
    if (recorder_is_timed(&t->observer.recorder)) {
        record_timed(t, batch, RECORDER_AGREED, batch->time.agreed_ns,
                (int64_t)timeline_members(t, batch));
    }
    if (t->observer.busy_since_ns == 0 && t->config.metrics) {
        t->observer.busy_since_ns = t->engine.now_ns;
    }
    counter_step(&t->observer.metrics->lead_ns, lead_ns);
    counter_step(&t->observer.metrics->batches, 1);
}

void observe_end(struct tutti *t, struct batch *batch)
{
    if (t->config.metrics) {
        count_batch(t, batch);
        observe_busy(t, batch->time.ended_ns);
    }
    if (batch->observed.reduced_ns > 0) {
        record_timed(t, batch, RECORDER_REDUCED, t->engine.now_ns,
                batch->observed.reduced_ns);
        batch->observed.reduced_ns = 0;
    }
    record(t, batch, RECORDER_FINISHED, batch->time.ended_ns, batch->operation_count);
    if (t->observer.profiler != NULL) {
        profiler_end(t->observer.profiler, batch->observed.range);
    }
    if (batch->issued != NULL) {
        counter_step(&t->observer.metrics->device_batches, 1);
    }
}

/* Something that takes time begins. Of reductions backends say how long they took. */
void observe_time(struct tutti *t, bool reduces)
{
    struct timeline *timeline = &t->observer.timeline;

    timeline->since_ns = reduces ? t->engine.now_ns : clock_ns();
    timeline->spent = (struct op_spent){ .is_asked = reduces };
}

void observe_time_spent(struct tutti *t, struct batch *batch, enum event event)
{
    struct timeline *timeline = &t->observer.timeline;
    const int64_t since_ns = timeline->since_ns;
    int64_t now_ns;

    timeline->since_ns = 0;
    timeline->spent.is_asked = false;
    if (event == EVENT_STEPPED) {
        batch->observed.reduced_ns += timeline->spent.reduce_ns;
        return;
    }
    now_ns = clock_ns();
    record_timed(t, batch, event == EVENT_PACKED ? RECORDER_PACKED : RECORDER_UNPACKED,
            now_ns, now_ns - since_ns);
}

/* ------------------------------------------------------------------ operations */

static void record_wait(struct tutti *t, enum recorder_kind kind,
        const struct operation *operation, int64_t now_ns)
{
    recorder_add(&t->observer.recorder,
            &(struct recorder_event){ .kind = kind,
                    .time_ns = now_ns,
                    .tensor = operation == NULL ? 0
                                                : recorder_number(&t->observer.recorder,
                                                          operation->record.mark) });
}

void observe_wait(struct tutti *t, const struct operation *operation, int64_t now_ns)
{
    record_wait(t, RECORDER_WAIT, operation, now_ns);
}

void observe_left(struct tutti *t, const struct operation *operation, int64_t begin_ns)
{
    const int64_t now_ns = clock_ns();

    record_wait(t, RECORDER_LEFT, operation, now_ns);
    counter_add(&t->observer.metrics->wait_ns, (uint64_t)(now_ns - begin_ns));
}

/* ---------------------------------------------------------------- process sets */

/* Who is in a set of this rank; all are in the world. */
void observe_members(struct tutti *t, const struct process_set *set)
{
    char ranks[RECORDER_NAME_BYTES];
    struct observed_name place = { .mark = NULL };
    struct bitset members;

    if (set->op.rank < 0 || set->id == TUTTI_WORLD || !bitset_init(&members, t->size)) {
        return;
    }
    for (int i = 0; i < set->op.size; i++) {
        bitset_add(&members, set->world_ranks[i]);
    }
    (void)bitset_format(&members, NULL, ranks, sizeof ranks);
    observer_name(&t->observer, &place, ranks, set->id, RECORDER_OF_SET);
    observer_release(&t->observer, &place); /* it stays all the same */
    bitset_fini(&members);
}

/* ---------------------------------------------------------------------- the rank */

void observe_lot(struct tutti *t, uint64_t count)
{
    const struct recorder *recorder = &t->observer.recorder;

    recorder_add(recorder,
            &(struct recorder_event){ .kind = RECORDER_TAKEN,
                    .time_ns = t->engine.now_ns,
                    .place = atomic_load_explicit(
                            &t->work.intake.count, memory_order_relaxed),
                    .amount = count,
                    .tensor = recorder_number(recorder, t->observer.last) });
}

void observe_text(struct tutti *t, enum event event, const char *text)
{
    const enum recorder_kind kind = event == EVENT_STALL ? RECORDER_STALL
            : event == EVENT_ERROR                       ? RECORDER_ERROR
                                                         : RECORDER_FAILURE;

    recorder_tell(&t->observer.recorder, kind,
            event == EVENT_FAILURE ? clock_ns() : t->engine.now_ns, text);
    if (event == EVENT_STALL) {
        counter_step(&t->observer.metrics->stalls, 1);
    }
}
