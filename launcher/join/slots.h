/*
 * How many ranks this machine takes when nobody says.
 */
#ifndef TUTTI_LAUNCHER_JOIN_SLOTS_H
#define TUTTI_LAUNCHER_JOIN_SLOTS_H

/** The number of its GPUs, else of the cores that we may use. */
int slots_here(void);

#endif
