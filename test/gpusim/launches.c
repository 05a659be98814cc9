/*
 * Modules, libraries and kernel launches. The image does not matter: a kernel is found by
 * its name among those compiled for the host.
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

enum {
    KERNELS_MAX = 256,
    THREADS_MAX = 1024,
    SM_THREADS = 2048, /* that a multiprocessor holds */
    PARAMETER_BYTES_MAX = 32764,
    PARAMETER_ALIGNMENT = 16
};

/* A module of one context, or a library (context NULL). */
struct module {
    struct module *next;
    void *handle;
    struct context *context;
    struct function *functions;
};

/* What CUfunction and CUkernel stand for. */
struct function {
    struct function *next; /* of the module */
    void *handle;
    const struct gpusim_kernel *kernel;
    const struct module *module;
};

struct launch {
    const struct gpusim_kernel *kernel;
    struct gpusim_launch launch;
    void *bytes; /* the parameters, copied */
};

static struct {
    const struct gpusim_kernel *kernels[KERNELS_MAX];
    size_t kernel_count;
    struct module *modules;
    bool has_product; /* kernels.c was asked for its table */
} known;

static void kernel_add(const struct gpusim_kernel *kernel)
{
    size_t place = 0;

    while (place < known.kernel_count &&
            strcmp(known.kernels[place]->name, kernel->name) != 0) {
        place++;
    }
    if (place == KERNELS_MAX) {
        gpusim_report("more than %d kernels are registered", KERNELS_MAX);
        return;
    }
    known.kernels[place] = kernel;
    known.kernel_count += place == known.kernel_count ? 1 : 0;
}

static const struct gpusim_kernel *kernel_find(const char *name)
{
    if (!known.has_product && gpusim_kernel_table != NULL) {
        size_t count = 0;
        const struct gpusim_kernel *table = gpusim_kernel_table(&count);

        for (size_t i = 0; i < count; i++) {
            kernel_add(&table[i]);
        }
    }
    known.has_product = true;
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
    (void)kernel_find(kernel->name); /* the product's first, which this may replace */
    kernel_add(kernel);
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

static int function_call(
        const char *call, unsigned needs, void **handle, void *module, const char *name)
{
    int result = sim_enter(call, needs | NEEDS_NO_CAPTURE);
    struct module *found = handle_find(HANDLE_MODULE, module);

    if (result == CUDA_SUCCESS && found == NULL) {
        result = CUDA_INVALID_HANDLE;
    }
    return sim_leave(
            result == CUDA_SUCCESS ? function_get(handle, found, name) : result);
}

static int unload_call(const char *call, void *module)
{
    int result = sim_enter(call, NEEDS_INIT);
    struct module *found = handle_find(HANDLE_MODULE, module);

    if (result == CUDA_SUCCESS && found == NULL) {
        result = CUDA_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        module_end(found);
    }
    return sim_leave(result);
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
    return unload_call("cuModuleUnload", module);
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    return function_call("cuModuleGetFunction", NEEDS_CONTEXT, function, module, name);
}

int cuLibraryLoadData(void **library, const void *image, void *jit_options,
        void **jit_values, unsigned jit_count, void *library_options,
        void **library_values, unsigned library_count)
{
    int result = sim_enter("cuLibraryLoadData", NEEDS_INIT | NEEDS_NO_CAPTURE);

    (void)image;
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)library_options;
    (void)library_values;
    (void)library_count;
    if (result == CUDA_SUCCESS) {
        module_new(library, NULL);
    }
    return sim_leave(result);
}

int cuLibraryUnload(void *library)
{
    return unload_call("cuLibraryUnload", library);
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    return function_call("cuLibraryGetKernel", NEEDS_INIT, kernel, library, name);
}

