/*
 * Modules and kernel launches. The image does not matter: a kernel is found by
 * its name among those compiled for the host.
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

enum {
    KERNELS_MAX = 256,
    SM_THREADS = 2048, /* that a multiprocessor holds */
    PARAMETER_BYTES_MAX = 32764
};

/* A module of one context. */
struct module {
    struct module *next;
    void *handle;
    struct context *context;
    struct function *functions;
};

/* What a CUfunction stands for. */
struct function {
    struct function *next; /* of the module */
    void *handle;
    const struct gpusim_kernel *kernel;
    const struct module *module;
};

struct launch {
    struct gpusim_launch launch;
    _Alignas(16) char parameter[];
};

static struct {
    const struct gpusim_kernel *kernels[KERNELS_MAX];
    size_t kernel_count;
    struct module *modules;
} known;

static const struct gpusim_kernel *kernel_find(const char *name)
{
    size_t count = 0;
    const struct gpusim_kernel *product = gpusim_kernel_table(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(product[i].name, name) == 0) {
            return &product[i];
        }
    }
    for (size_t i = 0; i < known.kernel_count; i++) {
        if (strcmp(known.kernels[i]->name, name) == 0) {
            return known.kernels[i];
        }
    }
    return NULL;
}

void gpusim_kernel_register(const struct gpusim_kernel *kernel)
{
    pthread_mutex_lock(&sim.lock);
    if (known.kernel_count == KERNELS_MAX) {
        gpusim_report("more than %d kernels are registered", KERNELS_MAX);
    } else {
        known.kernels[known.kernel_count++] = kernel;
    }
    pthread_mutex_unlock(&sim.lock);
}

/* ---- modules ---- */

/* Loading code may wait for all that runs, as the driver may: a trap for whom it surprises. */
static void module_settle(void)
{
    if (context_current() != NULL && context_current()->alive) {
        context_wait(context_current());
    }
}

static void module_new(void **handle, struct context *context)
{
    struct module *module;

    module_settle();
    module = calloc(1, sizeof *module);
    module->context = context;
    module->next = known.modules;
    known.modules = module;
    module->handle = handle_new(HANDLE_MODULE, module);
    *handle = module->handle;
}

static void module_end(struct module *module)
{
    struct module **link = &known.modules;

    while (*link != module) {
        link = &(*link)->next;
    }
    *link = module->next;
    while (module->functions != NULL) {
        struct function *function = module->functions;

        module->functions = function->next;
        handle_drop(HANDLE_KERNEL, function->handle);
        free(function);
    }
    handle_drop(HANDLE_MODULE, module->handle);
    free(module);
}

void modules_end(struct context *context)
{
    struct module *module = known.modules;

    while (module != NULL) {
        struct module *next = module->next;

        if (module->context == context) {
            module_end(module);
        }
        module = next;
    }
}

static int function_get(void **handle, struct module *module, const char *name)
{
    const struct gpusim_kernel *kernel = kernel_find(name);
    struct function *function = module->functions;

    if (kernel == NULL) {
        return CUDA_NOT_FOUND;
    }
    while (function != NULL && function->kernel != kernel) {
        function = function->next;
    }
    if (function == NULL) {
        module_settle();
        function = calloc(1, sizeof *function);
        function->kernel = kernel;
        function->module = module;
        function->next = module->functions;
        module->functions = function;
        function->handle = handle_new(HANDLE_KERNEL, function);
    }
    *handle = function->handle;
    return CUDA_SUCCESS;
}

int cuModuleLoadData(void **module, const void *image)
{
    int result = sim_enter("cuModuleLoadData", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);

    (void)image;
    if (result == CUDA_SUCCESS) {
        module_new(module, context_current());
    }
    return sim_leave(result);
}

int cuModuleUnload(void *module)
{
    int result = sim_enter("cuModuleUnload", NEEDS_CONTEXT);
    struct module *found = handle_find(HANDLE_MODULE, module);

    if (result == CUDA_SUCCESS && found == NULL) {
        result = CUDA_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        module_end(found);
    }
    return sim_leave(result);
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    int result = sim_enter("cuModuleGetFunction", NEEDS_CONTEXT | NEEDS_NO_CAPTURE);
    struct module *found = handle_find(HANDLE_MODULE, module);

    if (result == CUDA_SUCCESS && found == NULL) {
        result = CUDA_INVALID_HANDLE;
    }
    return sim_leave(
            result == CUDA_SUCCESS ? function_get(function, found, name) : result);
}

/* ---- functions ---- */

static int function_enter(const char *call, void *handle, struct function **function)
{
    int result = sim_enter(call, NEEDS_CONTEXT);

    *function = handle_find(HANDLE_KERNEL, handle);
    if (result == CUDA_SUCCESS && *function == NULL) {
        result = CUDA_INVALID_HANDLE;
    }
    return result;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(
        int *blocks, void *function, int threads, size_t shared_bytes)
{
    struct function *found;
    int result = function_enter(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", function, &found);

    (void)shared_bytes;
    if (result == CUDA_SUCCESS) {
        *blocks = (unsigned)threads <= found->kernel->max_threads ? SM_THREADS / threads
                                                                  : 0;
    }
    return sim_leave(result);
}

/* ---- launches ---- */

static int launch_body(void *argument)
{
    const struct launch *launch = argument;

    launch->launch.kernel->body(&launch->launch);
    return CUDA_SUCCESS;
}

static void launch_ranges(void *argument, struct gpusim_accesses *accesses)
{
    const struct launch *launch = argument;

    launch->launch.kernel->ranges(&launch->launch, accesses);
}

static int launch_submit(const struct function *function, struct stream *stream,
        unsigned blocks, unsigned threads, const void *parameter)
{
    const struct gpusim_kernel *kernel = function->kernel;
    struct launch *launch;
    struct op *op;

    if (blocks == 0 || blocks > INT32_MAX || threads == 0 ||
            threads > kernel->max_threads ||
            kernel->parameter_bytes > PARAMETER_BYTES_MAX) {
        return CUDA_INVALID_VALUE;
    }
    if (function->module->context != stream->context) {
        return CUDA_INVALID_HANDLE;
    }
    launch = malloc(sizeof *launch + kernel->parameter_bytes);
    launch->launch =
            (struct gpusim_launch){ kernel, blocks, threads, launch->parameter };
    memcpy(launch->parameter, parameter, kernel->parameter_bytes);
    op = op_new(kernel->name, OP_KERNEL);
    op->argument = launch;
    op->body = launch_body;
    op->ranges = launch_ranges;
    op->dispose = free;
    return stream_submit(stream, op);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
        void *stream, void **parameters, void **extra)
{
    struct stream *found_stream;
    struct function *found;
    int result = function_enter("cuLaunchKernel", function, &found);

    (void)extra;
    if (result == CUDA_SUCCESS &&
            (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 ||
                    shared != 0)) {
        result = CUDA_NOT_SUPPORTED;
    }
    if (result == CUDA_SUCCESS) {
        result = stream_find(stream, &found_stream);
    }
    if (result == CUDA_SUCCESS) {
        result = launch_submit(found, found_stream, grid_x, block_x, parameters[0]);
    }
    return sim_leave(result);
}
