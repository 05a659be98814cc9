#include "test/gpu/real/device.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define RUBBISH 0x5a

void device_must(const struct device_rig *rig, cu_result result, const char *what)
{
    if (result != CU_SUCCESS) {
        (void)fprintf(stderr, "cannot %s: %s (%s)\n", what,
                driver_error_text(&rig->cuda, result),
                driver_error_name(&rig->cuda, result));
        exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe): nothing goes on */
    }
}

int device_find(struct device_rig *rig, const char *program)
{
    char warnings[ERROR_TEXT_MAX] = "";
    int count = 0;

    memset(rig, 0, sizeof *rig);
    if (config_init(&rig->config) != TUTTI_OK ||
            config_from_environment(&rig->config, warnings, sizeof warnings) !=
                    TUTTI_OK) {
        (void)fprintf(stderr, "%s: %s\n", program, error_last());
        return 2;
    }
    if (driver_load(rig->config.cuda_library, &rig->cuda) != TUTTI_OK) {
        (void)printf("%s: skipped: %s\n", program, error_last());
        return DEVICE_SKIPPED;
    }
    if (rig->cuda.device_get_count(&count) != CU_SUCCESS || count == 0) {
        (void)printf("%s: skipped: the CUDA driver reports no device\n", program);
        return DEVICE_SKIPPED;
    }
    return 0;
}

void device_open(struct device_rig *rig, int local_rank)
{
    int count = 0;

    DEVICE_MUST(rig, device_get_count(&count));
    DEVICE_MUST(rig, device_get(&rig->device, local_rank % count));
    DEVICE_MUST(rig, device_get_name(rig->name, sizeof rig->name, rig->device));
    rig->simulated = strstr(rig->name, "gpusim") != NULL;
    DEVICE_MUST(rig, device_primary_ctx_retain(&rig->context, rig->device));
    DEVICE_MUST(rig, ctx_set_current(rig->context));
    DEVICE_MUST(rig, stream_create(&rig->stream, CU_STREAM_NONBLOCKING, 0));
}

void device_close(struct device_rig *rig)
{
    DEVICE_MUST(rig, stream_destroy(rig->stream));
    DEVICE_MUST(rig, ctx_set_current(NULL));
    DEVICE_MUST(rig, device_primary_ctx_release(rig->device));
    config_fini(&rig->config);
}

cu_pointer device_address(const void *memory)
{
    return (cu_pointer)(uintptr_t)memory;
}

void *device_memory(const struct device_rig *rig, size_t bytes)
{
    cu_pointer memory = 0;

    DEVICE_MUST(rig, mem_alloc(&memory, bytes));
    DEVICE_MUST(rig, memset_d8_async(memory, RUBBISH, bytes, rig->stream));
    DEVICE_MUST(rig, stream_synchronize(rig->stream));
    return (void *)(uintptr_t)memory; /* NOLINT(performance-no-int-to-ptr) */
}

void device_drop(const struct device_rig *rig, void *memory)
{
    DEVICE_MUST(rig, mem_free(device_address(memory)));
}

void device_upload(
        const struct device_rig *rig, void *to, const void *from, size_t bytes)
{
    DEVICE_MUST(rig, memcpy_htod_async(device_address(to), from, bytes, rig->stream));
    DEVICE_MUST(rig, stream_synchronize(rig->stream));
}

void device_download(
        const struct device_rig *rig, void *to, const void *from, size_t bytes)
{
    DEVICE_MUST(rig, memcpy_dtoh_async(to, device_address(from), bytes, rig->stream));
    DEVICE_MUST(rig, stream_synchronize(rig->stream));
}

int device_kernels(struct device_rig *rig, const char *program, struct packing *packing)
{
    const struct log log = { .level = TUTTI_LOG_WARN };
    const struct gpu_seat seat = { .is_alone = true };
    struct gpu *gpu = NULL;
    int status = device_find(rig, program);

    if (status != 0) {
        return status;
    }
    device_open(rig, 0);
    if (gpu_open(&rig->config, &log, &seat, &gpu) != TUTTI_OK) {
        (void)fprintf(stderr, "%s: %s\n", program, error_last());
        return 2;
    }
    if (!gpu->has_kernels) {
        gpu_close(gpu);
        (void)printf("%s: skipped: there are no kernels for this GPU\n", program);
        return DEVICE_SKIPPED;
    }
    packing_init(packing, gpu, NULL);
    return 0;
}

void device_pack(struct packing *packing, const struct packing_work *work)
{
    if (packing_run(packing, work) != TUTTI_OK) {
        (void)fprintf(stderr, "cannot pack: %s\n", error_last());
        exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe): nothing goes on */
    }
}
