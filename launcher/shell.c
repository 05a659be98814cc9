#include "launcher/shell.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/arguments.h"

#define BETWEEN "\x1e" /* values; no folder has it in its name */

static const char *const names[] = { "PATH", "LD_LIBRARY_PATH", "PWD" };

enum {
    NAMES = sizeof names / sizeof names[0]
};

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */

void shell_note(const struct arguments *given)
{
    struct arguments text = { .items = NULL };
    const mode_t mask = umask(0);
    char *joined;

    (void)umask(mask);
    arguments_add_format(&text, "%u", (unsigned)mask);
    for (unsigned i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

        (void)getrlimit(i, &limit);
        arguments_add_format(&text, " %" PRIu64, (uint64_t)limit.rlim_cur);
    }
    for (size_t i = 0; i < NAMES; i++) {
        const char *value =
                given->count > 0 ? environment_get(given->items, names[i]) : NULL;

        value = value != NULL ? value : environment_get(environ, names[i]);
        arguments_add_format(&text, BETWEEN "%s", value == NULL ? "" : value);
    }
    joined = arguments_join(&text, "");
    if (joined != NULL) {
        (void)setenv(SHELL_VARIABLE, joined, 1);
    }
    mem_free(joined);
    arguments_fini(&text);
}

static void enter_numbers(const char *text)
{
    char *next;

    (void)umask((mode_t)strtoul(text, &next, 10));
    for (unsigned i = 0; *next == ' '; i++) {
        const uint64_t value = strtoull(next, &next, 10);
        struct rlimit limit;

        if (getrlimit(i, &limit) == 0) {
            limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
            (void)setrlimit(i, &limit);
        }
    }
}

void shell_enter(void)
{
    const char *noted = environment_get(environ, SHELL_VARIABLE);
    char *copy = noted == NULL ? NULL : mem_strdup(noted);
    char *rest = copy;
    char real[PATH_MAX];
    char here[PATH_MAX];

    if (copy != NULL) {
        enter_numbers(strsep(&rest, BETWEEN));
    }
    for (size_t i = 0; rest != NULL && i < NAMES; i++) {
        const char *value = strsep(&rest, BETWEEN);

        if (value[0] == '\0') {
            (void)unsetenv(names[i]);
        } else if (strcmp(names[i], "PWD") != 0 ||
                (realpath(value, real) != NULL && getcwd(here, sizeof here) != NULL &&
                        strcmp(real, here) == 0)) {
            (void)setenv(names[i], value, 1);
        }
    }
    (void)unsetenv(SHELL_VARIABLE);
    mem_free(copy);
}

/* NOLINTEND(concurrency-mt-unsafe) */
