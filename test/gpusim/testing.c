/*
 * What tests see of the simulator: options, findings, faults, device memory, streams that are
 * held, and what exists.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpusim/state.h"

/* ---- options ---- */

long gpusim_option(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtol(text, NULL, 0);
}

/* The mixing function of the splitmix generator. */
static uint64_t mix(uint64_t value)
{
    value += 0x9E3779B97F4A7C15U;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
}

uint64_t gpusim_seeded(uint64_t first, uint64_t second)
{
    return mix(mix(first) ^ second);
}

/* ---- findings ---- */

enum {
    STATUS_FOUND = 97,
    TEXT_BYTES = 1024
};

/* Under a lock of its own, the innermost of all: reports come from everywhere. */
static struct {
    pthread_mutex_t lock;
    long reports;
    char first[TEXT_BYTES];
} findings = { .lock = PTHREAD_MUTEX_INITIALIZER };

void gpusim_report(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&findings.lock);
    if (findings.reports == 0) {
        memcpy(findings.first, text, sizeof text);
    }
    findings.reports++;
    (void)fprintf(stderr, "gpusim[%d]: %s\n", (int)getpid(), text);
    pthread_mutex_unlock(&findings.lock);
}

long gpusim_take_reports(char *text, size_t capacity)
{
    long reports;

    pthread_mutex_lock(&findings.lock);
    reports = findings.reports;
    if (text != NULL) {
        (void)snprintf(text, capacity, "%s", reports > 0 ? findings.first : "");
    }
    findings.reports = 0;
    pthread_mutex_unlock(&findings.lock);
    return reports;
}

/* At the end of the process, or when the library is unloaded: a test cannot overlook it. */
static void __attribute__((destructor)) reports_end(void)
{
    const long reports = gpusim_take_reports(NULL, 0);

    if (reports > 0) {
        (void)fprintf(stderr, "gpusim[%d]: %ld findings: status %d\n", (int)getpid(),
                reports, STATUS_FOUND);
        (void)fflush(NULL);
        _exit(STATUS_FOUND);
    }
}

/* ---- faults ---- */

enum {
    FUNCTIONS_MAX =
            512 /* those of both libraries, and four faults of each of 64 ranks */
};

/* A function of either library, or what else a fault names. */
struct function {
    const char *name; /* owned */
    long calls;
    long fails_at; /* the call that fails; 0: every one */
    int error; /* 0: none fails */
};

static struct function functions[FUNCTIONS_MAX];

static struct function *function_get(const char *name)
{
    struct function *function = functions;

    while (function->name != NULL && strcmp(function->name, name) != 0) {
        function++;
    }
    if (function->name == NULL) {
        function->name = strdup(name);
    }
    return function;
}

static void fault_set(const char *name, long nth, int error)
{
    struct function *function = function_get(name);

    function->fails_at = nth == 0 ? 0 : function->calls + nth;
    function->error = error;
}

/* GPUSIM_FAIL. */
static void __attribute__((constructor)) faults_read(void)
{
    const char *text = getenv("GPUSIM_FAIL");
    char name[64];
    int error;
    long nth;

    if (text == NULL) {
        return;
    }
    /* NOLINTNEXTLINE(cert-err34-c): what does not fit ends the process */
    if (sscanf(text, "%63[A-Za-z0-9_]:%ld:%d", name, &nth, &error) != 3) {
        (void)fprintf(stderr, "gpusim: not call:nth:error: %s\n", text);
        _exit(STATUS_FOUND);
    }
    fault_set(name, nth, error);
}

int call_count(const char *name)
{
    struct function *function = function_get(name);

    function->calls++;
    return function->fails_at == 0 || function->fails_at == function->calls
            ? function->error
            : CUDA_SUCCESS;
}

int gpusim_call(const char *name)
{
    int result;

    pthread_mutex_lock(&sim.lock);
    result = call_count(name);
    pthread_mutex_unlock(&sim.lock);
    return result;
}

long gpusim_calls(const char *name)
{
    long calls;

    pthread_mutex_lock(&sim.lock);
    calls = function_get(name)->calls;
    pthread_mutex_unlock(&sim.lock);
    return calls;
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
        functions[i].error = 0;
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

/* ---- looking ---- */

static bool move_by_host(
        const char *label, void *host, uint64_t start, size_t bytes, bool writes)
{
    struct gpusim_range range = { .start = start, .bytes = bytes };
    struct allocation *found;

    pthread_mutex_lock(&sim.lock);
    found = memory_find_live(start) == NULL ? NULL : memory_check(label, start, bytes);
    if (found != NULL) {
        access_by_host(label, &sim.host, found, &range, writes);
    }
    pthread_mutex_unlock(&sim.lock);
    if (found != NULL) {
        void *at = gpusim_at(start);

        gpusim_memory_lock();
        memcpy(writes ? at : host, writes ? host : at, bytes);
        gpusim_memory_unlock();
    }
    return found != NULL;
}

bool gpusim_read(void *to, uint64_t from, size_t bytes)
{
    return move_by_host("gpusim_read", to, from, bytes, false);
}

bool gpusim_write(uint64_t to, const void *from, size_t bytes)
{
    return move_by_host("gpusim_write", (void *)(uintptr_t)from, to, bytes, true);
}

static void change_holds(void *stream, int change)
{
    struct stream *found;

    pthread_mutex_lock(&sim.lock);
    found = stream_of(stream);
    if (found != NULL) {
        found->holds += change;
        pthread_cond_broadcast(&found->changed);
        pthread_cond_broadcast(&sim.progress);
    }
    pthread_mutex_unlock(&sim.lock);
}

void gpusim_hold(void *stream)
{
    change_holds(stream, 1);
}

void gpusim_release(void *stream)
{
    change_holds(stream, -1);
}

struct gpusim_live gpusim_live(void)
{
    struct gpusim_live live = { .streams = 0 };

    pthread_mutex_lock(&sim.lock);
    for (const struct allocation *a = sim.allocations; a != NULL; a = a->next) {
        *(a->kind == MEMORY_PINNED ? &live.host_bytes : &live.device_bytes) +=
                a->is_live ? a->bytes : 0;
    }
    live.streams = object_live(STREAM);
    live.events = object_live(EVENT);
    live.modules = object_live(MODULE);
    for (int i = 0; i < sim.device_count; i++) {
        live.retained += (size_t)sim.devices[i].retained;
    }
    pthread_mutex_unlock(&sim.lock);
    return live;
}
