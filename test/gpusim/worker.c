/*
 * A stream's thread: takes operations one after the other. It sleeps on conditions only;
 * nothing here spins.
 */
#include <time.h>

#include "test/gpusim/state.h"

/* A dependency of the first operation that has not ended; NULL: none. */
static struct stream *stream_waits_for(const struct stream *stream)
{
    const struct op *op = stream->head;

    for (size_t i = 0; i < op->dependency_count; i++) {
        if (op->dependencies[i].stream->done < op->dependencies[i].sequence) {
            return op->dependencies[i].stream;
        }
    }
    return NULL;
}

/* What is left of a context that failed or ended is not run. */
static bool stream_skips(const struct stream *stream)
{
    return stream_is_dead(stream) || stream->context->error != CUDA_SUCCESS;
}

/* Sleeps until the first operation may start; false: there will be none. */
static bool stream_next(struct stream *stream)
{
    for (;;) {
        struct stream *other;

        if (stream->head == NULL && stream->destroyed) {
            return false;
        }
        if (stream->head == NULL || (stream->holds > 0 && !stream_skips(stream))) {
            pthread_cond_wait(&stream->work, &sim.lock);
            continue;
        }
        other = stream_waits_for(stream);
        if (other == NULL || stream_skips(stream)) {
            return true;
        }
        pthread_cond_wait(&other->progress, &sim.lock);
    }
}

static void nap(long microseconds)
{
    struct timespec time = {
        .tv_sec = microseconds / 1000000,
        .tv_nsec = microseconds % 1000000 * 1000,
    };

    if (microseconds > 0) {
        (void)nanosleep(&time, NULL);
    }
}

static long op_delay(const struct stream *stream, const struct op *op)
{
    if (sim.delay_us <= 0 || op->kind == OP_EMPTY) {
        return 0;
    }
    return (long)(gpusim_seeded(stream->actor, op->sequence) %
            (uint64_t)(sim.delay_us + 1));
}

/* Without the lock: the table of a kernel lies in device memory. */
static void op_name_ranges(struct op *op)
{
    if (op->ranges != NULL) {
        gpusim_memory_lock();
        op->ranges(op->argument, &op->accesses);
        gpusim_memory_unlock();
    }
}

static int op_run_body(const struct op *op)
{
    int result;

    if (op->body == NULL) {
        return CUDA_SUCCESS;
    }
    switch (op->kind) {
    case OP_PLAIN:
        gpusim_memory_lock();
        result = op->body(op->argument);
        gpusim_memory_unlock();
        return result;
    case OP_KERNEL:
        memory_open();
        result = op->body(op->argument);
        memory_close();
        return result;
    case OP_OUTSIDE:
    case OP_EMPTY:
        return op->body(op->argument);
    }
    return CUDA_SUCCESS;
}

/* Runs the operation without the lock; what it returns is a sticky error. */
static int op_run(struct stream *stream, struct op *op)
{
    long delay = op_delay(stream, op);
    int result;

    pthread_mutex_unlock(&sim.lock);
    nap(delay);
    op_name_ranges(op);
    pthread_mutex_lock(&sim.lock);
    if (stream_skips(stream)) {
        return CUDA_SUCCESS;
    }
    result = access_by_op(stream, op);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    pthread_mutex_unlock(&sim.lock);
    result = op_run_body(op);
    pthread_mutex_lock(&sim.lock);
    return result;
}

void *stream_main(void *argument)
{
    struct stream *stream = argument;

    pthread_mutex_lock(&sim.lock);
    while (stream_next(stream)) {
        struct op *op = stream->head;
        uint64_t sequence = op->sequence;
        int result = CUDA_SUCCESS;

        stream->running = true;
        if (!stream_skips(stream)) {
            result = op_run(stream, op);
        }
        if (result != CUDA_SUCCESS && !stream_is_dead(stream)) {
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
        stream->done = sequence;
        pthread_cond_broadcast(&stream->progress);
        pthread_cond_broadcast(&sim.progress);
    }
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

/* True when the stream will not go on by itself: it is held, or waits for one that is. */
static bool stream_is_stuck(const struct stream *stream)
{
    for (int depth = 0; depth < 64; depth++) {
        const struct stream *other;

        if (stream->holds > 0 && !stream->running) {
            return true;
        }
        other = stream->head == NULL ? NULL : stream_waits_for(stream);
        if (other == NULL) {
            return false;
        }
        stream = other;
    }
    return true;
}

static bool context_is_busy(const struct context *context)
{
    for (const struct stream *s = context->streams; s != NULL; s = s->next) {
        if (s->done < s->submitted && !stream_is_stuck(s)) {
            return true;
        }
    }
    return false;
}

static bool streams_are_busy(void)
{
    for (const struct context *c = sim.contexts; c != NULL; c = c->next) {
        if (context_is_busy(c)) {
            return true;
        }
    }
    return false;
}

void streams_settle(const struct timespec *until)
{
    int waited = 0;

    pthread_mutex_lock(&sim.lock);
    while (waited == 0 && streams_are_busy()) {
        waited = until == NULL
                ? pthread_cond_wait(&sim.progress, &sim.lock)
                : pthread_cond_timedwait(&sim.progress, &sim.lock, until);
    }
    pthread_mutex_unlock(&sim.lock);
}

void gpusim_settle(void)
{
    streams_settle(NULL);
}
