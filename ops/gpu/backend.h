/*
 * The GPU backend: batches of device memory, by NCCL.
 *
 * A batch ends when its commands are on streams; see docs/design/gpu.md. Batches are issued
 * in the order in which they were started, one after the other. op_env.native is the rank's
 * struct gpu, which has a NCCL; it must outlive the backend.
 */
#ifndef TUTTI_OPS_GPU_BACKEND_H
#define TUTTI_OPS_GPU_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/op.h"

struct gpu;

extern const struct op_backend op_gpu;

/*
 * Before the backend is opened, which takes over what these make: the communicator of all ranks.
 * NCCL loads its code then, for which the device must not be busy, and no graph be captured.
 */

/** See op_backend.token; one of those by which all ranks meet. */
TUTTI_MUST_USE tutti_status gpu_connect_token(
        struct gpu *gpu, uint8_t token[OP_TOKEN_BYTES]);
/** How many of them gpu_connect() takes for so many ranks; equal on all. */
int gpu_connect_tokens(const struct gpu *gpu, int ranks);
/** See op_backend.meet; called until it has ended. Tokens lie one behind the other. */
TUTTI_MUST_USE tutti_status gpu_connect(
        struct gpu *gpu, const struct op_set *world, const uint8_t *tokens, int count);
/** True where it returns only when all ranks have called it: NCCL before 2.14. */
bool gpu_connect_blocks(const struct gpu *gpu);

#endif
