#include "launcher/exec/oom.h"

#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/text.h"

enum {
    FILE_MAX = 1 << 14, /* /proc/vmstat is the longest */
    NAME_MAX_BYTES = 64
};

static bool read_text(const char *path, char text[FILE_MAX])
{
    return kernel_file_read(path, text, FILE_MAX) >= 0;
}

bool oom_parse(const char *events, uint64_t *count)
{
    static const char name[] = "oom_kill ";
    const char *line = events;

    while (line != NULL && strncmp(line, name, sizeof name - 1) != 0) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    if (line != NULL) {
        char digits[NAME_MAX_BYTES];
        int64_t value;

        line += sizeof name - 1;
        if (snprintf(digits, sizeof digits, "%.*s", (int)strcspn(line, "\n"), line) <
                        (int)sizeof digits &&
                text_to_int64(digits, &value) && value >= 0) {
            *count = (uint64_t)value;
            return true;
        }
    }
    return false;
}

/* Versions of cgroups, and where each is usually mounted. */
static const struct place {
    const char *controller; /* in /proc/self/cgroup                 */
    const char *mount; /* where its tree is                    */
    const char *events; /* the counter's file                   */
    const char *limit; /* the limit's file; NULL: there is none */
} places[] = {
    { .controller = "",
            .mount = "/sys/fs/cgroup",
            .events = "memory.events",
            .limit = "memory.max" },
    { .controller = "memory",
            .mount = "/sys/fs/cgroup/memory",
            .events = "memory.oom_control",
            .limit = "memory.limit_in_bytes" },
};

/* In a container the path may be one of the host, and the tree begins at its own root. */
static bool try_place(struct oom *oom, const char *root, const struct place *place,
        const char *cgroups)
{
    char path[PATH_MAX] = "";
    char text[FILE_MAX];

    if (!cgroup_find(cgroups, place->controller, path, sizeof path)) {
        return false;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
        if (snprintf(oom->events, PATH_MAX, "%s%s%s/%s", root, place->mount, path,
                    place->events) < PATH_MAX &&
                snprintf(oom->limit, PATH_MAX, "%s%s%s/%s", root, place->mount, path,
                        place->limit) < PATH_MAX &&
                read_text(oom->events, text) && oom_parse(text, &oom->count)) {
            return true;
        }
        path[0] = '\0';
    }
    return false;
}

void oom_open(struct oom *oom, const char *root)
{
    char path[PATH_MAX];
    char cgroups[FILE_MAX];
    char text[FILE_MAX];

    *oom = (struct oom){ .count = 0 };
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && read_text(path, cgroups);
            i++) {
        if (try_place(oom, root, &places[i], cgroups)) {
            return;
        }
    }
    oom->limit[0] = '\0';
    (void)snprintf(oom->events, sizeof oom->events, "%s/proc/vmstat", root);
    if (!read_text(oom->events, text) || !oom_parse(text, &oom->count)) {
        oom->events[0] = '\0';
    }
}

static void describe_limit(const struct oom *oom, char *text, size_t capacity)
{
    char limit[FILE_MAX];
    int64_t bytes;

    if (oom->limit[0] == '\0' || !read_text(oom->limit, limit)) {
        return;
    }
    limit[strcspn(limit, "\n")] = '\0';
    /* Version 1 has a huge number where there is no limit. */
    if (text_to_int64(limit, &bytes) && bytes < (int64_t)1 << 60) {
        (void)snprintf(text, capacity, "its memory limit is %.1f MiB",
                (double)bytes / (double)(1 << 20));
    }
}

bool oom_has_killed(const struct oom *oom, char *text, size_t capacity)
{
    char events[FILE_MAX];
    uint64_t count = 0;

    text[0] = '\0';
    if (oom->events[0] == '\0' || !read_text(oom->events, events) ||
            !oom_parse(events, &count) || count <= oom->count) {
        return false;
    }
    describe_limit(oom, text, capacity);
    return true;
}
