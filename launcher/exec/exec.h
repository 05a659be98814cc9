/*
 * tuttirun --exec: the supervisor that the starter starts for every rank.
 */
#ifndef TUTTI_LAUNCHER_EXEC_EXEC_H
#define TUTTI_LAUNCHER_EXEC_EXEC_H

/**
 * Runs "[flags] [--] program args" as the rank that the starter's variables tell, bound
 * to its share of the host. A word of the program that begins with '=' loses it: that hides
 * from starters what they would read. With the variable LINK_VARIABLE it supervises the
 * program for the tuttirun named there; without, it binds and becomes the program.
 * @param argv  what follows --exec, NULL-terminated
 * @return the exit status of the process
 */
int exec_main(char *const *argv, char *const *environment);

#endif
