/*
 * What a process does at this moment, by what the kernel says of it in /proc.
 */
#ifndef TUTTI_LAUNCHER_EXEC_LOOK_H
#define TUTTI_LAUNCHER_EXEC_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    LOOK_TEXT_MAX = 256,
    LOOK_STACKS_MAX = 1 << 14
};

/** What is known of a process; what is not is "" or -1. */
struct look_facts {
    char state; /* letter in /proc/PID/stat; 'X': there is no such process         */
    char wchan[64]; /* function of the kernel in which its first thread sleeps       */
    long syscall; /* number of its system call; -1: none, or not to be seen      */
    long swap_kb; /* of its memory, swapped out                                */
    int threads, running; /* all, and those that have or want a core               */
};

void look_at(pid_t pid, struct look_facts *facts);
/** "sleeps on a lock or condition (futex_wait_queue)", "computes", "was stopped ...". Pure. */
void look_words(const struct look_facts *facts, char text[LOOK_TEXT_MAX]);
/** True when a signal would end the process: it neither handles, ignores nor blocks it. */
bool look_dies_of(pid_t pid, int signal);
/** Where each thread is in the kernel, in lines; returns how many bytes. */
size_t look_stacks(pid_t pid, char text[LOOK_STACKS_MAX]);

#endif
