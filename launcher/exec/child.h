/*
 * The program of a rank as a process.
 */
#ifndef TUTTI_LAUNCHER_EXEC_CHILD_H
#define TUTTI_LAUNCHER_EXEC_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include <tutti/tutti.h>

/** What is started. */
struct child_plan {
    char *const *argv; /* program and arguments                            */
    char *const *environment; /* NAME=VALUE each                            */
    sigset_t signals; /* its mask: what the starter gave the supervisor     */
    struct sigaction pipe_action; /* its SIGPIPE: the same                  */
};

struct child {
    pid_t pid; /* 0: it has not been started                              */
    int exec_fd; /* tells how exec went; -1: known                          */
    int out, err; /* where its output is read; not blocking, owned           */
};

/**
 * Forks; must be called from the main thread, with whose end the program would end. The
 * program stays in this process group and keeps standard input.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status child_start(
        const struct child_plan *plan, struct child *child);

/**
 * How exec went. Call when exec_fd is readable.
 * @return -1: not known yet; 0: the program runs; else errno of exec
 */
int child_exec_result(struct child *child);

#endif
