/*
 * Signals of a process of tuttirun. Those that ask it something, SIGUSR1 and SIGUSR2, are blocked
 * from the first line of main() on: whoever has an answer reads them of a descriptor, and nobody
 * dies of them. Those that end it act at once as long as there is nothing to end in order, so that
 * no wait is deaf to them, not even one within the C library; from then on they are read of the
 * descriptor, too. SIGXFSZ is blocked: a file that may not grow is an error of write(). What was ignored when we were started, as by nohup, stays ignored, and
 * programs get what we were started with.
 */
#ifndef TUTTI_LAUNCHER_SIGNALS_H
#define TUTTI_LAUNCHER_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/** The first thing in main(). Children are heard of, also where SIGCHLD was ignored. */
void signals_begin(void);
/** Before exec: signals as they were before signals_begin(). */
void signals_restore(void);

/** Signals that end us wait from now on. @param[out] before  for signals_let() */
void signals_hold(sigset_t *before);
/** They act as before; one that waits does so now. */
void signals_let(const sigset_t *before);
/** Those that end us do so at once, whatever was held. */
void signals_let_all(void);
/** What is readable while one that is held waits; it is not to be read. -1: none can be had */
int signals_open_held(void);
/**
 * Holds them and SIGTSTP, and ignores SIGPIPE.
 * @param also  one more that is read; 0: none
 * @return a signalfd of all that ask and end, which does not block; -1 with errno
 */
int signals_open(int also);
/** SIGTERM, where it ends us at once, does so with TUTTI_EXIT_AGAIN. */
void signals_leave_again(void);

/** What `tuttirun --stacks PID` sends with SIGUSR1, so that programs do not get it. */
#define SIGNALS_STACKS 0x54555454

/** True of SIGUSR1 that only wants stacks. */
static inline bool signals_wants_stacks(int code, int value)
{
    return code == SI_QUEUE && value == SIGNALS_STACKS;
}

#endif
