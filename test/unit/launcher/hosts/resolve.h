/*
 * Resolving with an environment and a folder of a test's own.
 */
#ifndef TUTTI_TEST_HOSTS_RESOLVE_H
#define TUTTI_TEST_HOSTS_RESOLVE_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/hosts/source.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

enum {
    RESOLVE_VARIABLES = 12 /* in a case, with the final NULL */
};

/* Variables, and what becomes of them. */
struct resolve_case {
    const char *variables[RESOLVE_VARIABLES];
    const char *hosts; /* "a:2,b:1"; NULL: an error          */
    const char *source; /* part of the source, or of the error */
};

/** A folder that stands for the root of the file system; freed with root_remove(). */
struct root {
    char path[32];
};

static inline void root_make(struct root *root)
{
    (void)snprintf(root->path, sizeof root->path, "%s", "root_XXXXXX");
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
    char file[256];
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

/** Resolves with the options of a command line, whose program is added. */
static inline tutti_status resolve(const char *root, const char *const *variables,
        const struct options *options, struct placement *placement)
{
    struct arguments environment = { .items = NULL };
    struct source_facts facts = {
        .options = options,
        .environment = words_set(&environment, variables),
        .root = root,
        .own_name = "me",
        .script_ms = 20000,
    };
    tutti_status status;

    *placement = (struct placement){ .ranks = 0 };
    status = source_resolve(&facts, placement);
    arguments_fini(&environment);
    return status;
}

static inline void expect_case_with(
        const char *root, const struct resolve_case *one, const struct options *options)
{
    struct placement placement;
    tutti_status status = resolve(root, one->variables, options, &placement);
    char *hosts = host_list_format(&placement.hosts);
    const char *says = status == TUTTI_OK ? placement.source : tutti_last_error();

    if (status == TUTTI_OK) {
        assert_string_equal(hosts, one->hosts == NULL ? "an error" : one->hosts);
    } else if (one->hosts != NULL) {
        fail_msg("%s: %s", one->variables[0], tutti_last_error());
    }
    if (strstr(says, one->source) == NULL) {
        fail_msg("no '%s' in '%s'", one->source, says);
    }
    mem_free(hosts);
    placement_fini(&placement);
}

/** Resolves without flags. */
static inline void expect_case(const char *root, const struct resolve_case *one)
{
    struct options options = { .np = 0 };

    expect_case_with(root, one, &options);
}

#endif
