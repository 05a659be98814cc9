/*
 * Batches of device memory that no backend takes go through host memory: their inputs are
 * copied to pinned memory, a backend of host memory runs them under the same sequence number,
 * and the outputs are copied back. Engine only.
 */
#ifndef TUTTI_RUN_STAGE_H
#define TUTTI_RUN_STAGE_H

#include <stddef.h>

#include <tutti/tutti.h>

struct batch;
struct tutti;

/**
 * Copies the inputs to the host behind the events of the batch; batch->issued is the event after
 * them. Errors: TUTTI_ERR_NO_MEMORY, those of the device; nothing was begun.
 */
tutti_status stage_in(struct tutti *t, struct batch *batch);
/** TUTTI_OK: the copies have been made, and their event is gone. TUTTI_AGAIN, or errors. */
tutti_status stage_look(struct tutti *t, struct batch *batch);
/** The inputs are on the host: the operations of the batch, too, from now on. */
void stage_on_host(struct batch *batch);
/** Operation i: the place of an output whose size the backend has found, or whose memory is new. */
tutti_status stage_place(struct tutti *t, struct batch *batch, size_t i, size_t bytes);
/** The backend is done: copies the outputs back, and makes batch->issued their event. */
tutti_status stage_out(struct tutti *t, struct batch *batch);

#endif
