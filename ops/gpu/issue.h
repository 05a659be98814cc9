/*
 * A batch on its way to the GPU:
 *
 *     GPU_PACK     waits for the events of the batch; packs into the slab
 *     GPU_COMM     waits for that (or the events); NCCL
 *     GPU_UNPACK   waits for that; unpacks; the event that is handed back
 *
 * NCCL's part is one group of calls.
 *
 * A batch of a CUDA graph does all of this on one stream of the caller instead, behind the graph's
 * batch before it, and its slab belongs to the graph.
 *
 * What has nothing to do is left out. NCCL may still be putting its part on the stream when
 * ncclGroupEnd() returns; until it has, nothing else is issued.
 */
#ifndef TUTTI_OPS_GPU_ISSUE_H
#define TUTTI_OPS_GPU_ISSUE_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "ops/gpu/flight.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/packing.h"
#include "ops/gpu/script.h"
#include "ops/gpu/types.h"
#include "ops/op.h"

/** A batch between start() and its end. */
struct gpu_task {
    const struct op_batch *batch; /* borrowed */
    uint64_t number; /* batches that were started before it                  */
    struct gpu_form form; /* of the batch */
    bool is_called; /* its commands are on streams, but for NCCL's and those behind  */
    bool calls; /* CALLED: NCCL may still be issuing                       */
    struct communicator *communicator; /* CALLED: of the set; borrowed           */
    struct gpu_slab *slab; /* CALLED: owned, or the graph's; NULL: none needed */
    struct gpu_graph *graph; /* CALLED: of the batch; borrowed; NULL: none           */
    int64_t since_ns; /* CALLED: when NCCL was called                         */
};

/** What puts batches on a GPU, one after the other. Zeroed but for issue_init(). */
struct issuer {
    struct gpu *gpu; /* borrowed */
    struct op_device_counts *counts; /* borrowed; NULL: nobody reads them */
    struct script script; /* of the batch in work */
    struct packing packing; /* launches */
    struct flight flight; /* what was issued */
};

void issue_init(
        struct issuer *issuer, struct gpu *gpu, struct op_device_counts *counts);
void issue_fini(struct issuer *issuer);

/**
 * Goes on with a batch; with the next one only when this one has ended. The context is current.
 * @return TUTTI_OK: it is on the GPU; TUTTI_AGAIN; TUTTI_ERR_SYSTEM, TUTTI_ERR_NO_MEMORY,
 *         TUTTI_ERR_INVALID (a capture), TUTTI_ERR_INTERNAL
 */
tutti_status issue_move(struct issuer *issuer, struct gpu_task *task, bool *moved);

#endif
