/*
 * The devices: GPUSIM_DEVICES of them, as a node of one vendor's server shows them.
 */
#include <stdio.h>

#include "test/gpusim/state.h"

/* CU_DEVICE_ATTRIBUTE_ values of those that the product asks for; others are 0. */
enum device_attribute {
    ATTRIBUTE_SMS = 16,
    ATTRIBUTE_L2_BYTES = 38,
    ATTRIBUTE_MAJOR = 75
};

enum {
    PCI_FIRST_BUS = 0x17,
    PCI_BUS_STEP = 0x10,
    UUID_BYTES = 16
};

int devices_init(void)
{
    const int count = (int)gpusim_option("GPUSIM_DEVICES", 4);

    sim.device_count = count > DEVICES_MAX ? DEVICES_MAX : count;
    for (int i = 0; i < sim.device_count; i++) {
        struct device *device = &sim.devices[i];

        device->primary.object.kind = CONTEXT;
        device->limit_bytes = device_bytes;
        (void)snprintf(device->pci, sizeof device->pci, "0000:%02x:00.0",
                PCI_FIRST_BUS + PCI_BUS_STEP * i);
    }
    return sim.device_count > 0 ? CUDA_SUCCESS : CUDA_NO_DEVICE;
}

int device_find(int device)
{
    return device >= 0 && device < sim.device_count ? CUDA_SUCCESS
                                                    : CUDA_INVALID_DEVICE;
}

const char *gpusim_device_pci(int device)
{
    return device_find(device) == CUDA_SUCCESS ? sim.devices[device].pci : NULL;
}

int sim_cuDeviceGetCount(int *count)
{
    *count = sim.device_count;
    return CUDA_SUCCESS;
}

int sim_cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetName(char *name, int length, int device)
{
    (void)snprintf(name, (size_t)length, "Simulated GPU (gpusim %d)", device);
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetPCIBusId(char *text, int length, int device)
{
    (void)snprintf(text, (size_t)length, "%s", sim.devices[device].pci);
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetUuid_v2(void *uuid, int device)
{
    for (int i = 0; i < UUID_BYTES; i++) {
        ((unsigned char *)uuid)[i] = (unsigned char)(0x10 * (device + 1) + i);
    }
    return CUDA_SUCCESS;
}

int sim_cuDeviceGetUuid(void *uuid, int device)
{
    return sim_cuDeviceGetUuid_v2(uuid, device);
}

int sim_cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == ATTRIBUTE_SMS       ? 8
            : attribute == ATTRIBUTE_L2_BYTES ? 32 << 20
            : attribute == ATTRIBUTE_MAJOR    ? 9
                                              : 0;
    return CUDA_SUCCESS;
}

int sim_cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = device_bytes;
    return CUDA_SUCCESS;
}
