/*
 * Streams: queues of operations, each with a thread, which sleeps on conditions only.
 * An operation starts when the one before it has ended and when what it depends on in other
 * streams has: events, and the order that the default stream makes implicitly. All it may
 * rely on is known when it is submitted, and so is its vector clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/gpusim/state.h"

/* ---- operations ---- */

struct op *op_new(const struct gpusim_op *what)
{
    struct op *op = calloc(1, sizeof *op);

    op->what = *what;
    return op;
}

struct op *op_mark(const char *label)
{
    return op_new(&(struct gpusim_op){ .label = label });
}

void op_free(struct op *op)
{
    if (op->what.dispose != NULL) {
        op->what.dispose(op->what.argument);
    }
    clock_fini(&op->clock);
    free(op);
}

/* ---- the thread of a stream ---- */

/* What the first operation waits for; NULL: nothing. */
static struct stream *stream_waits_for(const struct stream *stream)
{
    const struct op *op = stream->head;

    return op->behind != NULL && op->behind->done < op->sequence ? op->behind : NULL;
}

/* What is left of a context that failed or ended is not run. */
static bool stream_skips(const struct stream *stream)
{
    return context_check(stream->context) != CUDA_SUCCESS;
}

static bool may_start(const struct stream *stream)
{
    return stream->head != NULL &&
            (stream_skips(stream) ||
                    (stream->holds == 0 && stream_waits_for(stream) == NULL));
}

/* Sleeps until the first operation may start; false: there will be none. */
static bool stream_next(struct stream *stream)
{
    while (!may_start(stream)) {
        struct stream *other = stream;

        if (stream->head == NULL && stream->destroyed) {
            return false;
        }
        if (stream->head != NULL && stream->holds == 0) {
            other = stream_waits_for(stream);
        }
        pthread_cond_wait(&other->changed, &sim.lock);
    }
    return true;
}

static void delay(const struct stream *stream, const struct op *op)
{
    const struct timespec time = {
        .tv_nsec = 1000 *
                (long)(gpusim_seeded(stream->actor, stream->done) %
                        (uint64_t)(sim.delay_us + 1)),
    };

    if (op->what.body != NULL && time.tv_nsec > 0) {
        (void)nanosleep(&time, NULL);
    }
}

/* Runs the operation without the lock; what it returns is a sticky error. */
static int op_run(struct stream *stream, struct op *op)
{
    int result;

    pthread_mutex_unlock(&sim.lock);
    delay(stream, op);
    pthread_mutex_lock(&sim.lock);
    if (stream_skips(stream)) {
        return CUDA_SUCCESS;
    }
    result = access_by_op(stream, op);
    if (result != CUDA_SUCCESS || op->what.body == NULL) {
        return result;
    }
    pthread_mutex_unlock(&sim.lock);
    result = op->what.body(op->what.argument);
    pthread_mutex_lock(&sim.lock);
    return result;
}

