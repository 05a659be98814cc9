/*
 * The devices: GPUSIM_DEVICES of them, as a node of one vendor's server shows them, seen
 * through CUDA_VISIBLE_DEVICES.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

/* CU_DEVICE_ATTRIBUTE_ values of those that somebody asks for; others are 0. */
enum device_attribute {
    ATTRIBUTE_BLOCK_THREADS = 1,
    ATTRIBUTE_SHARED_BYTES = 8,
    ATTRIBUTE_WARP = 10,
    ATTRIBUTE_SMS = 16,
    ATTRIBUTE_MAP_HOST = 19,
    ATTRIBUTE_CONCURRENT_KERNELS = 31,
    ATTRIBUTE_PCI_BUS = 33,
    ATTRIBUTE_PCI_DEVICE = 34,
    ATTRIBUTE_L2_BYTES = 38,
    ATTRIBUTE_SM_THREADS = 39,
    ATTRIBUTE_COPY_ENGINES = 40,
    ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_MANAGED = 83,
    ATTRIBUTES_MAX = 200
};

enum {
    PCI_FIRST_BUS = 0x17,
    PCI_BUS_STEP = 0x10
};

static void device_init(struct device *device, int ordinal, int physical)
{
    device->ordinal = ordinal;
    (void)snprintf(
            device->name, sizeof device->name, "Simulated GPU (gpusim %d)", physical);
    (void)snprintf(device->pci, sizeof device->pci, "0000:%02x:00.0",
            PCI_FIRST_BUS + PCI_BUS_STEP * physical);
    for (size_t i = 0; i < sizeof device->uuid; i++) {
        device->uuid[i] = (unsigned char)(0x10 * (physical + 1) + (int)i);
    }
    device->total_bytes = (size_t)8 << 30;
    device->limit_bytes = SIZE_MAX;
}

/* Whether the entry names the device: "2", or the beginning of "GPU-<uuid>". */
static bool entry_names(const char *entry, size_t length, int physical)
{
    char number[16], uuid[48] = "GPU-";
    size_t used = 4;

    (void)snprintf(number, sizeof number, "%d", physical);
    if (strlen(number) == length && memcmp(number, entry, length) == 0) {
        return true;
    }
    for (int i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";

        used += (size_t)snprintf(uuid + used, sizeof uuid - used, "%s%02x", dash,
                (unsigned)(0x10 * (physical + 1) + i) & 0xFFU);
    }
    return length > 4 && length <= used && memcmp(uuid, entry, length) == 0;
}

static int entry_find(const char *entry, size_t length, int physical_count)
{
    for (int i = 0; i < physical_count; i++) {
        if (entry_names(entry, length, i)) {
            return i;
        }
    }
    return -1;
}

int devices_init(void)
{
    int physical_count = (int)gpusim_option("GPUSIM_DEVICES", 4), physical = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    physical_count = physical_count > DEVICES_MAX ? DEVICES_MAX : physical_count;
    while (sim.device_count < physical_count && physical < physical_count) {
        int chosen = physical++;

        if (visible != NULL) {
            size_t length = strcspn(visible, ",");

            chosen = entry_find(visible, length, physical_count);
            if (chosen < 0) {
                break; /* as the driver: the list ends at the first invalid entry */
            }
            visible += length + (visible[length] == ',' ? 1 : 0);
        }
        device_init(&sim.devices[sim.device_count], sim.device_count, chosen);
        sim.device_count++;
    }
    return sim.device_count > 0 ? CUDA_SUCCESS : CUDA_NO_DEVICE;
}

int device_enter(const char *function, int ordinal, struct device **device)
{
    int result = sim_enter(function, NEEDS_INIT);

    if (result == CUDA_SUCCESS && (ordinal < 0 || ordinal >= sim.device_count)) {
        result = CUDA_INVALID_DEVICE;
    }
    *device = result == CUDA_SUCCESS ? &sim.devices[ordinal] : NULL;
    return result;
}

int cuDeviceGetCount(int *count)
{
    int result = sim_enter("cuDeviceGetCount", NEEDS_INIT);

    if (result == CUDA_SUCCESS) {
        *count = sim.device_count;
    }
    return sim_leave(result);
}

int cuDeviceGet(int *device, int ordinal)
{
    struct device *found;
    int result = device_enter("cuDeviceGet", ordinal, &found);

    if (result == CUDA_SUCCESS) {
        *device = ordinal;
    }
    return sim_leave(result);
}

static int give_text(char *text, int length, const char *value)
{
    if (text == NULL || length < 1) {
        return CUDA_INVALID_VALUE;
    }
    (void)snprintf(text, (size_t)length, "%s", value);
    return CUDA_SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device)
{
    struct device *found;
    int result = device_enter("cuDeviceGetName", device, &found);

    if (result == CUDA_SUCCESS) {
        result = give_text(name, length, found->name);
    }
    return sim_leave(result);
}

int cuDeviceGetPCIBusId(char *text, int length, int device)
{
    struct device *found;
    int result = device_enter("cuDeviceGetPCIBusId", device, &found);

    if (result == CUDA_SUCCESS) {
        result = give_text(text, length, found->pci);
    }
    return sim_leave(result);
}

int cuDeviceGetUuid_v2(void *uuid, int device)
{
    struct device *found;
    int result = device_enter("cuDeviceGetUuid_v2", device, &found);

    if (result == CUDA_SUCCESS) {
        memcpy(uuid, found->uuid, sizeof found->uuid);
    }
    return sim_leave(result);
}

int cuDeviceGetUuid(void *uuid, int device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

static int attribute_of(const struct device *device, enum device_attribute attribute)
{
    switch (attribute) {
    case ATTRIBUTE_BLOCK_THREADS:
        return 1024;
    case ATTRIBUTE_SHARED_BYTES:
        return 48 << 10;
    case ATTRIBUTE_WARP:
        return 32;
    case ATTRIBUTE_SMS:
        return 8;
    case ATTRIBUTE_L2_BYTES:
        return 32 << 20;
    case ATTRIBUTE_SM_THREADS:
        return 2048;
    case ATTRIBUTE_COPY_ENGINES:
        return 3;
    case ATTRIBUTE_PCI_BUS:
        return (int)strtol(device->pci + 5, NULL, 16);
    case ATTRIBUTE_MAJOR:
        return 9;
    case ATTRIBUTE_MAP_HOST:
    case ATTRIBUTE_CONCURRENT_KERNELS:
    case ATTRIBUTE_UNIFIED_ADDRESSING:
    case ATTRIBUTE_MANAGED:
        return 1;
    case ATTRIBUTE_PCI_DEVICE:
    case ATTRIBUTE_MINOR:
    case ATTRIBUTES_MAX:
        return 0;
    }
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    struct device *found;
    int result = device_enter("cuDeviceGetAttribute", device, &found);

    if (result == CUDA_SUCCESS && (attribute < 1 || attribute >= ATTRIBUTES_MAX)) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *value = attribute_of(found, (enum device_attribute)attribute);
    }
    return sim_leave(result);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    struct device *found;
    int result = device_enter("cuDeviceTotalMem_v2", device, &found);

    if (result == CUDA_SUCCESS) {
        *bytes = found->total_bytes;
    }
    return sim_leave(result);
}

const char *gpusim_device_pci(int device)
{
    return device >= 0 && device < sim.device_count ? sim.devices[device].pci : NULL;
}
