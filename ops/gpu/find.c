/*
 * Looks for devices and NCCL.
 */
#include "ops/gpu/find.h"

#include <stdio.h>
#include <string.h>

#include "ops/gpu/kernels/kernels.h"

/* What is read of a device, one call after the other; the first error is kept. */
struct reading {
    const struct cuda_driver *cuda;
    cu_device device; /* its handle                        */
    cu_result error; /* CU_SUCCESS: none yet              */
    const char *what; /* was read when the error came      */
};

/* False: something failed before, so that there is no use in reading more. */
static bool read_step(struct reading *reading, const char *what)
{
    if (reading->error == CU_SUCCESS) {
        reading->what = what;
    }
    return reading->error == CU_SUCCESS;
}

static int read_attribute(
        struct reading *reading, cu_device_attribute attribute, const char *what)
{
    int value = 0;

    if (read_step(reading, what)) {
        reading->error =
                reading->cuda->device_get_attribute(&value, attribute, reading->device);
    }
    return value;
}

static void read_device(struct reading *reading, struct gpu_device_facts *facts)
{
    const struct cuda_driver *cuda = reading->cuda;

    if (read_step(reading, "handle")) {
        reading->error = cuda->device_get(&reading->device, facts->ordinal);
    }
    if (read_step(reading, "name")) {
        reading->error = cuda->device_get_name(
                facts->name, (int)sizeof facts->name - 1, reading->device);
    }
    if (read_step(reading, "PCI id")) {
        reading->error = driver_read_pci(cuda, reading->device, facts->pci);
    }
    if (read_step(reading, "UUID")) {
        reading->error = driver_read_uuid(cuda, reading->device, facts->uuid);
    }
    if (read_step(reading, "memory")) {
        reading->error = cuda->device_total_mem(&facts->memory_bytes, reading->device);
    }
    facts->sm_count = read_attribute(reading, CU_DEVICE_SM_COUNT, "multiprocessors");
    facts->l2_bytes =
            (size_t)read_attribute(reading, CU_DEVICE_L2_BYTES, "second-level cache");
    facts->capability_major =
            read_attribute(reading, CU_DEVICE_CAPABILITY_MAJOR, "compute capability");
    facts->capability_minor =
            read_attribute(reading, CU_DEVICE_CAPABILITY_MINOR, "compute capability");
}

static tutti_status find_devices(struct gpu_found *found)
{
    struct reading reading = { .cuda = &found->cuda, .what = "number" };
    int count = 0;

    reading.error = found->cuda.device_get_count(&count);
    found->device_count = count < GPU_DEVICES_MAX ? count : GPU_DEVICES_MAX;
    for (int i = 0; i < found->device_count && reading.error == CU_SUCCESS; i++) {
        found->devices[i].ordinal = i;
        read_device(&reading, &found->devices[i]);
        count = i;
    }
    if (reading.error == CU_SUCCESS) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_UNSUPPORTED,
            "the CUDA driver does not tell the %s of device %d: %s, %s (error %d)",
            reading.what, count, driver_error_name(&found->cuda, reading.error),
            driver_error_text(&found->cuda, reading.error), reading.error);
}

static void keep_reason(char *reason)
{
    (void)snprintf(reason, ERROR_TEXT_MAX, "%s", error_last());
}

void gpu_find(const struct config *config, struct gpu_found *found)
{
    *found = (struct gpu_found){ .has_driver = false };
    if (strcmp(config->gpu, "off") == 0) {
        (void)snprintf(
                found->no_driver, ERROR_TEXT_MAX, "GPUs are switched off (gpu=off)");
        (void)snprintf(found->no_nccl, ERROR_TEXT_MAX, "not looked for");
        return;
    }
    if (driver_load(config->cuda_library, &found->cuda) != TUTTI_OK ||
            find_devices(found) != TUTTI_OK) {
        keep_reason(found->no_driver);
        (void)snprintf(found->no_nccl, ERROR_TEXT_MAX, "not looked for");
        found->device_count = 0;
        return;
    }
    found->has_driver = true;
    if (nccl_load(config->nccl_library, &found->nccl) != TUTTI_OK) {
        keep_reason(found->no_nccl);
        return;
    }
    found->has_nccl = true;
}

bool gpu_has_kernels(void)
{
    size_t bytes;

    return kernel_image(&bytes) != NULL;
}
