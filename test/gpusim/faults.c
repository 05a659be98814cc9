/*
 * Faults that a test asks for, and the count of every call. GPUSIM_FAIL="cuMemAlloc_v2:3:2" makes
 * the third allocation fail for want of memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpusim/state.h"

enum {
    FUNCTIONS_MAX = 256,
    NAME_BYTES = 64
};

/* A function of either library. */
struct function {
    const char *name; /* owned */
    long calls;
    long fails_at; /* the call that fails; 0: none */
    int error;
};

static struct function functions[FUNCTIONS_MAX];
static bool is_ready;

/* What the environment or a test asks for cannot be done. */
static void refuse(const char *what, const char *name)
{
    (void)fprintf(stderr, "gpusim: %s: %s\n", what, name);
    _exit(97);
}

static struct function *function_get(const char *name)
{
    struct function *function = functions;

    while (function->name != NULL && strcmp(function->name, name) != 0) {
        function++;
        if (function == &functions[FUNCTIONS_MAX]) {
            refuse("more functions than expected are called", name);
        }
    }
    if (function->name == NULL) {
        function->name = strdup(name);
    }
    return function;
}

static void fault_set(const char *name, long nth, int error)
{
    struct function *function = function_get(name);

    if (function->fails_at > function->calls) {
        refuse("one fault of a function at a time", name);
    }
    function->fails_at = function->calls + nth;
    function->error = error;
}

/* GPUSIM_FAIL, read at the first call. */
static void faults_read(void)
{
    const char *text = gpusim_option_text("GPUSIM_FAIL", "");
    char name[NAME_BYTES];
    int used, error;
    long nth;

    is_ready = true;
    while (*text != '\0') {
        /* NOLINTNEXTLINE(cert-err34-c): what does not fit ends the process */
        if (sscanf(text, "%63[A-Za-z0-9_]:%ld:%d%n", name, &nth, &error, &used) != 3 ||
                nth < 1 || (text[used] != ',' && text[used] != '\0')) {
            refuse("GPUSIM_FAIL is not call:nth:error", text);
        }
        fault_set(name, nth, error);
        text += used + (text[used] == ',' ? 1 : 0);
    }
}

int fault_call(const char *name)
{
    struct function *function;

    if (!is_ready) {
        faults_read();
    }
    function = function_get(name);
    return ++function->calls == function->fails_at ? function->error : CUDA_SUCCESS;
}

int gpusim_call(const char *name)
{
    int result;

    pthread_mutex_lock(&sim.lock);
    result = fault_call(name);
    pthread_mutex_unlock(&sim.lock);
    return result;
}

long gpusim_calls(const char *name)
{
    long count;

    pthread_mutex_lock(&sim.lock);
    count = function_get(name)->calls;
    pthread_mutex_unlock(&sim.lock);
    return count;
}

void gpusim_fail(const char *name, long nth, int error)
{
    pthread_mutex_lock(&sim.lock);
    fault_set(name, nth, error);
    pthread_mutex_unlock(&sim.lock);
}

void gpusim_fail_nothing(void)
{
    pthread_mutex_lock(&sim.lock);
    for (size_t i = 0; i < FUNCTIONS_MAX; i++) {
        functions[i].fails_at = 0;
    }
    for (int i = 0; i < sim.device_count; i++) {
        sim.devices[i].limit_bytes = device_bytes;
    }
    pthread_mutex_unlock(&sim.lock);
}

void gpusim_limit_memory(int device, size_t bytes)
{
    struct device *limited = &sim.devices[device];

    pthread_mutex_lock(&sim.lock);
    limited->limit_bytes =
            bytes > device_bytes ? device_bytes : limited->used_bytes + bytes;
    pthread_mutex_unlock(&sim.lock);
}