int cuKernelGetFunction(void **function, void *kernel)
{
    int result = sim_enter("cuKernelGetFunction", NEEDS_CONTEXT);

    if (result == CUDA_SUCCESS && handle_find(HANDLE_KERNEL, kernel) == NULL) {
        result = CUDA_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        *function = kernel;
    }
    return sim_leave(result);
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

static unsigned function_threads(const struct function *function)
{
    return function->kernel->max_threads == 0 ? THREADS_MAX
                                              : function->kernel->max_threads;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(
        int *blocks, void *function, int threads, size_t shared_bytes)
{
    struct function *found;
    int result = function_enter(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", function, &found);

    (void)shared_bytes;
    if (result == CUDA_SUCCESS) {
        *blocks =
                (unsigned)threads <= function_threads(found) ? SM_THREADS / threads : 0;
    }
    return sim_leave(result);
}

/* ---- launches ---- */

static int launch_body(void *argument)
{
    const struct launch *launch = argument;

    launch->kernel->body(&launch->launch);
    return CUDA_SUCCESS;
}

static void launch_ranges(void *argument, struct gpusim_accesses *accesses)
{
    const struct launch *launch = argument;

    launch->kernel->ranges(&launch->launch, accesses);
}

static void launch_dispose(void *argument)
{
    struct launch *launch = argument;

    free(launch->bytes);
    free(launch->launch.parameters);
    free(launch);
}

static size_t parameter_space(const struct gpusim_kernel *kernel, size_t index)
{
    return (kernel->parameter_bytes[index] + PARAMETER_ALIGNMENT - 1) /
            PARAMETER_ALIGNMENT * PARAMETER_ALIGNMENT;
}

static struct launch *launch_new(const struct function *function,
        const struct gpusim_launch *asked, void **parameters)
{
    const struct gpusim_kernel *kernel = function->kernel;
    struct launch *launch = calloc(1, sizeof *launch);
    size_t bytes = PARAMETER_ALIGNMENT;
    char *at;

    for (size_t i = 0; i < kernel->parameter_count; i++) {
        bytes += parameter_space(kernel, i);
    }
    launch->kernel = kernel;
    launch->launch = *asked;
    launch->bytes = aligned_alloc(PARAMETER_ALIGNMENT, bytes);
    launch->launch.parameters =
            calloc(kernel->parameter_count + 1, sizeof *launch->launch.parameters);
    at = launch->bytes;
    for (size_t i = 0; i < kernel->parameter_count; i++) {
        memcpy(at, parameters[i], kernel->parameter_bytes[i]);
        launch->launch.parameters[i] = at;
        at += parameter_space(kernel, i);
    }
    return launch;
}

static int launch_check(
        const struct function *function, const struct gpusim_launch *launch)
{
    size_t threads = (size_t)launch->block[0] * launch->block[1] * launch->block[2];
    size_t bytes = 0;

    for (size_t i = 0; i < function->kernel->parameter_count; i++) {
        bytes += function->kernel->parameter_bytes[i];
    }
    return launch->grid[0] == 0 || launch->grid[0] > INT32_MAX || threads == 0 ||
                    threads > function_threads(function) || bytes > PARAMETER_BYTES_MAX
            ? CUDA_INVALID_VALUE
            : CUDA_SUCCESS;
}

static int launch_submit(const struct function *function, struct stream *stream,
        const struct gpusim_launch *asked, void **parameters)
{
    int result = launch_check(function, asked);
    struct op *op;

    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (function->module->context != NULL &&
            function->module->context != stream->context) {
        return CUDA_INVALID_HANDLE;
    }
    op = op_new(function->kernel->name, OP_KERNEL);
    op->argument = launch_new(function, asked, parameters);
    op->body = launch_body;
    op->ranges = function->kernel->ranges == NULL ? NULL : launch_ranges;
    op->dispose = launch_dispose;
    return stream_submit(stream, op);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
        void *stream, void **parameters, void **extra)
{
    struct gpusim_launch asked = {
        .grid = { grid_x, grid_y, grid_z },
        .block = { block_x, block_y, block_z },
        .shared = shared,
    };
    struct stream *found_stream;
    struct function *found;
    int result = function_enter("cuLaunchKernel", function, &found);

    (void)extra;
    if (result == CUDA_SUCCESS) {
        result = stream_find(stream, &found_stream);
    }
    if (result == CUDA_SUCCESS) {
        result = launch_submit(found, found_stream, &asked, parameters);
    }
    return sim_leave(result);
}
