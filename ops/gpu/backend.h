/*
 * The GPU backend: batches of device memory, by NCCL.
 *
 * A batch ends when its commands are on streams; see docs/design/gpu.md. Batches are issued
 * in the order in which they were started, one after the other. op_env.native is the rank's
 * struct gpu, which has a NCCL; it must outlive the backend.
 */
#ifndef TUTTI_OPS_GPU_BACKEND_H
#define TUTTI_OPS_GPU_BACKEND_H

#include "ops/op.h"

extern const struct op_backend op_gpu;

#endif
