/*
 * Files of /proc and /sys: reading one, and finding the cgroups of this process.
 */
#ifndef TUTTI_BASE_CGROUP_H
#define TUTTI_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/**
 * Reads a file as text, up to the capacity, and ends it with a zero.
 * @return its length, or -1 when it cannot be read
 */
ssize_t kernel_file_read(const char *path, char *text, size_t capacity);

/** Pure: the path of a controller in /proc/PID/cgroup; "" names version 2. */
bool cgroup_find(
        const char *cgroups, const char *controller, char *path, size_t capacity);

/**
 * Visits the folders of this process's cgroup, from its own up to the root. In a container the
 * path may be one of the host; then only the root is there.
 * @param cgroups  contents of /proc/self/cgroup
 * @param mount    where the controller's tree is mounted
 */
void cgroup_each_folder(const char *cgroups, const char *controller, const char *mount,
        void (*visit)(void *user, const char *folder), void *user);

#endif
