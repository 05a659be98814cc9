/*
 * The way into the simulated driver: the lock, what every call needs to be allowed, and the
 * calls that need nothing.
 */
#include <string.h>
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
    result = fault_call(function);
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

    if (flags != 0) {
        return CUDA_INVALID_VALUE;
    }
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

/* NULL: an error that has no name. */
int sim_cuGetErrorName(int error, const char **text)
{
    *text = NULL;
    switch (error) {
#define CUDA_ERROR(number, word, sentence) \
    case number: \
        *text = (number) == 0 ? "CUDA_SUCCESS" : "CUDA_ERROR_" #word; \
        break;
#include "test/gpusim/cuda_errors.def"
#undef CUDA_ERROR
    }
    return *text == NULL ? CUDA_INVALID_VALUE : CUDA_SUCCESS;
}

int sim_cuGetErrorString(int error, const char **text)
{
    *text = NULL;
    switch (error) {
#define CUDA_ERROR(number, word, sentence) \
    case number: \
        *text = (sentence); \
        break;
#include "test/gpusim/cuda_errors.def"
#undef CUDA_ERROR
    }
    return *text == NULL ? CUDA_INVALID_VALUE : CUDA_SUCCESS;
}
