/*
 * Limits from caches.
 */
#include "api/limits.h"

#include "base/mem.h"

/* Bounds of automatic batch sizes, and the longest tensor worth copying to fuse it. */
#define BATCH_MIN ((size_t)256 << 10)
#define BATCH_MAX ((size_t)2 << 20)
#define FUSE_TENSOR_MAX ((size_t)64 << 10)
/* Of GPUs; not measured: what is packed stays in the cache of those of data centres. */
#define DEVICE_BATCH ((size_t)16 << 20)
/* Bounds of automatic chunks: flat optimum over shared memory (docs/results/). */
#define CHUNK_MIN ((size_t)64 << 10)
#define CHUNK_MAX ((size_t)512 << 10)

static size_t clamp(size_t value, size_t low, size_t high)
{
    return size_min(size_max(value, low), high);
}

void limits_choose(struct planner_limits *fusion, size_t *chunk_bytes,
        const struct config *config, const struct machine *machine)
{
    /* Operands and result of a batch shall stay in the cache next to the core. */
    const size_t batch = clamp(machine->l2_bytes / 2, BATCH_MIN, BATCH_MAX);

    fusion->batch_bytes = config->fusion_bytes > 0 ? config->fusion_bytes : batch;
    fusion->tensor_bytes = FUSE_TENSOR_MAX;
    fusion->device_bytes =
            config->gpu_fusion_bytes > 0 ? config->gpu_fusion_bytes : DEVICE_BATCH;
    *chunk_bytes = config->chunk_bytes > 0
            ? config->chunk_bytes
            : clamp(machine->l2_bytes / 2, CHUNK_MIN, CHUNK_MAX);
}
