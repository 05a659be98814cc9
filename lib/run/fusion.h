/*
 * Fusion buffers: a batch whose tensors the backend cannot take one by one is packed into
 * one piece of memory, and unpacked when it is finished.
 */
#ifndef TUTTI_RUN_FUSION_H
#define TUTTI_RUN_FUSION_H

#include <stdbool.h>

#include "run/dispatch.h"

/** True when the batch, whose op is described, must go through a buffer. */
bool fusion_is_needed(const struct batch *batch);

/**
 * Packs the tensors into a buffer and lets the runs of the batch point there.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
tutti_status fusion_pack(struct dispatcher *dispatcher, struct batch *batch);

/** Unpacks a finished batch that has a buffer. */
void fusion_unpack(const struct batch *batch);

/** Gives the buffer of a batch back; it has one. */
void fusion_release(struct dispatcher *dispatcher, struct batch *batch);

#endif
