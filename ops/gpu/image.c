/*
 * The kernels of a GPU.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/gpu.h"

/* Largest file of kernels: a wrong path is not to eat the memory. */
#define IMAGE_MAX ((size_t)256 << 20)

/* ------------------------------------------------------------------------ file */

static tutti_status read_open(FILE *file, const char *path, void **image)
{
    struct stat facts;
    size_t bytes;
    char *memory;

    if (fstat(fileno(file), &facts) != 0) {
        return error_set_errno(TUTTI_ERR_CONFIG, "gpu_kernels: %s", path);
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size < 1 ||
            (size_t)facts.st_size > IMAGE_MAX) {
        return error_set(TUTTI_ERR_CONFIG,
                "gpu_kernels: %s is no file with kernels (a fatbin or cubin)", path);
    }
    bytes = (size_t)facts.st_size;
    memory = mem_alloc(bytes + 1);
    if (memory == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the kernels of %s", path);
    }
    if (fread(memory, 1, bytes, file) != bytes) {
        mem_free(memory);
        return error_set(TUTTI_ERR_CONFIG, "gpu_kernels: %s cannot be read", path);
    }
    memory[bytes] = '\0'; /* PTX is text, and the driver is told of no length */
    *image = memory;
    return TUTTI_OK;
}

static tutti_status read_file(const char *path, void **image)
{
    FILE *file = fopen(path, "rbe");
    tutti_status status;

    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_CONFIG, "gpu_kernels: %s", path);
    }
    status = read_open(file, path, image);
    (void)fclose(file);
    return status;
}

/* --------------------------------------------------------------------- functions */

/*
 * Drivers load functions when they are first used, and may wait for the whole device then;
 * asking how many blocks fit is a use.
 */
static cu_result find_all(struct gpu *gpu)
{
    for (int i = 0; i < KERNEL_COUNT; i++) {
        cu_function function = NULL;
        int blocks = 0;
        cu_result result =
                gpu->cuda->module_get_function(&function, gpu->module, kernel_name(i));

        if (result == CU_ERROR_NOT_FOUND && kernel_is_optional(i)) {
            continue;
        }
        if (result == CU_SUCCESS) {
            result = gpu->cuda->occupancy(&blocks, function, KERNEL_THREADS, 0);
        }
        if (result != CU_SUCCESS) {
            return result;
        }
        gpu->kernels[i] = function;
        gpu->kernel_blocks[i] = (uint8_t)blocks;
    }
    return CU_SUCCESS;
}

static void say_none(struct gpu *gpu, const char *why)
{
    log_warn(gpu->log,
            "GPU %d (%s) has no kernels of tutti: %s; tensors that would have to be "
            "packed or scaled go through host memory",
            gpu->ordinal, gpu->pci, why);
}

static tutti_status load_image(struct gpu *gpu, const void *image)
{
    cu_result result = gpu->cuda->module_load_data(&gpu->module, image);

    if (result == CU_SUCCESS) {
        result = find_all(gpu);
        gpu->has_kernels = result == CU_SUCCESS;
    }
    if (result == CU_ERROR_NO_BINARY_FOR_GPU || result == CU_ERROR_INVALID_IMAGE ||
            result == CU_ERROR_UNSUPPORTED_PTX || result == CU_ERROR_NOT_FOUND) {
        gpu_kernels_drop(gpu);
        say_none(gpu, driver_error_text(gpu->cuda, result));
        return TUTTI_OK;
    }
    return gpu_check(gpu, result, "load the kernels");
}

tutti_status image_load(struct gpu *gpu)
{
    const char *path = gpu->config->gpu_kernels;
    size_t bytes = 0;
    const void *built_in = kernel_image(&bytes);
    void *image = NULL;
    tutti_status status = TUTTI_OK;

    if (path[0] != '\0') {
        status = read_file(path, &image);
    } else if (built_in == NULL) {
        say_none(gpu, "it was built without nvcc");
        return TUTTI_OK;
    }
    if (status == TUTTI_OK) {
        status = load_image(gpu, image != NULL ? image : built_in);
    }
    mem_free(image);
    return status;
}

void gpu_kernels_drop(struct gpu *gpu)
{
    gpu->has_kernels = false;
    for (int i = 0; i < KERNEL_COUNT; i++) {
        gpu->kernels[i] = NULL;
    }
}
