/*
 * The way into the simulated driver: the lock, what every call needs to be allowed, and the
 * calls that need nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpusim/state.h"

struct sim sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .progress = PTHREAD_COND_INITIALIZER,
};

static int enter_initialised(void)
{
    return sim.pid == getpid() ? CUDA_SUCCESS : CUDA_NOT_INITIALIZED;
}

static int enter_context(void)
{
    struct context *context = context_current();

    if (context == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
    return context->alive ? context->error : CUDA_CONTEXT_IS_DESTROYED;
}

int sim_enter(const char *function, unsigned needs)
{
    int result;

    pthread_mutex_lock(&sim.lock);
    result = fault_call(function);
    if (result == CUDA_SUCCESS && (needs & NEEDS_CONTEXT) != 0) {
        result = enter_initialised();
    }
    if (result == CUDA_SUCCESS && (needs & NEEDS_CONTEXT) == NEEDS_CONTEXT) {
        result = enter_context();
    }
    if (result == CUDA_SUCCESS && (needs & NEEDS_NO_CAPTURE) != 0 &&
            capture_forbids()) {
        result = CUDA_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

int sim_leave(int result)
{
    pthread_mutex_unlock(&sim.lock);
    return result;
}

static int init_once(void)
{
    int result;

    if (sim.pid != 0) {
        return sim.pid == getpid() ? CUDA_SUCCESS : CUDA_NOT_INITIALIZED;
    }
    sim.delay_us = gpusim_option("GPUSIM_DELAY_US", 0);
    result = devices_init();
    if (result == CUDA_SUCCESS) {
        result = arenas_init();
    }
    if (result == CUDA_SUCCESS) {
        sim.pid = getpid();
    }
    return result;
}

int cuInit(unsigned flags)
{
    int result = sim_enter("cuInit", NEEDS_NOTHING);

    if (result == CUDA_SUCCESS) {
        result = flags == 0 ? init_once() : CUDA_INVALID_VALUE;
    }
    return sim_leave(result);
}

int cuDriverGetVersion(int *version)
{
    int result = sim_enter("cuDriverGetVersion", NEEDS_NOTHING);

    if (result == CUDA_SUCCESS) {
        *version = 13000;
    }
    return sim_leave(result);
}

struct error_text {
    int value;
    const char *name;
    const char *text;
};

static const struct error_text *error_find(int error)
{
    static const struct error_text texts[] = {
#define CUDA_ERROR(number, word, sentence) \
    { .value = (number), .name = "CUDA_ERROR_" #word, .text = (sentence) },
#include "test/gpusim/cuda_errors.def"
#undef CUDA_ERROR
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].value == error) {
            return &texts[i];
        }
    }
    return NULL;
}

int cuGetErrorName(int error, const char **text)
{
    const struct error_text *found = error_find(error);

    *text = found == NULL ? NULL : error == CUDA_SUCCESS ? "CUDA_SUCCESS" : found->name;
    return found == NULL ? CUDA_INVALID_VALUE : CUDA_SUCCESS;
}

int cuGetErrorString(int error, const char **text)
{
    const struct error_text *found = error_find(error);

    *text = found == NULL ? NULL : found->text;
    return found == NULL ? CUDA_INVALID_VALUE : CUDA_SUCCESS;
}
