/*
 * Staging: batches of device memory that no backend takes go through host memory. Their
 * inputs are copied to pinned memory, a backend of host memory runs them under the same lane
 * and sequence number, and the outputs are copied back. Engine only.
 *
 *     STAGE_IN    inputs are on their way to the host
 *     STAGE_HOST  with a backend
 *     STAGE_OUT   outputs are on their way to the device; the works are issued, and the
 *                 batch only keeps the host's memory
 */
#ifndef TUTTI_CORE_STAGING_H
#define TUTTI_CORE_STAGING_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

struct batch;
struct tutti;

enum staging_stage {
    STAGE_NONE,
    STAGE_IN,
    STAGE_HOST,
    STAGE_OUT
};

/** A work of a staged batch: where its memory really is, and its copy on the host. */
struct staged_work {
    const void *input; /* the caller's */
    void *output; /* the caller's, or the request's */
    void *host_input,
            *host_output; /* owned; NULL: none; the output's may be the input's */
    size_t output_bytes;
};

/** Begins. Errors: TUTTI_ERR_NO_MEMORY, those of the device; nothing was begun. */
tutti_status staging_begin(struct tutti *t, struct batch *batch);
/** STAGE_IN and STAGE_OUT: moves on. TUTTI_OK: the stage is over. TUTTI_AGAIN, or errors. */
tutti_status staging_step(struct tutti *t, struct batch *batch, bool *moved);
/** The place of an output whose size the backend has found, or whose memory is new. */
tutti_status staging_place(
        struct tutti *t, struct batch *batch, size_t work, size_t bytes);
/** The backend is done: copies the outputs back, and makes batch->issued their mark. */
tutti_status staging_send_back(struct tutti *t, struct batch *batch);
/** Gives the host's memory back. */
void staging_release(struct tutti *t, struct batch *batch);

#endif
