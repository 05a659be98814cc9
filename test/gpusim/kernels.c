/*
 * The product's kernels for the simulator: their bodies, and what a launch of each reads
 * and writes, from its parameters.
 */
#include "ops/gpu/kernels/kernels.h"

#include "test/gpusim/bodies.h"
#include "test/gpusim/gpusim.h"

static void pack_ranges(
        const struct gpusim_launch *launch, struct gpusim_accesses *accesses)
{
    const struct pack_header *header = launch->parameter;
    const struct pack_piece *pieces = (const struct pack_piece *)(header + 1);

    for (uint32_t i = 0; i < header->piece_count; i++) {
        const uint64_t packed = header->packed + pieces[i].packed;
        const size_t tensor_bytes = pieces[i].count * header->tensor_bytes;
        const size_t packed_bytes = pieces[i].count * header->packed_bytes;

        if ((header->flags & PACK_SCATTERS) != 0) {
            gpusim_reads(accesses, packed, packed_bytes);
            gpusim_writes(accesses, pieces[i].tensor, tensor_bytes);
        } else {
            gpusim_reads(accesses, pieces[i].tensor, tensor_bytes);
            gpusim_writes(accesses, packed, packed_bytes);
        }
    }
}

static const struct gpusim_kernel kernels[KERNEL_COUNT];

/* The table is in the order of their numbers. */
static void pack_launch_body(const struct gpusim_launch *launch)
{
    kernel_body_of((int)(launch->kernel - kernels))(
            launch->parameter, launch->blocks, launch->threads);
}

/* clang-format off */
#define KERNEL(kernel, type) \
    { .name = "tutti_" #kernel, .parameter_bytes = sizeof(struct type), \
      .ranges = pack_ranges, .body = pack_launch_body, .max_threads = KERNEL_THREADS },
#define PACK_KERNELS(symbol, name) \
    KERNEL(name##_small, pack_small) \
    KERNEL(name##_large, pack_large)

static const struct gpusim_kernel kernels[KERNEL_COUNT] = {
    PACK_FAMILY_MAP(PACK_KERNELS)
};
/* clang-format on */

static void __attribute__((constructor)) kernels_register(void)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        gpusim_kernel_register(&kernels[i]);
    }
}
