/*
 * Leaving a job in good order.
 */
#ifndef TUTTI_RUN_STOP_H
#define TUTTI_RUN_STOP_H

#include <tutti/tutti.h>

/**
 * Collective over the world: waits until all ranks leave and everything in flight is
 * over; then frees the context, also when it had failed.
 * @return TUTTI_OK, TUTTI_ERR_CONTEXT_FAILED; TUTTI_ERR_THREAD in a callback of the context,
 *         or where MPI's thread level forbids it: nothing has changed then
 */
tutti_status context_finalize(struct tutti *t);
/** Stops threads and frees everything; no collective. @return what release() said */
tutti_status context_destroy(struct tutti *t);

#endif
