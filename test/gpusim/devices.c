/*
 * The devices: GPUSIM_DEVICES of them, as a node of one vendor's server shows them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/state.h"

/* CU_DEVICE_ATTRIBUTE_ values of those that the product asks for; others are 0. */
enum device_attribute {
    ATTRIBUTE_SMS = 16,
    ATTRIBUTE_L2_BYTES = 38,
    ATTRIBUTE_MAJOR = 75
};

enum {
    PCI_FIRST_BUS = 0x17,
    PCI_BUS_STEP = 0x10
};

static void device_init(struct device *device, int ordinal)
{
    device->ordinal = ordinal;
    (void)snprintf(
            device->name, sizeof device->name, "Simulated GPU (gpusim %d)", ordinal);
    (void)snprintf(device->pci, sizeof device->pci, "0000:%02x:00.0",
            PCI_FIRST_BUS + PCI_BUS_STEP * ordinal);
    for (size_t i = 0; i < sizeof device->uuid; i++) {
        device->uuid[i] = (unsigned char)(0x10 * (ordinal + 1) + (int)i);
    }
    device->total_bytes = (size_t)8 << 30;
    device->limit_bytes = SIZE_MAX;
}

int devices_init(void)
{
    const int count = (int)gpusim_option("GPUSIM_DEVICES", 4);

    sim.device_count = count > DEVICES_MAX ? DEVICES_MAX : count;
    for (int i = 0; i < sim.device_count; i++) {
        device_init(&sim.devices[i], i);
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

static int text_call(const char *function, int device, char *text, int length)
{
    struct device *found;
    int result = device_enter(function, device, &found);

    if (result == CUDA_SUCCESS) {
        (void)snprintf(text, (size_t)length, "%s",
                strcmp(function, "cuDeviceGetName") == 0 ? found->name : found->pci);
    }
    return sim_leave(result);
}

int cuDeviceGetName(char *name, int length, int device)
{
    return text_call("cuDeviceGetName", device, name, length);
}

int cuDeviceGetPCIBusId(char *text, int length, int device)
{
    return text_call("cuDeviceGetPCIBusId", device, text, length);
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

static int attribute_of(int attribute)
{
    switch (attribute) {
    case ATTRIBUTE_SMS:
        return 8;
    case ATTRIBUTE_L2_BYTES:
        return 32 << 20;
    case ATTRIBUTE_MAJOR:
        return 9;
    default:
        return 0;
    }
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    struct device *found;
    int result = device_enter("cuDeviceGetAttribute", device, &found);

    if (result == CUDA_SUCCESS) {
        *value = attribute_of(attribute);
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
