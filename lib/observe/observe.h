/*
 * Tells what happens on a rank to all that observe it (observe/observer.h): one call where it
 * happens. Of the engine's thread, where nothing else is said.
 */
#ifndef TUTTI_OBSERVE_OBSERVE_H
#define TUTTI_OBSERVE_OBSERVE_H

#include <assert.h>
#include <stdint.h>

#include "run/context.h"

enum event {
    /* Of a batch: observe() */
    EVENT_BEGUN, /* it has left its queue                                          */
    EVENT_BUFFERED, /* it has a fusion buffer                                      */
    EVENT_UNBUFFERED, /* it has given it back                                      */
    EVENT_STAGED, /* it goes through host memory                                   */
    EVENT_LAUNCHED, /* a backend has it                                            */
    EVENT_ENDED, /* its operations are over, or issued                             */
    EVENT_RETURNED, /* what was staged is on the device                            */
    /* What takes time begins, and has ended: nothing while there is no timeline. */
    EVENT_PACKS,
    EVENT_PACKED,
    EVENT_UNPACKS,
    EVENT_UNPACKED,
    EVENT_STEPS,
    EVENT_STEPPED,

    /* Of an operation: observe_operation(). What its number is: */
    EVENT_SUBMITTED, /* submissions of this rank before it; the submitter          */
    EVENT_TAKEN_IN,
    EVENT_OVER, /* its result is set                                               */
    EVENT_STREAMED, /* it is over for the host; any thread, context's lock          */
    EVENT_WAIT, /* clock_ns(): a thread waits for it, or for nothing: NULL         */
    EVENT_LEFT, /* when that has begun: the thread no longer waits                 */

    /* Of a process set: observe_set() */
    EVENT_SET_ADDED,
    EVENT_SETTLED, /* its negotiator has nothing more to do                        */

    /* Of the rank: observe_number(), */
    EVENT_ALL_TAKEN_IN, /* so many operations, which is all there were             */
    EVENT_MESSAGE_SENT, /* of control, of so many bytes                            */
    /* observe_text() */
    EVENT_STALL,
    EVENT_ERROR, /* of an operation                                                */
    EVENT_FAILURE /* any thread, context's lock                                    */
};

/* What each event is for those who observe; called below. */
void observe_range(struct tutti *t, struct batch *batch);
void observe_buffers(struct tutti *t, const struct batch *batch, int64_t bytes);
void observe_launch(struct tutti *t, const struct batch *batch);
void observe_end(struct tutti *t, struct batch *batch);
void observe_busy(struct tutti *t, int64_t now_ns);
void observe_time(struct tutti *t, bool reduces);
void observe_time_spent(struct tutti *t, struct batch *batch, enum event event);
void observe_wait(struct tutti *t, const struct operation *operation, int64_t now_ns);
void observe_left(struct tutti *t, const struct operation *operation, int64_t begin_ns);
void observe_members(struct tutti *t, const struct process_set *set);
void observe_lot(struct tutti *t, uint64_t count);
/** Tells what has happened to the rank, in words. */
void observe_text(struct tutti *t, enum event event, const char *text);

/** Copies what has lines of its own in the context. Any thread. */
static inline void observe_ends(const struct tutti *t)
{
    struct metrics *metrics = t->observer.metrics;

    counter_set(&metrics->submitted, counter_get(&t->work.intake.count));
    counter_set(&metrics->completed,
            counter_get(&t->work.finished.ok) + counter_get(&metrics->streamed));
    counter_set(&metrics->failed, counter_get(&t->work.finished.failed));
}

static inline void observe_count(_Atomic uint64_t *counter, uint64_t *counted)
{
    if (*counted > 0) {
        counter_step(counter, *counted);
        *counted = 0;
    }
}

/* What a negotiator has counted since the last time. */
static inline void observe_counts(
        struct metrics *metrics, struct negotiator *negotiator)
{
    observe_count(&metrics->by_number, &negotiator->stats.by_number);
    observe_count(&metrics->steps, &negotiator->stats.steps);
    observe_count(&metrics->by_name, &negotiator->stats.by_name);
}

