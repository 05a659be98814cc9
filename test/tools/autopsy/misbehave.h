/*
 * What a rank may do instead of going on.
 */
#ifndef TUTTI_TEST_LAUNCHER_AUTOPSY_MISBEHAVE_H
#define TUTTI_TEST_LAUNCHER_AUTOPSY_MISBEHAVE_H

/** Does what a fault of that name is; returns where there is none, or from what does no harm. */
void misbehave(const char *fault);
/** Waits for a lock that it holds itself. */
void lock_up(void);

#endif
