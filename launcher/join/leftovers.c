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

/* The parent of a process; -1 when it is gone. */
static long parent_of(const char *pid)
{
    char path[64];
    char text[512];
    const char *behind;
    FILE *file;
    size_t len;
    long parent = -1;

    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    len = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    /* The name may hold anything, but no ')' follows it. */
    behind = strrchr(text, ')');
    if (behind == NULL || sscanf(behind, ") %*c %ld", &parent) != 1) {
        return -1;
    }
    return parent;
}

static void signal_children(int number)
{
    DIR *entries = opendir("/proc");
    const struct dirent *entry = entries == NULL ? NULL : readdir(entries);

    for (; entry != NULL; entry = readdir(entries)) {
        int64_t pid;

        if (text_to_int64(entry->d_name, &pid) &&
                parent_of(entry->d_name) == (long)getpid()) {
            (void)kill((pid_t)pid, number);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
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
