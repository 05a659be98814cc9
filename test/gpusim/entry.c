/*
 * The way into the simulated driver: the lock, what every call needs to be allowed, the objects
 * that the product has handles of, and the calls that need nothing. A handle is the address of an
 * object, which stays when it is dropped, so that a handle that is used too long is found.
 */
#include <stdlib.h>
#include <unistd.h>

#include "test/gpusim/state.h"

struct sim sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .progress = PTHREAD_COND_INITIALIZER,
};

/* Locks, counts the call, and says why it cannot go on (0: it can). */
static int enter(const char *function, unsigned needs)
{
    int result;

    pthread_mutex_lock(&sim.lock);
    result = call_count(function);
    if (result == CUDA_SUCCESS && (needs & NEEDS_INIT) != 0 && sim.pid != getpid()) {
        result = CUDA_NOT_INITIALIZED;
    }
    if (result == CUDA_SUCCESS && (needs & NEEDS_CONTEXT) == NEEDS_CONTEXT) {
        result = context_check(context_current());
    }
    if (result == CUDA_SUCCESS && (needs & NEEDS_NO_CAPTURE) != 0 &&
            capture_forbids()) {
        result = CUDA_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

static int first_error(int one, int other)
{
    return one != CUDA_SUCCESS ? one : other;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameters are no expressions */
#define CALL(name, needs, finds, parameters, arguments) \
    int name parameters \
    { \
        int result = enter(#name, needs); \
\
        if (result == CUDA_SUCCESS) { \
            result = finds; \
        } \
        if (result == CUDA_SUCCESS) { \
            result = sim_##name arguments; \
        } \
        pthread_mutex_unlock(&sim.lock); \
        return result; \
    }
#include "test/gpusim/cuda.def"
#undef CALL

/* NOLINTEND(bugprone-macro-parentheses) */

int sim_cuInit(unsigned flags)
{
    int result;

    (void)flags;
    if (sim.pid != 0) {
        return sim.pid == getpid() ? CUDA_SUCCESS : CUDA_NOT_INITIALIZED;
    }
    sim.delay_us = gpusim_option("GPUSIM_DELAY_US", 0);
    result = devices_init();
    if (result == CUDA_SUCCESS) {
        result = memory_init();
    }
    if (result == CUDA_SUCCESS) {
        sim.pid = getpid();
    }
    return result;
}

int sim_cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

static struct object *newest; /* of all that were ever made */
static size_t live[OBJECT_KINDS];

void object_add(enum object_kind kind, struct object *object)
{
    *object = (struct object){ .next = newest, .kind = kind };
    newest = object;
    live[kind]++;
}

void *object_new(enum object_kind kind, size_t bytes)
{
    struct object *object = calloc(1, bytes);

    object_add(kind, object);
    return object;
}

int object_find(enum object_kind kind, const void *handle)
{
    const struct object *object = handle;

    if (object != NULL && object->kind == kind && !object->dropped) {
        return CUDA_SUCCESS;
    }
    if (kind == STREAM || kind == EVENT) {
        gpusim_report("%s was used that was destroyed or never made",
                kind == STREAM ? "a stream" : "an event");
    }
    return kind == CONTEXT ? CUDA_INVALID_CONTEXT
            : kind == GRAPH || kind == EXEC || kind == USER_OBJECT
            ? CUDA_INVALID_VALUE
            : CUDA_INVALID_HANDLE;
}

void object_drop(void *handle)
{
    struct object *object = handle;

    object->dropped = true;
    live[object->kind]--;
}

size_t object_live(enum object_kind kind)
{
    return live[kind];
}

/* NULL: of an error that the simulator does not know. */
static int name_error(int error, const char **name, const char **text)
{
    *name = NULL;
    *text = NULL;
    switch (error) {
#define CUDA_ERROR(number, word, sentence) \
    case number: \
        *name = "CUDA_ERROR_" #word; \
        *text = (sentence); \
        return CUDA_SUCCESS;
#include "test/gpusim/cuda_errors.def"
#undef CUDA_ERROR
    }
    return CUDA_INVALID_VALUE;
}

int sim_cuGetErrorName(int error, const char **name)
{
    const char *text;

    return name_error(error, name, &text);
}

int sim_cuGetErrorString(int error, const char **text)
{
    const char *name;

    return name_error(error, &name, text);
}
