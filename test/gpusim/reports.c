/*
 * What was found: said on stderr at once, counted, and the process ends with status 97 unless
 * a test took the findings. The environment's options are read here as well.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpusim/state.h"

enum {
    STATUS_FOUND = 97,
    SHOWN_MAX = 20,
    TEXT_BYTES = 1024
};

/* Under a lock of its own, the innermost of all: reports come from everywhere. */
static struct {
    pthread_mutex_t lock;
    long reports;
    char first[TEXT_BYTES];
} found = { .lock = PTHREAD_MUTEX_INITIALIZER };

void gpusim_report(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&found.lock);
    if (found.reports == 0) {
        memcpy(found.first, text, sizeof text);
    }
    found.reports++;
    if (found.reports <= SHOWN_MAX) {
        (void)fprintf(stderr, "gpusim[%d]: %s\n", (int)getpid(), text);
    }
    pthread_mutex_unlock(&found.lock);
}

long gpusim_take_reports(char *text, size_t capacity)
{
    long reports;

    pthread_mutex_lock(&found.lock);
    reports = found.reports;
    if (text != NULL) {
        (void)snprintf(text, capacity, "%s", reports > 0 ? found.first : "");
    }
    found.reports = 0;
    pthread_mutex_unlock(&found.lock);
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

const char *gpusim_option_text(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value == NULL || *value == '\0' ? otherwise : value;
}

long gpusim_option(const char *name, long otherwise)
{
    const char *text = gpusim_option_text(name, NULL);
    char *end;
    long value;

    if (text == NULL) {
        return otherwise;
    }
    errno = 0;
    value = strtol(text, &end, 0);
    if (errno != 0 || *end != '\0') {
        (void)fprintf(stderr, "gpusim: %s=%s is not a number\n", name, text);
        _exit(STATUS_FOUND);
    }
    return value;
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
