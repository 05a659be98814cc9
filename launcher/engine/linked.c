/*
 * Follows what a program needs, library by library, until one is MPI's.
 */
#include "launcher/engine/linked.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/arguments.h"
#include "launcher/engine/elf.h"
#include "launcher/environment.h"

enum {
    FILES_MAX =
            64 /* that are looked into: a program of many libraries needs MPI early */
};

/* Where the loader looks last; its cache names little else. */
static const char *const usual_folders[] = { "/usr/local/lib", "/lib64", "/usr/lib64",
    "/lib", "/usr/lib", "/lib/" TUTTI_MULTIARCH, "/usr/lib/" TUTTI_MULTIARCH };

enum engine_kind linked_kind_of(const char *library)
{
    static const struct {
        const char *start;
        const char *end; /* "": any */
        enum engine_kind kind;
    } rows[] = {
        { "libmpi.so.40", "", ENGINE_OPENMPI }, { "libmpi.so.20", "", ENGINE_OPENMPI },
        { "libmpi_ibm.so", "", ENGINE_OPENMPI }, { "libmpich.so", "", ENGINE_MPICH },
        { "libmpi.so.12", "", ENGINE_MPICH }, /* the ABI of MPICH, Intel MPI, MVAPICH */
        { "libmpi_", ".so.12", ENGINE_MPICH }, /* Cray's, one per compiler */
    };
    const size_t len = strlen(library);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t end = strlen(rows[i].end);

        if (strncmp(library, rows[i].start, strlen(rows[i].start)) == 0 && len >= end &&
                strcmp(library + len - end, rows[i].end) == 0) {
            return rows[i].kind;
        }
    }
    return ENGINE_AUTO;
}

/* False when it is no file, or no ELF that needs something. */
static bool read_file(const char *path, struct elf_needs *needs)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    bool is_read = false;

    if (fd < 0) {
        return false;
    }
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
        bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    (void)close(fd);
    if (bytes != MAP_FAILED) {
        is_read = elf_read(bytes, (size_t)facts.st_size, needs);
        (void)munmap(bytes, (size_t)facts.st_size);
    }
    return is_read;
}

/* Files that were found, each once; the first `done` have been looked into. */
struct search {
    struct arguments files;
    size_t done;
    const char *library_path; /* LD_LIBRARY_PATH, or NULL */
};

/* True when the folder has the library, which is then looked into later. */
static bool try_folder(struct search *search, const char *folder, size_t folder_len,
        const char *origin, const char *library)
{
    static const char here[] = "$ORIGIN";
    const size_t here_len = sizeof here - 1;
    const bool is_here = strncmp(folder, here, here_len) == 0;
    char path[PATH_MAX];
    int len = is_here
            ? snprintf(path, sizeof path, "%.*s%.*s/%s",
                      (int)(strrchr(origin, '/') - origin), origin,
                      (int)(folder_len - here_len), folder + here_len, library)
            : snprintf(path, sizeof path, "%.*s/%s", (int)folder_len, folder, library);

    if (len < 0 || (size_t)len >= sizeof path || access(path, R_OK) != 0) {
        return false;
    }
    if (!arguments_has(&search->files, path)) {
        arguments_add(&search->files, path);
    }
    return true;
}

static void find_library(struct search *search, const struct elf_needs *needs,
        const char *origin, const char *library)
{
    const char *rest = search->library_path == NULL ? "" : search->library_path;

    while (*rest != '\0') {
        const size_t len = strcspn(rest, ":");

        if (len > 0 && try_folder(search, rest, len, origin, library)) {
            return;
        }
        rest += rest[len] == ':' ? len + 1 : len;
    }
    for (size_t i = 0; i < needs->folders.count; i++) {
        const char *folder = needs->folders.items[i];

        if (try_folder(search, folder, strlen(folder), origin, library)) {
            return;
        }
    }
    for (size_t i = 0; i < sizeof usual_folders / sizeof usual_folders[0]; i++) {
        if (try_folder(search, usual_folders[i], strlen(usual_folders[i]), origin,
                    library)) {
            return;
        }
    }
}

/* Looks into one file; true when it needs an MPI. */
static bool look_into(struct search *search, const char *path, struct linked *linked)
{
    struct elf_needs needs = { .libraries = { .items = NULL } };
    bool is_found = false;

    (void)read_file(path, &needs);
    for (size_t i = 0; i < needs.libraries.count && !is_found; i++) {
        const char *library = needs.libraries.items[i];
        const enum engine_kind kind = linked_kind_of(library);

        is_found = kind != ENGINE_AUTO;
        if (is_found) {
            linked->kind = kind;
            (void)snprintf(linked->library, sizeof linked->library, "%s", library);
        }
    }
    for (size_t i = 0; i < needs.libraries.count && !is_found; i++) {
        find_library(search, &needs, path, needs.libraries.items[i]);
    }
    elf_needs_fini(&needs);
    return is_found;
}

void linked_read(const char *path, char *const *environment, struct linked *linked)
{
    struct search search = { .library_path =
                                     environment_get(environment, "LD_LIBRARY_PATH") };
    char real[PATH_MAX];
    bool is_found = false;

    *linked = (struct linked){ .kind = ENGINE_AUTO };
    if (realpath(path, real) == NULL) {
        return;
    }
    arguments_add(&search.files, real);
    while (!is_found && search.done < search.files.count && search.done < FILES_MAX) {
        is_found = look_into(&search, search.files.items[search.done++], linked);
    }
    arguments_fini(&search.files);
}
