/*
 * Asks the loader which libraries a program needs: it lists them and runs nothing of the
 * program.
 */
#include "launcher/starter/linked.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/clock.h"
#include "launcher/process.h"

enum {
    WAIT_MS = 10000 /* a file system that is silent so long is not waited for */
};

enum starter_kind linked_kind_of(const char *library)
{
    static const struct {
        const char *start;
        const char *end; /* "": any */
        enum starter_kind kind;
    } rows[] = {
        { "libmpi.so.40", "", STARTER_OPENMPI },
        { "libmpi.so.20", "", STARTER_OPENMPI },
        { "libmpi_ibm.so", "", STARTER_OPENMPI }, { "libmpich.so", "", STARTER_MPICH },
        { "libmpi.so.12", "",
                STARTER_MPICH }, /* the ABI of MPICH, Intel MPI, MVAPICH */
        { "libmpi_", ".so.12", STARTER_MPICH }, /* Cray's, one per compiler */
    };
    const size_t len = strlen(library);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t end = strlen(rows[i].end);

        if (strncmp(library, rows[i].start, strlen(rows[i].start)) == 0 && len >= end &&
                strcmp(library + len - end, rows[i].end) == 0) {
            return rows[i].kind;
        }
    }
    return STARTER_AUTO;
}

/* The first that is MPI's of lines "\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x7f...)". */
static void find_mpi(struct process *process, struct linked *linked)
{
    char line[PATH_MAX];

    while (linked->kind == STARTER_AUTO &&
            process_take_line(process, line, sizeof line)) {
        char *path = line + strspn(line, " \t");
        const char *slash;

        path[strcspn(path, " ")] = '\0';
        slash = strrchr(path, '/');
        (void)snprintf(linked->library, sizeof linked->library, "%.*s",
                LINKED_NAME_MAX - 1, slash == NULL ? path : slash + 1);
        linked->kind = linked_kind_of(linked->library);
    }
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

    *linked = (struct linked){ .kind = STARTER_AUTO };
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
