/*
 * A program as a child: a rank's, the MPI launcher, or one that runs beside us. Its output is read through
 * pipes, and the kernel ends it with its parent, where that is asked for.
 */
#ifndef TUTTI_LAUNCHER_EXEC_CHILD_H
#define TUTTI_LAUNCHER_EXEC_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include <tutti/tutti.h>

/** What is started. */
struct child_plan {
    char *const *argv; /* program and arguments                            */
    char *const *environment; /* NAME=VALUE each                            */
    const char *program; /* its file; NULL: argv[0]                         */
    int death_signal; /* when this process dies; 0: none                    */
    int input; /* its standard input; -1: ours                              */
    int output; /* its standard output and error; -1: pipes                 */
    bool is_group; /* it leads a process group; false: it stays in ours      */
    bool takes_terminals; /* where our output is a terminal, its output is one, too */
};

struct child {
    pid_t pid; /* 0: it has not been started                              */
    int exec_fd; /* tells how exec went; -1: known                          */
    int out, err; /* where its output is read; not blocking, owned; -1: no pipes */
};

/**
 * Forks; must be called from the main thread, with whose end the program would end.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM (names the program)
 */
TUTTI_MUST_USE tutti_status child_start(
        const struct child_plan *plan, struct child *child);

/**
 * How exec went. Call when exec_fd is readable.
 * @return -1: not known yet; 0: the program runs; else errno of exec
 */
int child_exec_result(struct child *child);
/** Waits until the program runs. @return TUTTI_OK, TUTTI_ERR_SYSTEM (exec failed; names it) */
TUTTI_MUST_USE tutti_status child_wait_exec(struct child *child, const char *name);

#endif
