/*
 * Ends what a subreaper was left with.
 */
#ifndef TUTTI_LAUNCHER_JOIN_LEFTOVERS_H
#define TUTTI_LAUNCHER_JOIN_LEFTOVERS_H

/**
 * Waits shortly for our descendants to end by themselves, then ends them: SIGTERM, and
 * SIGKILL soon after. Those that daemons leave to us are among them.
 */
void leftovers_end(void);

#endif
