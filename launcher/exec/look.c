#include "launcher/exec/look.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cgroup.h"
#include "base/text.h"
#include "launcher/exec/procs.h"

enum {
    PATH_BYTES = 96,
    NAME_BYTES = 40, /* of a file of a thread */
    FILE_BYTES = 4096,
    DECIMAL = 10,
    HEXADECIMAL = 16
};

/* Where threads sleep, by a part of the name of the kernel's function. */
static const struct {
    const char *part;
    const char *words;
} places[] = {
    { "futex", "sleeps on a lock or a condition" },
    { "nanosleep", "sleeps for a time" },
    { "pipe", "waits for a pipe" },
    { "poll", "waits for descriptors" },
    { "select", "waits for descriptors" },
    { "do_wait", "waits for a child" },
    { "vfork", "waits for a child" },
    { "kernel_clone", "waits for a child" },
    { "locks_lock", "waits for a file lock" },
    { "posix_lock", "waits for a file lock" },
    { "flock", "waits for a file lock" },
    { "refrigerator", "is frozen by its cgroup" },
    { "sk_wait", "waits for the network" },
    { "unix_stream", "waits for a socket" },
    { "tcp", "waits for the network" },
    { "inet", "waits for the network" },
    { "sigtimedwait", "waits for a signal" },
    { "pause", "waits for a signal" },
    { "swap", "waits for memory that is swapped" },
};

/* The same where the kernel hides its functions, by system call. */
static const struct {
    long number;
    const char *part;
} calls[] = {
    { SYS_futex, "futex" },
    { SYS_clock_nanosleep, "nanosleep" },
    { SYS_nanosleep, "nanosleep" },
    { SYS_ppoll, "poll" },
    { SYS_pselect6, "select" },
    { SYS_epoll_pwait, "poll" },
    { SYS_wait4, "do_wait" },
    { SYS_flock, "flock" },
#ifdef SYS_vfork
    { SYS_vfork, "vfork" },
#endif
    { SYS_recvfrom, "sk_wait" },
    { SYS_rt_sigtimedwait, "sigtimedwait" },
#ifdef SYS_poll
    { SYS_poll, "poll" },
    { SYS_epoll_wait, "poll" },
    { SYS_select, "select" },
    { SYS_pause, "pause" },
#endif
};

/* The number behind a name in a text of lines "Name:\tnumber"; -1: it is not there. */
static long status_number(const char *status, const char *name, int base)
{
    const char *at = strstr(status, name);

    return at == NULL ? -1 : (long)strtoull(at + strlen(name), NULL, base);
}

static void count_threads(pid_t pid, struct look_facts *facts)
{
    char path[PATH_BYTES];
    DIR *folder;
    pid_t thread;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    folder = opendir(path);
    while ((thread = procs_next(folder)) != 0) {
        facts->threads++;
        facts->running += process_state(thread) == 'R' ? 1 : 0;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

void look_at(pid_t pid, struct look_facts *facts)
{
    char text[FILE_BYTES];
    char *end;

    *facts = (struct look_facts){ .state = process_state(pid), .syscall = -1 };
    if (facts->state == '\0') {
        facts->state = 'X';
        return;
    }
    if (process_read(pid, "wchan", text, sizeof text) > 0 && strcmp(text, "0") != 0) {
        (void)snprintf(facts->wchan, sizeof facts->wchan, "%.*s",
                (int)strcspn(text, "\n"), text);
    }
    if (process_read(pid, "syscall", text, sizeof text) > 0) {
        facts->syscall = strtol(text, &end, DECIMAL);
        facts->syscall = end == text ? -1 : facts->syscall;
    }
    if (process_read(pid, "status", text, sizeof text) > 0) {
        facts->swap_kb = status_number(text, "VmSwap:", DECIMAL);
    }
    count_threads(pid, facts);
}

static const char *place_words(const char *place)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strstr(place, places[i].part) != NULL) {
            return places[i].words;
        }
    }
    return NULL;
}

static const char *call_words(long number)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].number == number) {
            return place_words(calls[i].part);
        }
    }
    return NULL;
}

static const char *sleep_words(const struct look_facts *facts)
{
    const char *words = place_words(facts->wchan);

    if (words == NULL) {
        words = call_words(facts->syscall);
    }
    return words != NULL ? words : "sleeps";
}

void look_words(const struct look_facts *facts, char text[LOOK_TEXT_MAX])
{
    const char *words = "";

    switch (facts->state) {
    case 'R':
        words = "computes";
        break;
    case 'D':
        words = place_words(facts->wchan);
        words = words != NULL ? words : "waits for input or output";
        break;
    case 'T':
        words = "was stopped by a signal";
        break;
    case 't':
        words = "is held by a debugger";
        break;
    case 'Z':
    case 'X':
        words = "has ended";
        break;
    default:
        words = sleep_words(facts);
    }
    (void)snprintf(text, LOOK_TEXT_MAX, "%s", words);
    if (facts->wchan[0] != '\0' && facts->state != 'R') {
        text_append(text, LOOK_TEXT_MAX, " (%s)", facts->wchan);
    }
    if (facts->running > 0 && facts->state == 'S') {
        text_append(text, LOOK_TEXT_MAX, ", %d of its %d threads compute",
                facts->running, facts->threads);
    }
    if (facts->swap_kb > 0) {
        text_append(text, LOOK_TEXT_MAX, ", %ld MiB are swapped out",
                facts->swap_kb / 1024);
    }
}

/* In sigwait() a process does not show the signals that it waits for among those it blocks. */
static bool may_be_in_sigwait(pid_t pid)
{
    char text[FILE_BYTES];

    return process_read(pid, "syscall", text, sizeof text) <= 0 ||
            strtol(text, NULL, DECIMAL) == SYS_rt_sigtimedwait;
}

bool look_dies_of(pid_t pid, int signal)
{
    static const char *const masks[] = { "SigBlk:", "SigIgn:", "SigCgt:" };
    char text[FILE_BYTES];

    if (may_be_in_sigwait(pid) || process_read(pid, "status", text, sizeof text) <= 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        const long mask = status_number(text, masks[i], HEXADECIMAL);

        if (((uint64_t)mask >> (signal - 1) & 1) != 0) {
            return false;
        }
    }
    return true;
}

/* Of one thread: its name, where it sleeps, and the kernel's stack, where we may see it. */
static size_t put_stack(pid_t pid, long thread, char *text, size_t capacity)
{
    char name[NAME_BYTES];
    char comm[64];
    char wchan[64];
    char stack[FILE_BYTES];

    (void)snprintf(name, sizeof name, "task/%ld/comm", thread);
    (void)process_read(pid, name, comm, sizeof comm);
    comm[strcspn(comm, "\n")] = '\0';
    (void)snprintf(name, sizeof name, "task/%ld/wchan", thread);
    (void)process_read(pid, name, wchan, sizeof wchan);
    (void)snprintf(name, sizeof name, "task/%ld/stack", thread);
    (void)process_read(pid, name, stack, sizeof stack);
    (void)snprintf(text, capacity, "thread %ld (%s) is in state %c at %s\n%s", thread,
            comm, process_state((pid_t)thread), wchan[0] == '\0' ? "0" : wchan, stack);
    return strnlen(text, capacity);
}

size_t look_stacks(pid_t pid, char text[LOOK_STACKS_MAX])
{
    char path[PATH_BYTES];
    DIR *folder;
    pid_t thread;
    size_t len = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    folder = opendir(path);
    text[0] = '\0';
    while ((thread = procs_next(folder)) != 0) {
        len += put_stack(pid, thread, text + len, LOOK_STACKS_MAX - len);
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return len;
}
