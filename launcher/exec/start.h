/*
 * tuttirun --start: starts supervisors without an MPI, as mpirun and its daemons do.
 */
#ifndef TUTTI_LAUNCHER_EXEC_START_H
#define TUTTI_LAUNCHER_EXEC_START_H

/**
 *     tuttirun --start SIZE FIRST HOST:COUNT,... [-x NAME]... [SSH WORDS...] -- COMMAND...
 *
 * Runs COUNT times the command, tuttirun --exec, for the ranks of each host, from FIRST on, of a
 * job of SIZE. The host "." is this one. Another one gets the command
 *
 *     SSH WORDS... HOST tuttirun --start SIZE FIRST -:COUNT -- COMMAND...
 *
 * whose input begins with the variables and the folder in which to run, so that no secret is in a
 * list of processes; what follows is the input of rank 0.
 * @param argv  from SIZE on, NULL-terminated
 * @return the exit status: that of the first that did not end well
 */
int start_main(char *const *argv, char *const *environment);

#endif
