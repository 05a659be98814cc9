/*
 * Processes of a rank, seen through /proc. A pid that is read and killed at once may in
 * theory have been given to another process in between; pids are given out in a circle,
 * so that does not happen within microseconds.
 */
#include "launcher/exec/procs.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/mem.h"

enum {
    PATH_BYTES = 64,
    STAT_BYTES = 1024,
    NAME_BYTES = 32, /* of a name with its newline and a zero */
    TITLE_BYTES = 256,
    ENVIRONMENT_MAX = 1 << 22, /* no environment that exec takes is longer */
    DECIMAL = 10,
    /* Fields of stat behind the parent, and what is in them. */
    FIELD_FLAGS = 5,
    FIELD_PENDING = 27,
    FLAG_EXITING = 1 << 2
};

/* The n-th number behind `text`, counted from 1; 0 where there are fewer. */
static unsigned long long number_at(const char *text, int n)
{
    unsigned long long number = 0;

    for (; n > 0; n--) {
        char *rest;

        number = strtoull(text, &rest, DECIMAL);
        if (rest == text) {
            return 0;
        }
        text = rest;
    }
    return number;
}

bool process_parse(struct process_facts *process, const char *text)
{
    const char *end = strrchr(text, ')');
    char *rest;
    long pid = strtol(text, &rest, DECIMAL);
    long parent;

    if (rest == text || pid <= 0 || end == NULL || end[1] != ' ' || end[2] == '\0') {
        return false;
    }
    parent = strtol(end + 3, &rest, DECIMAL);
    if (rest == end + 3) {
        return false;
    }
    *process = (struct process_facts){
        .pid = (pid_t)pid,
        .parent = (pid_t)parent,
        .state = end[2],
        .is_ending = end[2] == 'Z' || end[2] == 'X' ||
                (number_at(rest, FIELD_FLAGS) & FLAG_EXITING) != 0 ||
                (number_at(rest, FIELD_PENDING) & (1U << (SIGKILL - 1))) != 0,
    };
    return true;
}

ssize_t process_read(pid_t pid, const char *name, char *text, size_t capacity)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    text[0] = '\0';
    return kernel_file_read(path, text, capacity);
}

static bool read_process(pid_t pid, struct process_facts *process)
{
    char text[STAT_BYTES];

    return process_read(pid, "stat", text, sizeof text) > 0 &&
            process_parse(process, text);
}

char process_state(pid_t pid)
{
    struct process_facts process = { .state = '\0' };

    (void)read_process(pid, &process);
    return process.state;
}

bool process_is_ending(pid_t pid)
{
    struct process_facts process;

    return !read_process(pid, &process) || process.is_ending;
}

bool process_is_named(pid_t pid, const char *name)
{
    char text[NAME_BYTES];

    if (process_read(pid, "comm", text, sizeof text) <= 0) {
        return false;
    }
    text[strcspn(text, "\n")] = '\0';
    return strcmp(text, name) == 0;
}

pid_t procs_next(DIR *folder)
{
    const struct dirent *entry;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is read by one thread */
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, DECIMAL);

        if (*end == '\0' && pid > 0) {
            return (pid_t)pid;
        }
    }
    return 0;
}

/* All processes, in memory of the caller; 0 when /proc cannot be read. */
static size_t list_processes(struct process_facts **list)
{
    DIR *folder = opendir("/proc");
    size_t count = 0;
    size_t capacity = 0;
    pid_t pid;

    *list = NULL;
    if (folder == NULL) {
        return 0;
    }
    while ((pid = procs_next(folder)) != 0 &&
            mem_grow(list, &capacity, count + 1, sizeof **list)) {
        count += read_process(pid, &(*list)[count]) ? 1 : 0;
    }
    (void)closedir(folder);
    return count;
}

static void swap(struct process_facts *a, struct process_facts *b)
{
    struct process_facts moved = *a;

    *a = *b;
    *b = moved;
}

/* Moves the children of a process behind the first `found`; returns how many are there. */
static size_t gather_children(
        struct process_facts *list, size_t count, size_t found, pid_t parent)
{
    for (size_t i = found; i < count; i++) {
        if (list[i].parent == parent) {
            swap(&list[i], &list[found++]);
        }
    }
    return found;
}

/* Moves the descendants of a process to the front of the list; returns how many. */
static size_t gather_descendants(struct process_facts *list, size_t count, pid_t root)
{
    size_t found = gather_children(list, count, 0, root);

    for (size_t next = 0; next < found; next++) {
        found = gather_children(list, count, found, list[next].pid);
    }
    return found;
}

/* As a process that has given itself a title: "ssh: SOCKET [mux]". */
static bool is_titled(pid_t pid, const char *title)
{
    char text[TITLE_BYTES];

    return process_read(pid, "cmdline", text, sizeof text) > 0 &&
            strncmp(text, title, strlen(title)) == 0;
}

size_t procs_signal_descendants(int signal, const char *name, const char *title)
{
    struct process_facts *list;
    size_t count = list_processes(&list);
    size_t found = gather_descendants(list, count, getpid());
    size_t living = 0;

    for (size_t i = 0; i < found; i++) {
        if (list[i].state != 'Z' && list[i].state != 'X' &&
                (name == NULL || !process_is_named(list[i].pid, name)) &&
                (title == NULL || !is_titled(list[i].pid, title))) {
            living++;
            (void)kill(list[i].pid, signal);
        }
    }
    mem_free(list);
    return living;
}

bool procs_has_entry(const char *environment, size_t len, const char *entry)
{
    size_t entry_len = strlen(entry) + 1;
    const char *at = environment;
    const char *end = environment + len;

    while (at < end) {
        const char *zero = memchr(at, '\0', (size_t)(end - at));

        if (zero == NULL) {
            return false;
        }
        if ((size_t)(zero - at) + 1 == entry_len && memcmp(at, entry, entry_len) == 0) {
            return true;
        }
        at = zero + 1;
    }
    return false;
}

/* Looks at /proc/PID/environ; `buffer` has room for ENVIRONMENT_MAX bytes. */
static bool is_marked(pid_t pid, const char *mark, char *buffer)
{
    ssize_t len = process_read(pid, "environ", buffer, ENVIRONMENT_MAX);

    return len > 0 && procs_has_entry(buffer, (size_t)len, mark);
}

size_t procs_kill_marked(const char *mark)
{
    DIR *folder = opendir("/proc");
    char *buffer = mem_alloc(ENVIRONMENT_MAX);
    size_t found = 0;
    pid_t pid;

    while (buffer != NULL && (pid = procs_next(folder)) != 0) {
        if (pid != getpid() && is_marked(pid, mark, buffer)) {
            found++;
            (void)kill(pid, SIGKILL);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    mem_free(buffer);
    return found;
}
