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
    return context_check(stream->context) != CUDA_SUCCESS;
}

/* Sleeps until the first operation may start; false: there will be none. */
static bool stream_next(struct stream *stream)
{
    while (stream->head != NULL || !stream->destroyed) {
        const bool has_work = stream->head != NULL;
        struct stream *other = has_work ? stream_waits_for(stream) : NULL;
        const bool may_start = has_work && stream->holds == 0 && other == NULL;

        if (may_start || (has_work && stream_skips(stream))) {
            return true;
        }
        if (other == NULL || stream->holds > 0) {
            other = stream;
        }
        pthread_cond_wait(&other->changed, &sim.lock);
    }
    return false;
}

static void delay(const struct stream *stream, const struct op *op)
{
    const struct timespec time = {
        .tv_nsec = 1000 *
                (long)(gpusim_seeded(stream->actor, op->sequence) %
                        (uint64_t)(sim.delay_us + 1)),
    };

    if (op->body != NULL && time.tv_nsec > 0) {
        (void)nanosleep(&time, NULL);
    }
}

/* Runs the operation without the lock; what it returns is a sticky error. */
static int op_run(struct stream *stream, struct op *op)
{
    int result;

    pthread_mutex_unlock(&sim.lock);
    delay(stream, op);
    if (op->ranges != NULL) {
        op->ranges(op->argument, &op->accesses);
    }
    pthread_mutex_lock(&sim.lock);
    if (stream_skips(stream)) {
        return CUDA_SUCCESS;
    }
    result = access_by_op(stream, op);
    if (result != CUDA_SUCCESS || op->body == NULL) {
        return result;
    }
    pthread_mutex_unlock(&sim.lock);
    result = op->body(op->argument);
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
        stream->done = sequence;
        pthread_cond_broadcast(&stream->changed);
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

static bool streams_are_busy(void)
{
    for (const struct stream *s = sim.streams; s != NULL; s = s->next) {
        if (s->done < s->submitted && !stream_is_stuck(s)) {
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
