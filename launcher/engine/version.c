/*
 * Runs a program for a line of its output, no longer than a moment.
 */
#include "launcher/engine/version.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* Starts it with its output in a pipe; returns its id, or -1. */
static pid_t start(const char *path, char *const *environment, int output)
{
    posix_spawn_file_actions_t actions;
    char flag[] = "--version";
    /* The name is not written to; argv's type is older than const. */
    union {
        const char *constant;
        char *word;
    } name = { .constant = path };
    char *const argv[] = { name.word, flag, NULL };
    pid_t child = -1;

    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, output, 1);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&child, path, &actions, NULL, argv, environment) != 0) {
        child = -1;
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* Reads until the end, a full buffer, or the deadline. */
static size_t read_until(int fd, int64_t deadline, char *text, size_t capacity)
{
    size_t used = 0;

    while (used < capacity) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        const int64_t now = clock_ns();
        ssize_t got;

        if (now >= deadline || poll(&wait, 1, (int)((deadline - now) / 1000000)) <= 0) {
            break;
        }
        got = read(fd, text + used, capacity - used);
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    return used;
}

void version_read(
        const char *path, char *const *environment, char text[VERSION_TEXT_MAX])
{
    const int64_t deadline =
            clock_deadline(clock_ns(), (int64_t)VERSION_WAIT_MS * 1000000);
    int ends[2];
    pid_t child;

    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    child = start(path, environment, ends[1]);
    (void)close(ends[1]);
    if (child > 0) {
        text[read_until(ends[0], deadline, text, VERSION_TEXT_MAX - 1)] = '\0';
        /* What it has still to say, and whether it ends, does not matter. */
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    (void)close(ends[0]);
}
