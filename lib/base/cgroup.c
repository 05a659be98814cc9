/*
 * Reading files of the kernel, and finding the cgroups of this process.
 */
#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

ssize_t kernel_file_read(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t total = 0;
    ssize_t len = 0;

    if (fd < 0) {
        return -1;
    }
    do { /* a read returns a page at most */
        len = read(fd, text + total, capacity - 1 - total);
        total += len > 0 ? (size_t)len : 0;
    } while (len > 0 && total < capacity - 1);
    (void)close(fd);
    text[total] = '\0';
    return len < 0 ? -1 : (ssize_t)total;
}

/* The line's controllers, between its colons, have this name among them. */
static bool has_controller(const char *line, const char *name)
{
    const char *list = strchr(line, ':');
    size_t len = strlen(name);

    while (list != NULL && *list != '\0') {
        list++;
        if (strncmp(list, name, len) == 0 && (list[len] == ':' || list[len] == ',')) {
            return true;
        }
        list += strcspn(list, ",:\n");
        list = *list == ',' ? list : NULL;
    }
    return false;
}

bool cgroup_find(
        const char *cgroups, const char *controller, char *path, size_t capacity)
{
    for (const char *line = cgroups; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        const char *start = strchr(line, ':');

        start = start == NULL ? NULL : strchr(start + 1, ':');
        if (start != NULL && (end == NULL || start < end) &&
                has_controller(line, controller)) {
            size_t len = strcspn(start + 1, "\n");

            return snprintf(path, capacity, "%.*s", (int)len, start + 1) <
                    (int)capacity;
        }
        line = end == NULL ? NULL : end + 1;
    }
    return false;
}

void cgroup_each_folder(const char *cgroups, const char *controller, const char *mount,
        void (*visit)(void *user, const char *folder), void *user)
{
    char group[PATH_MAX];
    char folder[PATH_MAX];
    char *slash;

    if (!cgroup_find(cgroups, controller, group, sizeof group)) {
        return;
    }
    slash = group + strlen(group);
    do {
        *slash = '\0';
        if (snprintf(folder, sizeof folder, "%s%s", mount, group) <
                (int)sizeof folder) {
            visit(user, folder);
        }
        slash = strrchr(group, '/');
    } while (slash != NULL);
}
