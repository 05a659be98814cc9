/*
 * Streams: queues of operations, each with a thread that is made for the first operation.
 * An operation starts when the one before it has ended and when what it depends on in other
 * streams has: events, and the order that the default stream makes implicitly. All it may
 * rely on is known when it is submitted, and so is its vector clock.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

enum {
    STACK_BYTES = 2 << 20
};

/* ---- operations ---- */

struct op *op_new(const char *label, enum op_kind kind)
{
    struct op *op = calloc(1, sizeof *op);

    op->label = intern(label);
    op->kind = kind;
    return op;
}

void op_free(struct op *op)
{
    if (op->dispose != NULL) {
        op->dispose(op->argument);
    }
    if (op->accesses != NULL) {
        free(op->accesses->reads);
        free(op->accesses->writes);
        free(op->accesses);
    }
    clock_fini(&op->clock);
    free(op->dependencies);
    free(op);
}

void op_depend(struct op *op, struct stream *stream, uint64_t sequence)
{
    size_t count = op->dependency_count;

    if (stream->done < sequence) {
        op->dependencies =
                realloc(op->dependencies, (count + 1) * sizeof *op->dependencies);
        op->dependencies[count] =
                (struct dependency){ .stream = stream, .sequence = sequence };
        op->dependency_count++;
    }
}

struct gpusim_accesses *op_accesses(struct op *op)
{
    if (op->accesses == NULL) {
        op->accesses = calloc(1, sizeof *op->accesses);
    }
    return op->accesses;
}

static void ranges_add(struct gpusim_range **ranges, size_t *count, size_t *capacity,
        struct gpusim_range range)
{
    if (range.bytes == 0) {
        return;
    }
    if (*count == *capacity) {
        *capacity = 2 * *capacity + 4;
        *ranges = realloc(*ranges, *capacity * sizeof **ranges);
    }
    (*ranges)[(*count)++] = range;
}

void gpusim_reads(struct gpusim_accesses *accesses, uint64_t start, size_t bytes)
{
    ranges_add(&accesses->reads, &accesses->read_count, &accesses->read_capacity,
            (struct gpusim_range){ .start = start, .bytes = bytes });
}

void gpusim_writes(struct gpusim_accesses *accesses, uint64_t start, size_t bytes)
{
    ranges_add(&accesses->writes, &accesses->write_count, &accesses->write_capacity,
            (struct gpusim_range){ .start = start, .bytes = bytes });
}

/* ---- streams ---- */

struct stream *stream_new(struct context *context, const char *kind)
{
    struct stream *stream = calloc(1, sizeof *stream);
    uint64_t time;

    stream->context = context;
    stream->generation = context->generation;
    stream->serial = ++sim.stream_serial;
    (void)snprintf(stream->name, sizeof stream->name, "%s %u of device %d", kind,
            stream->serial, context->device->ordinal);
    pthread_cond_init(&stream->work, NULL);
    pthread_cond_init(&stream->progress, NULL);
    stream->actor = actor_take(&time);
    clock_set(&stream->clock, stream->actor, time);
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

bool stream_is_dead(const struct stream *stream)
{
    return stream->generation != stream->context->generation;
}

void stream_end(struct stream *stream)
{
    if (stream->destroyed) {
        return;
    }
    stream->destroyed = true;
    pthread_cond_broadcast(&stream->work);
    if (!stream->has_thread) {
        actor_give_back(stream->actor, clock_time(&stream->clock, stream->actor));
    }
}

/* The default stream of the calling thread. */
static struct stream *thread_stream(struct context *context)
{
    static _Thread_local char identity;
    struct stream *stream = context->streams;

    while (stream != NULL && (stream->owner != &identity || stream_is_dead(stream))) {
        stream = stream->next;
    }
    if (stream == NULL) {
        stream = stream_new(context, "thread's stream");
        stream->owner = &identity;
    }
    return stream;
}

struct stream *stream_peek(const void *handle)
{
    struct context *context = context_current();

