/*
 * What the shell of tuttirun has, and every rank shall have: Open MPI puts folders of its own in
 * front of PATH and LD_LIBRARY_PATH, and a session of ssh has its own of all this.
 */
#ifndef TUTTI_LAUNCHER_SHELL_H
#define TUTTI_LAUNCHER_SHELL_H

#include "launcher/arguments.h"

/** What tells supervisors; in our environment, which MPI launchers hand on. */
#define SHELL_VARIABLE "TUTTI_INTERNAL_SHELL"

/**
 * tuttirun, before it changes anything: notes umask, limits, and the variables that MPI launchers
 * change. One thread. @param given  NAME=VALUE of --export, which count before ours
 */
void shell_note(const struct arguments *given);

/** tuttirun --exec: takes that over, as far as this host permits. One thread. */
void shell_enter(void);

#endif
