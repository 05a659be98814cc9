#include "tools/pack/gpu.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/gpu/kernels/rival.h"

#if TUTTI_BENCH_HAS_RIVAL
extern const unsigned char tutti_rival_image[];
#endif

/* Most bytes of a file with kernels. */
#define IMAGE_BYTES_MAX (64 << 20)

void pack_fail(const char *format, ...)
{
    va_list arguments;

    (void)fprintf(stderr, "bench-pack: ");
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "\n");
    exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

void pack_must(const struct pack_gpu *gpu, cu_result result, const char *what)
{
    if (result != CU_SUCCESS) {
        pack_fail("cannot %s: %s (%s)", what, driver_error_text(&gpu->cuda, result),
                driver_error_name(&gpu->cuda, result));
    }
}

/* The bytes of a file; ends the program when it cannot be read. */
static void *read_image(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = calloc(1, IMAGE_BYTES_MAX);
    size_t count = 0;

    if (file != NULL && bytes != NULL) {
        count = fread(bytes, 1, IMAGE_BYTES_MAX - 1, file);
    }
    if (count == 0) {
        pack_fail("cannot read kernels from %s", path);
    }
    (void)fclose(file);
    return bytes;
}

static void load_kernels(struct pack_gpu *gpu, const void *image)
{
    const void *rival_image = image; /* the simulator finds kernels by name alone */
    cu_module module = NULL;
    cu_module rival = NULL;

#if TUTTI_BENCH_HAS_RIVAL
    rival_image = tutti_rival_image;
#endif
    pack_must(gpu, gpu->cuda.module_load_data(&module, image), "load the kernels");
    for (int i = 0; i < KERNEL_COUNT; i++) {
        const cu_result result =
                gpu->cuda.module_get_function(&gpu->kernels[i], module, kernel_name(i));

        if (result != CU_SUCCESS && kernel_is_optional(i)) {
            gpu->kernels[i] = NULL;
            gpu->target.parameter_bytes = KERNEL_SMALL_BYTES;
        } else {
            pack_must(gpu, result, kernel_name(i));
        }
    }
    pack_must(gpu, gpu->cuda.module_load_data(&rival, rival_image), "load the rival");
    pack_must(gpu,
            gpu->cuda.module_get_function(&gpu->rival, rival, "tutti_rival_blocks"),
            "find the rival");
}

/* The second version of cuMemcpyBatchAsync; a symbol of that name is of that form. */
static pack_batch_fn find_batch(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    pack_batch_fn found = NULL;
    void *symbol = handle != NULL ? dlsym(handle, "cuMemcpyBatchAsync_v2") : NULL;

    memcpy(&found, &symbol, sizeof found);
    return found;
}

static void open_device(struct pack_gpu *gpu, const struct config *config)
{
    cu_device device = 0;

    pack_must(gpu, gpu->cuda.device_get(&device, 0), "find device 0");
    pack_must(gpu, gpu->cuda.device_get_name(gpu->name, sizeof gpu->name, device),
            "name device 0");
    gpu->simulated = strstr(gpu->name, "gpusim") != NULL;
    pack_must(gpu, gpu->cuda.device_primary_ctx_retain(&gpu->context, device),
            "open device 0");
    pack_must(gpu, gpu->cuda.ctx_set_current(gpu->context), "use device 0");
    pack_must(gpu,
            gpu->cuda.device_get_attribute(
                    &gpu->target.sm_count, CU_DEVICE_SM_COUNT, device),
            "ask device 0");
    if (config->gpu_pack_sms > 0 && config->gpu_pack_sms < gpu->target.sm_count) {
        gpu->target.sm_count = (int)config->gpu_pack_sms;
    }
    gpu->target.parameter_bytes = kernel_parameter_bytes(gpu->cuda.version);
    pack_must(gpu, gpu->cuda.stream_create(&gpu->stream, CU_STREAM_NONBLOCKING, 0),
            "make a stream");
    pack_must(
            gpu, gpu->cuda.event_create(&gpu->begin, CU_EVENT_TIMED), "make an event");
    pack_must(gpu, gpu->cuda.event_create(&gpu->end, CU_EVENT_TIMED), "make an event");
}

int pack_gpu_open(struct pack_gpu *gpu, const struct config *config)
{
    size_t bytes;
    const void *image = kernel_image(&bytes);
    void *file = NULL;

    memset(gpu, 0, sizeof *gpu);
    if (driver_load(config->cuda_library, &gpu->cuda) != TUTTI_OK) {
        (void)printf("bench-pack: skipped: %s\n", error_last());
        return PACK_SKIPPED;
    }
    if (config->gpu_kernels[0] != '\0') {
        file = read_image(config->gpu_kernels);
        image = file;
    }
    if (image == NULL) {
        (void)printf(
                "bench-pack: skipped: this build has no kernels, for it had no nvcc; "
                "TUTTI_GPU_KERNELS can name a fatbin\n");
        return PACK_SKIPPED;
    }
    open_device(gpu, config);
    load_kernels(gpu, image);
    gpu->copy_batch = find_batch(config->cuda_library);
    free(file);
    return 0;
}

void pack_gpu_close(struct pack_gpu *gpu)
{
    (void)gpu->cuda.event_destroy(gpu->begin);
    (void)gpu->cuda.event_destroy(gpu->end);
    (void)gpu->cuda.stream_destroy(gpu->stream);
    (void)gpu->cuda.ctx_set_current(NULL);
    (void)gpu->cuda.device_primary_ctx_release(0);
}

cu_pointer pack_allocate(const struct pack_gpu *gpu, size_t bytes)
{
    cu_pointer memory = 0;

    pack_must(gpu, gpu->cuda.mem_alloc(&memory, bytes), "allocate device memory");
    return memory;
}

void pack_free(const struct pack_gpu *gpu, cu_pointer memory)
{
    pack_must(gpu, gpu->cuda.mem_free(memory), "free device memory");
}

void pack_upload(
        const struct pack_gpu *gpu, cu_pointer to, const void *from, size_t bytes)
{
    pack_must(gpu, gpu->cuda.memcpy_htod_async(to, from, bytes, gpu->stream), "upload");
    pack_must(gpu, gpu->cuda.stream_synchronize(gpu->stream), "upload");
}

void pack_download(const struct pack_gpu *gpu, void *to, cu_pointer from, size_t bytes)
{
    pack_must(
            gpu, gpu->cuda.memcpy_dtoh_async(to, from, bytes, gpu->stream), "download");
    pack_must(gpu, gpu->cuda.stream_synchronize(gpu->stream), "download");
}
