/*
 * Leaving a job in good order.
 */
#ifndef TUTTI_CORE_SHUTDOWN_H
#define TUTTI_CORE_SHUTDOWN_H

#include <tutti/tutti.h>

/**
 * Collective over the world: waits until all ranks leave and everything in flight is
 * over; then frees the context, also when it had failed.
 */
tutti_status context_finalize(struct tutti *t);

#endif