/** Tells what has happened to a batch. */
static inline void observe(struct tutti *t, struct batch *batch, enum event event)
{
    switch ((int)event) {
    case EVENT_BEGUN:
        if (t->observer.profiler != NULL) {
            observe_range(t, batch);
        }
        break;
    case EVENT_BUFFERED:
        observe_buffers(t, batch, (int64_t)batch->buffer.bytes);
        break;
    case EVENT_UNBUFFERED:
        observe_buffers(t, batch, -(int64_t)batch->buffer.bytes);
        break;
    case EVENT_STAGED:
        counter_step(&t->observer.metrics->device_staged, 1);
        break;
    case EVENT_LAUNCHED:
        observe_launch(t, batch);
        break;
    case EVENT_ENDED:
        observe_end(t, batch);
        break;
    case EVENT_RETURNED:
        observe_busy(t, t->engine.now_ns);
        break;
    case EVENT_PACKS:
    case EVENT_UNPACKS:
    case EVENT_STEPS:
        if (recorder_is_timed(&t->observer.recorder)) {
            observe_time(t, event == EVENT_STEPS);
        }
        break;
    case EVENT_PACKED:
    case EVENT_UNPACKED:
    case EVENT_STEPPED:
        if (t->observer.timeline.since_ns != 0) {
            observe_time_spent(t, batch, event);
        }
        break;
    default:
        break;
    }
}

/** Does what the supervisor has asked for. In each pass. */
static inline void observe_requests(struct tutti *t)
{
    const struct recording *shared = t->observer.recorder.shared;

    if (shared != NULL &&
            atomic_load_explicit(&shared->header.timeline_asked,
                    memory_order_relaxed) != t->observer.timeline.heard) {
        timeline_look(t);
    }
}

/* What a failed context ends stays as it was: that tells who waited for what. */
static inline void observe_over(struct tutti *t, const struct operation *operation)
{
    if (operation->status != TUTTI_ERR_CONTEXT_FAILED) {
        recorder_end(&operation->record);
        if (operation->status != TUTTI_OK) {
            observe_text(t, EVENT_ERROR,
                    operation->error == NULL ? "" : operation->error->text);
        }
    }
}

/** Tells what has happened to an operation. */
static inline void observe_operation(struct tutti *t, const struct operation *operation,
        enum event event, uint64_t number)
{
    switch ((int)event) {
    case EVENT_SUBMITTED:
        recorder_use(&operation->record, number, operation->request.meta.step);
        break;
    case EVENT_TAKEN_IN:
        t->observer.last = operation->record.mark;
        if (timeline_is_on(&t->observer.timeline)) {
            timeline_take_in(t, operation);
        }
        break;
    case EVENT_OVER:
        observe_over(t, operation);
        break;
    case EVENT_STREAMED:
        recorder_end(&operation->record);
        counter_step(&t->observer.metrics->streamed, 1);
        counter_step(&t->observer.metrics->streamed_bytes, operation->memory.bytes);
        break;
    case EVENT_WAIT:
        observe_wait(t, operation, (int64_t)number);
        break;
    case EVENT_LEFT:
        observe_left(t, operation, (int64_t)number);
        break;
    default:
        break;
    }
}

/** Tells what has happened to a process set. */
static inline void observe_set(
        struct tutti *t, struct process_set *set, enum event event)
{
    switch ((int)event) {
    case EVENT_SET_ADDED:
        observe_members(t, set);
        break;
    case EVENT_SETTLED:
        observe_counts(t->observer.metrics, &set->negotiator);
        break;
    default:
        break;
    }
}

/** Tells what has happened so often. */
static inline void observe_number(struct tutti *t, enum event event, uint64_t number)
{
    if (event == EVENT_MESSAGE_SENT) {
        counter_step(&t->observer.metrics->messages, 1);
        counter_step(&t->observer.metrics->message_bytes, number);
    } else if (number > 0) {
        observe_lot(t, number);
    }
}

#endif
