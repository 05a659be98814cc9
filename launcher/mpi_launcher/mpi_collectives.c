#include "launcher/mpi_launcher/mpi_collectives.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/built.h"
#include "launcher/process.h"

enum {
    WAIT_MS = 10000 /* a file system that is silent so long is not waited for */
};

enum mpi_kind linked_kind_of(const char *library)
{
    static const struct {
        const char *start;
        const char *end; /* "": any */
        enum mpi_kind kind;
    } rows[] = {
        { "libmpi.so.40", "", MPI_KIND_OPENMPI },
        { "libmpi.so.20", "", MPI_KIND_OPENMPI },
        { "libmpi_ibm.so", "", MPI_KIND_OPENMPI },
        { "libmpich.so", "", MPI_KIND_MPICH },
        { "libmpi.so.12", "",
                MPI_KIND_MPICH }, /* the ABI of MPICH, Intel MPI, MVAPICH */
        { "libmpi_", ".so.12", MPI_KIND_MPICH }, /* Cray's, one per compiler */
    };
    const size_t len = strlen(library);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t end = strlen(rows[i].end);

        if (strncmp(library, rows[i].start, strlen(rows[i].start)) == 0 && len >= end &&
                strcmp(library + len - end, rows[i].end) == 0) {
            return rows[i].kind;
        }
    }
    return MPI_KIND_AUTO;
}

/* Whether "\tlibtutti.so.0 => /usr/lib/libtutti.so.0 (0x7f...)" has its plug-in for UCX beside it. */
static bool has_ucx(const char *line)
{
    const char *path = strstr(line, "=> ");
    const char *name = path == NULL ? NULL : strstr(path, "/libtutti.so.");
    char plugin[PATH_MAX];

    if (name == NULL) {
        return false;
    }
    path += strlen("=> ");
    name += strlen("/libtutti");
    (void)snprintf(plugin, sizeof plugin, "%.*s-ucx%.*s", (int)(name - path), path,
            (int)strcspn(name, " "), name);
    return access(plugin, R_OK) == 0;
}

/* The first that is MPI's of lines "\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x7f...)". */
static void find_mpi(struct process *process, struct linked *linked)
{
    bool is_any = false; /* of whatever kind */
    bool is_tutti = false;
    char line[PATH_MAX];

    while (linked->kind == MPI_KIND_AUTO &&
            process_take_line(process, line, sizeof line)) {
        char *path = line + strspn(line, " \t");
        const char *slash;

        is_tutti |= has_ucx(line);
        path[strcspn(path, " ")] = '\0';
        slash = strrchr(path, '/');
        (void)snprintf(linked->library, sizeof linked->library, "%.*s",
                LINKED_NAME_MAX - 1, slash == NULL ? path : slash + 1);
        is_any |= strncmp(linked->library, "libmpi", strlen("libmpi")) == 0;
        linked->kind = linked_kind_of(linked->library);
    }
    linked->needs_no_mpi = is_tutti && !is_any;
}

void linked_read(const char *path, char *const *environment, struct linked *linked)
{
    const int64_t until_ns = clock_ns() + (int64_t)WAIT_MS * 1000000;
    char loader[PATH_MAX];
    char program[PATH_MAX];
    char flag[] = "--list";
    char *const argv[] = { loader, flag, program, NULL };
    struct process process;
    Dl_info ours;

    *linked = (struct linked){ .kind = MPI_KIND_AUTO };
    /* The loader that started us; none if we are linked statically. The kernel gives its
     * address as a number. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    if (dladdr((const void *)getauxval(AT_BASE), &ours) == 0) {
        return;
    }
    (void)snprintf(loader, sizeof loader, "%s", ours.dli_fname);
    (void)snprintf(program, sizeof program, "%s", path);
    if (process_run(&process, argv, environment, until_ns) == TUTTI_OK) {
        find_mpi(&process, linked);
        process_fini(&process);
    }
}

#define LIBRARY "libtutti_mpi.so"
#define PRELOAD "LD_PRELOAD"

enum mpi_kind mpi_kind_built_with(void)
{
    return strcmp(built_mpi, "openmpi") == 0  ? MPI_KIND_OPENMPI
            : strcmp(built_mpi, "mpich") == 0 ? MPI_KIND_MPICH
                                              : MPI_KIND_AUTO;
}

tutti_status mpi_collectives_find(const char *self, enum mpi_kind kind, char *file)
{
    /* As installed, and as built. */
    const char *const places[] = { built_preload_dir, "lib" };
    const char *mpi = kind == MPI_KIND_AUTO ? built_mpi
            : kind == MPI_KIND_OPENMPI      ? "openmpi"
                                            : "mpich";
    const char *slash = strrchr(self, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - self);

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int length = snprintf(
                file, PATH_MAX, "%.*s/../%s/%s/" LIBRARY, folder, self, places[i], mpi);

        if (length > 0 && length < PATH_MAX && access(file, R_OK) == 0) {
            return TUTTI_OK;
        }
    }
    return error_set(TUTTI_ERR_INVALID,
            "--mpi-collectives: there is no " LIBRARY
            " in %.*s/../%s/%s, for the MPI of the ranks; install tutti's plug-in for "
            "it",
            folder, self, built_preload_dir, mpi);
}

bool mpi_collectives_are_here(char *const *environment)
{
    const char *file = environment_get(environment, MPI_COLLECTIVES_VARIABLE);

    if (file == NULL || access(file, R_OK) == 0) {
        return true;
    }
    error_note("--mpi-collectives: there is no %s on this host; tutti must be at the "
               "same place on all hosts",
            file);
    return false;
}

void mpi_collectives_export(struct arguments *environment)
{
    static char *const nothing[] = { NULL };
    char *const *variables = environment->items == NULL ? nothing : environment->items;
    const char *file = environment_get(variables, MPI_COLLECTIVES_VARIABLE);
    const char *others = environment_get(variables, PRELOAD);
    char value[2 * PATH_MAX];

    if (file != NULL) {
        (void)snprintf(value, sizeof value, "%s%s%s", file, others == NULL ? "" : ":",
                others == NULL ? "" : others);
        arguments_set(environment, PRELOAD, value);
    }
}
