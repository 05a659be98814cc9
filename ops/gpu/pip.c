#include "ops/gpu/pip.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"

/* The first file that a pattern matches. */
static bool find(const char *pattern, char *path, size_t capacity)
{
    glob_t found = { .gl_pathc = 0 };
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): only names of users make it so */
    bool is_found = glob(pattern, GLOB_BRACE, NULL, &found) == 0;

    if (is_found) {
        is_found = (size_t)snprintf(path, capacity, "%s", found.gl_pathv[0]) < capacity;
        globfree(&found);
    }
    return is_found;
}

/* In a folder of packages. */
static bool find_in(const char *folder, size_t length, const char *library, char *path,
        size_t capacity)
{
    char pattern[PATH_MAX];
    const int written = snprintf(pattern, sizeof pattern, "%.*s/nvidia/nccl/lib/%s",
            (int)length, folder, library);

    return length > 0 && (size_t)written < sizeof pattern &&
            find(pattern, path, capacity);
}

static bool find_below(
        const char *prefix, const char *library, char *path, size_t capacity)
{
    char folder[PATH_MAX];
    const int written = snprintf(folder, sizeof folder,
            "%s/lib{,64}/python3*/{site,dist}-packages", prefix == NULL ? "" : prefix);

    return prefix != NULL && (size_t)written < sizeof folder &&
            find_in(folder, (size_t)written, library, path, capacity);
}

/* Where PYTHONPATH leads, "folder:folder". */
static bool find_on_path(const char *library, char *path, size_t capacity)
{
    const char *at = config_foreign("PYTHONPATH");

    while (at != NULL && *at != '\0') {
        const size_t length = strcspn(at, ":");

        if (find_in(at, length, library, path, capacity)) {
            return true;
        }
        at += length + (at[length] == ':' ? 1 : 0);
    }
    return false;
}

/* A package of tutti is beside that of NCCL: its library is in tutti/ or tutti/lib/. */
static bool find_beside(const char *library, char *path, size_t capacity)
{
    static const char here = 0;
    char folder[PATH_MAX];
    Dl_info info;
    bool is_found = false;

    if (dladdr(&here, &info) != 0 && info.dli_fname != NULL &&
            strlen(info.dli_fname) < sizeof folder) {
        (void)snprintf(folder, sizeof folder, "%s", info.dli_fname);
        for (int up = 0; up < 3 && !is_found && strrchr(folder, '/') != NULL; up++) {
            *strrchr(folder, '/') = '\0';
            is_found =
                    up > 0 && find_in(folder, strlen(folder), library, path, capacity);
        }
    }
    return is_found;
}

bool pip_find_nccl(const char *library, char *path, size_t capacity)
{
    const char *home = config_foreign("HOME");
    char local[PATH_MAX] = "";

    if (home != NULL) {
        (void)snprintf(local, sizeof local, "%s/.local", home);
    }
    return find_on_path(library, path, capacity) ||
            find_below(config_foreign("VIRTUAL_ENV"), library, path, capacity) ||
            find_below(config_foreign("CONDA_PREFIX"), library, path, capacity) ||
            find_below(local, library, path, capacity) ||
            find_below("/usr/local", library, path, capacity) ||
            find_below("/usr", library, path, capacity) ||
            find_beside(library, path, capacity);
}
