/*
 * Processes of a rank, seen through /proc: found and killed.
 */
#ifndef TUTTI_LAUNCHER_EXEC_PROCS_H
#define TUTTI_LAUNCHER_EXEC_PROCS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** Marks the processes of a rank: its value is "JOB.RANK.PID", with
 * the pid of the supervisor. */
#define PROCS_VARIABLE "TUTTI_INTERNAL_RANK_OF"

/** A process by its /proc/PID/stat. */
struct process_facts {
    pid_t pid;
    pid_t parent;
    char state; /* 'R', 'S', 'T', 'Z', ... */
    bool is_ending; /* exits, or is to by SIGKILL; false where the text ends before that */
};

/** Reads a file of /proc/PID as text; its length, or -1 with "" when there is no such process. */
ssize_t process_read(pid_t pid, const char *name, char *text, size_t capacity);
/** The next process, or thread, of an open folder of /proc; 0 at the end, or without a folder. */
pid_t procs_next(DIR *folder);
/** Pure: reads the text of /proc/PID/stat; its name may hold spaces and brackets. */
bool process_parse(struct process_facts *process, const char *text);
/** The letter of a process' state; 0 when there is no such process. */
char process_state(pid_t pid);
/** True when a process has ended, or cannot but end: it exits, or SIGKILL was sent to it. */
bool process_is_ending(pid_t pid);

/** True when the process has this name, of which the system keeps 15 characters. */
bool process_is_named(pid_t pid, const char *name);

/**
 * Sends a signal to all living processes that descend from this one. With 0, they are
 * only counted.
 * @param name   of those that are left alone; NULL: none
 * @param title  likewise, the beginning of their command line
 * @return how many there are
 */
size_t procs_signal_descendants(int signal, const char *name, const char *title);

/**
 * Sends SIGKILL to every process, but this one, whose environment at its start had the
 * entry `mark` ("NAME=VALUE").
 * @return how many there are
 */
size_t procs_kill_marked(const char *mark);

/** Pure: `entry` is one of the zero-terminated strings in a part of an environment. */
bool procs_has_entry(const char *environment, size_t len, const char *entry);

#endif
