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

static int read_attribute(struct reading *reading, cu_device device,
        cu_device_attribute attribute, const char *what)
{
    int value = 0;

    if (read_step(reading, what)) {
        reading->error = reading->cuda->device_get_attribute(&value, attribute, device);
    }
    return value;
}

static void read_attributes(struct reading *reading, struct gpu_device_facts *facts)
{
    const cu_device device = facts->device;
    int l2_bytes;

    facts->sm_count =
            read_attribute(reading, device, CU_DEVICE_SM_COUNT, "multiprocessors");
    l2_bytes =
            read_attribute(reading, device, CU_DEVICE_L2_BYTES, "second-level cache");
    facts->l2_bytes = l2_bytes > 0 ? (size_t)l2_bytes : 0;
    facts->capability_major = read_attribute(
            reading, device, CU_DEVICE_CAPABILITY_MAJOR, "compute capability");
    facts->capability_minor = read_attribute(
            reading, device, CU_DEVICE_CAPABILITY_MINOR, "compute capability");
}

tutti_status gpu_device_read(
        const struct cuda_driver *cuda, int ordinal, struct gpu_device_facts *facts)
{
    struct reading reading = { .cuda = cuda, .error = CU_SUCCESS };

    *facts = (struct gpu_device_facts){ .ordinal = ordinal };
    if (read_step(&reading, "handle")) {
        reading.error = cuda->device_get(&facts->device, ordinal);
    }
    if (read_step(&reading, "name")) {
        reading.error = cuda->device_get_name(
                facts->name, (int)sizeof facts->name - 1, facts->device);
    }
    if (read_step(&reading, "PCI id")) {
        reading.error = driver_read_pci(cuda, facts->device, facts->pci);
    }
    if (read_step(&reading, "UUID")) {
        reading.error = driver_read_uuid(cuda, facts->device, facts->uuid);
    }
    if (read_step(&reading, "memory")) {
        reading.error = cuda->device_total_mem(&facts->memory_bytes, facts->device);
    }
    read_attributes(&reading, facts);
    if (reading.error == CU_SUCCESS) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "the CUDA driver does not tell the %s of device %d: %s, %s (error %d)",
            reading.what, ordinal, driver_error_name(cuda, reading.error),
            driver_error_text(cuda, reading.error), reading.error);
}

static tutti_status find_devices(struct gpu_found *found)
{
    tutti_status status = driver_count(&found->cuda, &found->device_count);

    found->device_count = found->device_count < GPU_DEVICES_MAX ? found->device_count
                                                                : GPU_DEVICES_MAX;
    for (int i = 0; i < found->device_count && status == TUTTI_OK; i++) {
        status = gpu_device_read(&found->cuda, i, &found->devices[i]);
    }
    return status;
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
