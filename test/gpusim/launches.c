/*
 * Modules, kernels and their launches. The image does not matter: a kernel is found by its name
 * among those compiled for the host.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/gpu/kernels/kernels.h"
#include "test/gpusim/bodies.h"
#include "test/gpusim/state.h"

enum {
    KERNELS_MAX = 64, /* besides the product's */
    SM_THREADS = 2048 /* that a multiprocessor holds */
};

/* A module of one context. */
struct module {
    struct object object;
    const struct context *context;
};

/* What a CUfunction stands for. */
struct function {
    struct object object;
    const struct gpusim_kernel *kernel;
    const struct module *module;
};

struct launch {
    struct gpusim_launch launch;
    _Alignas(16) char parameter[];
};

/* ---- the product's kernels: their bodies, and what a launch of each reads and writes ---- */

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

/* ---- all kernels ---- */

static struct {
    const struct gpusim_kernel *kernels[KERNELS_MAX];
    size_t count;
} registered;

static const struct gpusim_kernel *kernel_find(const char *name)
{
    for (size_t i = 0; i < KERNEL_COUNT; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            return &kernels[i];
        }
    }
    for (size_t i = 0; i < registered.count; i++) {
        if (strcmp(registered.kernels[i]->name, name) == 0) {
            return registered.kernels[i];
        }
    }
    return NULL;
}

void gpusim_kernel_register(const struct gpusim_kernel *kernel)
{
    pthread_mutex_lock(&sim.lock);
    registered.kernels[registered.count++] = kernel;
    pthread_mutex_unlock(&sim.lock);
}

/* ---- modules ---- */

/* Loading code may wait for all that runs, as the driver may: a trap for whom it surprises. */
int sim_cuModuleLoadData(void **module, const void *image)
{
    struct module *made = object_new(MODULE, sizeof *made);

    (void)image;
    made->context = context_current();
    context_wait(made->context);
    *module = made;
    return CUDA_SUCCESS;
}

int sim_cuModuleUnload(void *module)
{
    object_drop(module);
    return CUDA_SUCCESS;
}

int sim_cuModuleGetFunction(void **function, void *module, const char *name)
{
    const struct gpusim_kernel *kernel = kernel_find(name);
    struct function *made;

    if (kernel == NULL) {
        return CUDA_NOT_FOUND;
    }
    context_wait(context_current());
    made = object_new(KERNEL, sizeof *made);
    made->kernel = kernel;
    made->module = module;
    *function = made;
    return CUDA_SUCCESS;
}

/* ---- functions ---- */

int function_find(const void *function)
{
    const struct function *found = function;
    const int result = object_find(KERNEL, function);

    return result == CUDA_SUCCESS ? object_find(MODULE, found->module) : result;
}

int sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(
        int *blocks, void *function, int threads, size_t shared_bytes)
{
    const unsigned max_threads = ((struct function *)function)->kernel->max_threads;

    (void)shared_bytes;
    *blocks = (unsigned)threads <= max_threads ? SM_THREADS / threads : 0;
    return CUDA_SUCCESS;
}

/* ---- launches ---- */

static int launch_body(void *argument)
{
    const struct launch *launch = argument;

    memory_open();
    launch->launch.kernel->body(&launch->launch);
    memory_close();
    return CUDA_SUCCESS;
}

static void launch_ranges(const void *argument, struct gpusim_accesses *accesses)
{
    const struct launch *launch = argument;

    launch->launch.kernel->ranges(&launch->launch, accesses);
}

int sim_cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y,
        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
        unsigned shared, void *stream, void **parameters, void **extra)
{
    const struct function *launched = function;
    const struct gpusim_kernel *kernel = launched->kernel;
    struct launch *launch;

    (void)extra;
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared != 0) {
        return CUDA_NOT_SUPPORTED;
    }
    if (grid_x == 0 || grid_x > INT32_MAX || block_x == 0 ||
            block_x > kernel->max_threads) {
        return CUDA_INVALID_VALUE;
    }
    if (launched->module->context != ((struct stream *)stream)->context) {
        return CUDA_INVALID_HANDLE;
    }
    launch = malloc(sizeof *launch + kernel->parameter_bytes);
    launch->launch =
            (struct gpusim_launch){ kernel, grid_x, block_x, launch->parameter };
    memcpy(launch->parameter, parameters[0], kernel->parameter_bytes);
    return stream_submit(stream,
            op_new(&(struct gpusim_op){ .label = kernel->name,
                    .ranges = launch_ranges,
                    .body = launch_body,
                    .dispose = free,
                    .argument = launch }));
}