    if ((uintptr_t)handle > STREAM_PER_THREAD) {
        return handle_find(HANDLE_STREAM, handle);
    }
    if (context == NULL || !context->alive) {
        return NULL;
    }
    return (uintptr_t)handle == STREAM_PER_THREAD ? thread_stream(context)
                                                  : context->legacy;
}

int stream_find(const void *handle, struct stream **stream)
{
    struct context *context = context_current();

    if ((uintptr_t)handle > STREAM_PER_THREAD) {
        *stream = handle_find(HANDLE_STREAM, handle);
        if (*stream == NULL) {
            gpusim_report("a stream was used that was destroyed or never made");
            return CUDA_INVALID_HANDLE;
        }
        return stream_is_dead(*stream) ? CUDA_CONTEXT_IS_DESTROYED
                                       : (*stream)->context->error;
    }
    if (context == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
    *stream = stream_peek(handle);
    return *stream == NULL ? CUDA_CONTEXT_IS_DESTROYED : context->error;
}

int stream_enter(const char *function, const void *handle, struct stream **stream)
{
    const int result = sim_enter(function, NEEDS_CONTEXT);

    return result == CUDA_SUCCESS ? stream_find(handle, stream) : result;
}

void streams_wake(void)
{
    for (struct context *c = sim.contexts; c != NULL; c = c->next) {
        for (struct stream *s = c->streams; s != NULL; s = s->next) {
            pthread_cond_broadcast(&s->work);
            pthread_cond_broadcast(&s->progress);
        }
    }
}

static int stream_start(struct stream *stream)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
    pthread_attr_t attributes;
    sigset_t blocked, previous;
    pthread_t thread;
    int result;

    if (stream->has_thread) {
        return CUDA_SUCCESS;
    }
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigdelset(&blocked, faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &previous);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    result = pthread_create(&thread, &attributes, stream_main, stream);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    stream->has_thread = result == 0;
    return result == 0 ? CUDA_SUCCESS : CUDA_OPERATING_SYSTEM;
}

static void follow(struct stream *stream, struct op *op, struct stream *before)
{
    op_depend(op, before, before->submitted);
    clock_join(&stream->clock, &before->clock);
}

/* The legacy default stream and the blocking ones wait for each other. */
static void follow_default(struct stream *stream, struct op *op)
{
    struct context *context = stream->context;

    if (stream == context->legacy) {
        for (struct stream *s = context->streams; s != NULL; s = s->next) {
            if (s != stream && !stream_is_dead(s) &&
                    (s->flags & STREAM_NON_BLOCKING) == 0) {
                follow(stream, op, s);
            }
        }
    } else if ((stream->flags & STREAM_NON_BLOCKING) == 0) {
        follow(stream, op, context->legacy);
    }
}

int stream_submit(struct stream *stream, struct op *op)
{
    struct host *host = host_self();
    int result;

    if (stream->capture != NULL) {
        return capture_add(stream, op);
    }
    result = capture_refuses(stream);
    result = result == CUDA_SUCCESS ? stream_start(stream) : result;
    if (result != CUDA_SUCCESS) {
        op_free(op);
        return result;
    }
    follow_default(stream, op);
    clock_join(&stream->clock, &host->clock);
    clock_tick(&stream->clock, stream->actor);
    op->clock = clock_copy(&stream->clock);
    clock_tick(&host->clock, host->actor);

    op->sequence = ++stream->submitted;
    if (stream->tail == NULL) {
        stream->head = op;
    } else {
        stream->tail->next = op;
    }
    stream->tail = op;
    pthread_cond_signal(&stream->work);
    return CUDA_SUCCESS;
}

void stream_wait(struct stream *stream, uint64_t sequence)
{
    while (stream->done < sequence) {
        pthread_cond_wait(&stream->progress, &sim.lock);
    }
}

static int copy_ranges(struct op *made, const struct gpusim_op *op)
{
    int result = CUDA_SUCCESS;

    for (size_t i = 0; result == CUDA_SUCCESS && i < op->read_count; i++) {
        result = memory_check(op->label, op->reads[i].start, op->reads[i].bytes);
        gpusim_reads(op_accesses(made), op->reads[i].start, op->reads[i].bytes);
    }
    for (size_t i = 0; result == CUDA_SUCCESS && i < op->write_count; i++) {
        result = memory_check(op->label, op->writes[i].start, op->writes[i].bytes);
        gpusim_writes(op_accesses(made), op->writes[i].start, op->writes[i].bytes);
    }
    return result;
}

int gpusim_enqueue(void *stream, const struct gpusim_op *op)
{
    struct stream *found;
    int result;

    pthread_mutex_lock(&sim.lock);
    result = stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        struct op *made = op_new(op->label, OP_OUTSIDE);

        result = copy_ranges(made, op);
        if (result == CUDA_SUCCESS) {
            result = stream_start(found);
        }
        if (result == CUDA_SUCCESS) {
            result = capture_refuses(found);
        }
        if (result != CUDA_SUCCESS) {
            op_free(made);
        } else {
            made->body = op->body;
            made->dispose = op->dispose;
            made->again = op->again;
            made->argument = op->argument;
            result = stream_submit(found, made);
        }
    }
    pthread_mutex_unlock(&sim.lock);
    return result;
}

int gpusim_stream_device(const void *stream)
{
    const struct stream *found;
    int device;

    pthread_mutex_lock(&sim.lock);
    found = stream_peek(stream);
    device = found == NULL ? -1 : found->context->device->ordinal;
    pthread_mutex_unlock(&sim.lock);
    return device;
}
