/*
 * Whether the kernel has killed because memory ran out: the counter of the cgroup, or of the
 * machine where there is none, before and after.
 */
#ifndef TUTTI_LAUNCHER_EXEC_OOM_H
#define TUTTI_LAUNCHER_EXEC_OOM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Where the counter is. */
struct oom {
    char events[PATH_MAX]; /* file with "oom_kill N"; "": there is none          */
    char limit[PATH_MAX]; /* file with the limit in bytes or "max"; "": there is none */
    uint64_t count; /* when it was opened                                 */
};

/** Finds the counter of this process. @param root "", or a test's folder */
void oom_open(struct oom *oom, const char *root);
/**
 * True when the kernel has killed since oom_open().
 * @param[out] text  the limit in words, "" when unknown
 */
bool oom_has_killed(const struct oom *oom, char *text, size_t capacity);

/** Pure: the number behind "oom_kill ". */
bool oom_parse(const char *events, uint64_t *count);

#endif
