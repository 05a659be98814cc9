/*
 * Runs a program for a line of its output, no longer than a moment.
 */
#include "launcher/starter/version.h"

#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "launcher/process.h"

void version_read(
        const char *path, char *const *environment, char text[VERSION_TEXT_MAX])
{
    const int64_t until_ns = clock_ns() + (int64_t)VERSION_WAIT_MS * 1000000;
    char name[PATH_MAX];
    char flag[] = "--version";
    char *const argv[] = { name, flag, NULL };
    struct process process;

    text[0] = '\0';
    (void)snprintf(name, sizeof name, "%s", path);
    if (process_run(&process, argv, environment, until_ns) != TUTTI_OK) {
        return;
    }
    if (process.out.len > 0) {
        (void)snprintf(
                text, VERSION_TEXT_MAX, "%.*s", (int)process.out.len, process.out.text);
    }
    process_fini(&process);
}
