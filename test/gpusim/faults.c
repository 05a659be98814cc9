/*
 * Faults that a test asks for, and the count of every call.
 *
 * GPUSIM_FAIL="cuMemAlloc_v2:3:2,kernel:1:700" makes the third allocation fail for want of
 * memory and the first kernel end with an illegal address.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpusim/state.h"

enum {
    FUNCTIONS_MAX = 256,
    FAULTS_MAX = 64,
    NAME_BYTES = 64
};

struct function {
    char name[NAME_BYTES];
    const char *text; /* of the last caller: mostly the same literal */
    long calls;
};

struct fault {
    char name[NAME_BYTES]; /* "kernel": a kernel that starts */
    long at; /* the call that fails */
    int error; /* 0: this fault is over */
};

static struct {
    struct function functions[FUNCTIONS_MAX];
    size_t function_count;
    struct fault faults[FAULTS_MAX];
    size_t fault_count;
    bool ready;
} calls;

static struct function *function_find(const char *name)
{
    for (size_t i = 0; i < calls.function_count; i++) {
        if (calls.functions[i].text == name ||
                strcmp(calls.functions[i].name, name) == 0) {
            return &calls.functions[i];
        }
    }
    return NULL;
}

static struct function *function_get(const char *name)
{
    struct function *function = function_find(name);

    if (function != NULL) {
        return function;
    }
    if (calls.function_count == FUNCTIONS_MAX) {
        (void)fprintf(
                stderr, "gpusim: more than %d functions are called\n", FUNCTIONS_MAX);
        _exit(97);
    }
    function = &calls.functions[calls.function_count++];
    (void)snprintf(function->name, sizeof function->name, "%s", name);
    function->text = name;
    return function;
}

static void fault_add(const char *name, long nth, int error)
{
    size_t place = 0;

    while (place < calls.fault_count && calls.faults[place].error != 0) {
        place++;
    }
    if (place == FAULTS_MAX) {
        (void)fprintf(
                stderr, "gpusim: more than %d faults are asked for\n", FAULTS_MAX);
        _exit(97);
    }
    if (place == calls.fault_count) {
        calls.fault_count++;
    }
    calls.faults[place].at = function_get(name)->calls + nth;
    calls.faults[place].error = error;
    (void)snprintf(
            calls.faults[place].name, sizeof calls.faults[place].name, "%s", name);
}

/* GPUSIM_FAIL, read at the first call. */
static void faults_read(void)
{
    const char *text = gpusim_option_text("GPUSIM_FAIL", "");
    char name[NAME_BYTES];
    int used, error;
    long nth;

    calls.ready = true;
    while (*text != '\0') {
        /* NOLINTNEXTLINE(cert-err34-c): what does not fit ends the process */
        if (sscanf(text, "%63[A-Za-z0-9_]:%ld:%d%n", name, &nth, &error, &used) != 3 ||
                nth < 1 || (text[used] != ',' && text[used] != '\0')) {
            (void)fprintf(stderr, "gpusim: GPUSIM_FAIL is not call:nth:error at '%s'\n",
                    text);
            _exit(97);
        }
        fault_add(name, nth, error);
        text += used + (text[used] == ',' ? 1 : 0);
    }
}

int fault_call(const char *function)
{
    struct function *called;

    if (!calls.ready) {
        faults_read();
    }
    called = function_get(function);
    called->calls++;
    for (size_t i = 0; i < calls.fault_count; i++) {
        struct fault *fault = &calls.faults[i];

        if (fault->error != 0 && fault->at == called->calls &&
                strcmp(fault->name, called->name) == 0) {
            int error = fault->error;

            fault->error = 0;
            return error;
        }
    }
    return CUDA_SUCCESS;
}

int gpusim_call(const char *function)
{
    int result;

    pthread_mutex_lock(&sim.lock);
    result = fault_call(function);
    pthread_mutex_unlock(&sim.lock);
    return result;
}

long gpusim_calls(const char *function)
{
    struct function *found;
    long count;

    pthread_mutex_lock(&sim.lock);
    found = function_find(function);
    count = found == NULL ? 0 : found->calls;
    pthread_mutex_unlock(&sim.lock);
    return count;
}

void gpusim_fail(const char *function, long nth, int error)
{
    pthread_mutex_lock(&sim.lock);
    fault_add(function, nth, error);
    pthread_mutex_unlock(&sim.lock);
}

void gpusim_fail_nothing(void)
{
    pthread_mutex_lock(&sim.lock);
    calls.ready = true;
    for (size_t i = 0; i < calls.fault_count; i++) {
        calls.faults[i].error = 0;
    }
    for (int i = 0; i < sim.device_count; i++) {
        sim.devices[i].limit_bytes = SIZE_MAX;
    }
    pthread_mutex_unlock(&sim.lock);
}

void gpusim_limit_memory(int device, size_t bytes)
{
    pthread_mutex_lock(&sim.lock);
    if (device >= 0 && device < sim.device_count) {
        struct device *limited = &sim.devices[device];

        limited->limit_bytes = bytes == SIZE_MAX ? bytes : limited->used_bytes + bytes;
    }
    pthread_mutex_unlock(&sim.lock);
}
