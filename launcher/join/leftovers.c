/*
 * Ends what a subreaper was left with.
 */
#include "launcher/join/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

enum {
    GRACE_MS = 2000, /* daemons end themselves when their master is gone */
    TERM_MS = 2000, /* between SIGTERM and SIGKILL                      */
    NAP_MS = 5,
    KILL_ROUNDS = 50 /* of 100 ms; what survives that hangs in the kernel */
};

/* The text of /proc/PID/stat from the parent on; false when the process is gone. */
static bool read_stat(const char *pid, char *text, size_t capacity)
{
    char path[64];
    FILE *file;
    size_t len;

    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    len = fread(text, 1, capacity - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    return true;
}

/* The parent of a process; -1 when it is gone. */
static int64_t parent_of(const char *pid)
{
    char text[512];
    char *behind = NULL;
    int64_t parent;

    if (read_stat(pid, text, sizeof text)) {
        /* The name may hold anything, but no ')' follows it; then come " S PARENT ". */
        behind = strrchr(text, ')');
    }
    if (behind == NULL || strlen(behind) < 5) {
        return -1;
    }
    behind += 4;
    behind[strcspn(behind, " ")] = '\0';
    return text_to_int64(behind, &parent) ? parent : -1;
}

static void signal_children(int number)
{
    DIR *entries = opendir("/proc");

    while (entries != NULL) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is our own */
        const struct dirent *entry = readdir(entries);
        int64_t pid;

        if (entry == NULL) {
            (void)closedir(entries);
            return;
        }
        if (text_to_int64(entry->d_name, &pid) &&
                parent_of(entry->d_name) == (int64_t)getpid()) {
            (void)kill((pid_t)pid, number);
        }
    }
}

/* Reaps until there is no child (true), or for so long. */
static bool reap_for(int ms)
{
    int64_t end = clock_ns() + (int64_t)ms * 1000000;

    do {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0 && errno == ECHILD) {
            return true;
        }
        if (pid == 0) {
            clock_sleep_ns((int64_t)NAP_MS * 1000000);
        }
    } while (clock_ns() < end);
    return false;
}

void leftovers_end(void)
{
    if (reap_for(GRACE_MS)) {
        return;
    }
    signal_children(SIGTERM);
    if (reap_for(TERM_MS)) {
        return;
    }
    /* Killed ones may have left children to us. */
    for (int i = 0; i < KILL_ROUNDS; i++) {
        signal_children(SIGKILL);
        if (reap_for(100)) {
            return;
        }
    }
}
