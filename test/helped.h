/*
 * Reductions that threads of a rank share: several threads of each rank wait for tensors
 * of their own, and every bit is compared. Looks into the context to make up cores, so that
 * waiting threads help on any machine. Linked with the rooms.
 */
#ifndef TUTTI_TEST_HELPED_H
#define TUTTI_TEST_HELPED_H

#include <stdbool.h>

#include <tutti/tutti.h>

/** A configuration under which threads help; NULL when it cannot be made. */
tutti_config *helped_config(void);

/**
 * On all ranks of a fresh context: goes on until threads of every rank have helped.
 * Prints what is wrong.
 */
bool helped_run(tutti *t);

#endif
