/*
 * A folder of a test's own that stands for the root of the file system.
 */
#ifndef TUTTI_TEST_LAUNCHER_ROOT_H
#define TUTTI_TEST_LAUNCHER_ROOT_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/unit.h"

/** Removed with root_remove(). */
struct root {
    char path[32];
};

static inline void root_make(struct root *root)
{
    (void)snprintf(root->path, sizeof root->path, "/tmp/tutti-root.XXXXXX");
    assert_non_null(mkdtemp(root->path));
}

static inline int root_remove_entry(
        const char *path, const struct stat *facts, int type, struct FTW *place)
{
    (void)facts;
    (void)type;
    (void)place;
    return remove(path);
}

static inline void root_remove(struct root *root)
{
    assert_int_equal(nftw(root->path, root_remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/** Writes a file below the root, and its folders. */
static inline void root_write(
        const struct root *root, const char *path, const char *text, unsigned mode)
{
    char file[512];
    size_t start = strlen(root->path) + 1;
    int fd;

    (void)snprintf(file, sizeof file, "%s%s", root->path, path);
    for (char *slash = strchr(file + start, '/'); slash != NULL;
            slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(file, 0700);
        *slash = '/';
    }
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

#endif
