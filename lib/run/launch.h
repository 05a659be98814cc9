/*
 * Launching a batch: it is described to the backends, one is chosen, and begins. Engine
 * only.
 */
#ifndef TUTTI_RUN_LAUNCH_H
#define TUTTI_RUN_LAUNCH_H

#include <tutti/tutti.h>

struct batch;
struct tutti;

/**
 * Describes a batch and begins it on the first backend that takes it;
 * one of device memory that none takes is staged. On failure nothing was begun.
 * Errors: TUTTI_ERR_NO_MEMORY, those of backends and of the device.
 */
tutti_status launch_batch(struct tutti *t, struct batch *batch);

/** A batch whose sizes are told begins on the device. Errors: likewise. */
tutti_status launch_sized(struct tutti *t, struct batch *batch);

/** A staged batch, whose operations are in host memory now, begins there. Errors: likewise. */
tutti_status launch_staged(struct tutti *t, struct batch *batch);

#endif