static void *stream_main(void *argument)
{
    struct stream *stream = argument;

    pthread_mutex_lock(&sim.lock);
    while (stream_next(stream)) {
        struct op *op = stream->head;
        int result = CUDA_SUCCESS;

        stream->running = true;
        if (!stream_skips(stream)) {
            result = op_run(stream, op);
        }
        if (result != CUDA_SUCCESS) {
            context_fail(stream->context, result);
        }
        stream->head = op->next;
        if (stream->head == NULL) {
            stream->tail = NULL;
        }
        pthread_mutex_unlock(&sim.lock);
        op_free(op);
        pthread_mutex_lock(&sim.lock);
        stream->running = false;
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
        pthread_cond_broadcast(&sim.progress);
    }
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

/* ---- streams ---- */

struct stream *stream_new(struct context *context, const char *kind, unsigned flags)
{
    struct stream *stream = calloc(1, sizeof *stream);
    pthread_t thread;

    stream->context = context;
    stream->flags = flags;
    stream->actor = ++sim.stream_serial;
    (void)snprintf(stream->name, sizeof stream->name, "%s %u of device %d", kind,
            stream->actor, context->device);
    pthread_cond_init(&stream->changed, NULL);
    stream->next = sim.streams;
    sim.streams = stream;
    if (pthread_create(&thread, NULL, stream_main, stream) != 0) {
        abort();
    }
    pthread_detach(thread);
    return stream;
}

/* The default stream of the calling thread. */
static struct stream *thread_stream(struct context *context)
{
    static _Thread_local char identity;
    struct stream *stream = sim.streams;

    while (stream != NULL &&
            (stream->owner != &identity || stream->context != context)) {
        stream = stream->next;
    }
    if (stream == NULL) {
        stream = stream_new(context, "thread's stream", 0);
        stream->owner = &identity;
    }
    return stream;
}

struct stream *stream_of(const void *handle)
{
    struct context *context = context_current();

    if ((uintptr_t)handle > STREAM_PER_THREAD) {
        return object_find(STREAM, handle) == CUDA_SUCCESS
                ? (struct stream *)(uintptr_t)handle
                : NULL;
    }
    if (context == NULL || !context->alive) {
        return NULL;
    }
    return (uintptr_t)handle == STREAM_PER_THREAD ? thread_stream(context)
                                                  : context->legacy;
}

int stream_find(void **handle)
{
    struct stream *found = stream_of(*handle);

    if (found == NULL) {
        return (uintptr_t)*handle > STREAM_PER_THREAD ? CUDA_INVALID_HANDLE
                                                      : CUDA_INVALID_CONTEXT;
    }
    *handle = found;
    return context_check(found->context);
}

void streams_wake(void)
{
    for (struct stream *s = sim.streams; s != NULL; s = s->next) {
        pthread_cond_broadcast(&s->changed);
    }
}

static void append(struct stream *stream, struct op *op)
{
    clock_join(&stream->clock, &sim.host);
    clock_tick(&stream->clock, stream->actor);
    op->clock = clock_copy(&stream->clock);
    clock_tick(&sim.host, ACTOR_HOST);

    stream->submitted++;
    if (stream->tail == NULL) {
        stream->head = op;
    } else {
        stream->tail->next = op;
    }
    stream->tail = op;
    pthread_cond_broadcast(&stream->changed);
}

static struct op *wait_new(struct stream *stream, struct stream *behind,
        uint64_t sequence, const struct clock *clock)
{
    struct op *op = op_mark("wait");

    op->behind = behind;
    op->sequence = sequence;
    clock_join(&stream->clock, clock);
    return op;
}

/* The legacy default stream and the blocking ones wait for each other. */
static void follow_default(struct stream *stream)
{
    const struct stream *legacy = stream->context->legacy;

    if ((stream->flags & STREAM_NON_BLOCKING) != 0) {
        return;
    }
    for (struct stream *s = sim.streams; s != NULL; s = s->next) {
        if (s != stream && s->context == stream->context &&
                (s->flags & STREAM_NON_BLOCKING) == 0 &&
                (s == legacy || stream == legacy)) {
            append(stream, wait_new(stream, s, s->submitted, &s->clock));
        }
    }
}

int stream_submit(struct stream *stream, struct op *op)
{
    int result;

    if (stream->capture != NULL) {
        return capture_add(stream, op);
    }
    result = capture_refuses(stream);
    if (result != CUDA_SUCCESS) {
        op_free(op);
        return result;
    }
    follow_default(stream);
    append(stream, op);
    return CUDA_SUCCESS;
}

void stream_wait(struct stream *stream, uint64_t sequence)
{
    while (stream->done < sequence) {
        pthread_cond_wait(&stream->changed, &sim.lock);
    }
}

/* ---- places ---- */

void place_note(struct place *place, struct stream *stream)
{
    place_fini(place);
    place->stream = stream;
    place->sequence = stream->submitted;
    place->clock = clock_copy(&stream->clock);
}

int place_follow(struct stream *stream, const struct place *place)
{
    return place->stream == NULL
            ? CUDA_SUCCESS
            : stream_submit(stream,
                      wait_new(stream, place->stream, place->sequence, &place->clock));
}

/* An event may be recorded again, or destroyed, while this waits. */
void place_wait(const struct place *place)
{
    struct clock seen = clock_copy(&place->clock);

    stream_wait(place->stream, place->sequence);
    clock_join(&sim.host, &seen);
    clock_fini(&seen);
}

void place_fini(struct place *place)
{
    clock_fini(&place->clock);
    place->stream = NULL;
}

/* ---- operations of the NCCL half ---- */

int gpusim_enqueue(void *stream, const struct gpusim_op *asked)
{
    struct op *op;
    int result;

    pthread_mutex_lock(&sim.lock);
    result = stream_find(&stream);
    if (result == CUDA_SUCCESS) {
        op = op_new(asked);
        op->what.dispose = NULL;
        result = stream_submit(stream, op);
    }
    if (result == CUDA_SUCCESS) { /* it is its own from now on, and has not begun */
        op->what.dispose = asked->dispose;
    }
    pthread_mutex_unlock(&sim.lock);
    return result;
}

/* True while something goes on by itself. */
static bool streams_are_busy(void)
{
    for (const struct stream *s = sim.streams; s != NULL; s = s->next) {
        if (s->running || may_start(s)) {
            return true;
        }
    }
    return false;
}

void gpusim_settle(void)
{
    pthread_mutex_lock(&sim.lock);
    while (streams_are_busy()) {
        pthread_cond_wait(&sim.progress, &sim.lock);
    }
    pthread_mutex_unlock(&sim.lock);
}
