/*
 * What the fake driver answers; the environment of the process says it:
 *   FAKE_CUDA_INIT     what cuInit() returns; 0
 *   FAKE_CUDA_DEVICES  how many devices there are; 2
 *   FAKE_CUDA_SILENT   the name of a call that fails with error 999
 * As with a real one, a child of a process that initialised it cannot use it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fakes.h"
#include "ops/gpu/driver.h"

static _Atomic pid_t user; /* the process that initialised it; 0: none */

static int setting(const char *variable, int initial)
{
    const char *text = getenv(variable);

    return text == NULL ? initial : (int)strtol(text, NULL, 10);
}

static cu_result answer(const char *call)
{
    const char *silent = getenv("FAKE_CUDA_SILENT");

    return silent != NULL && strcmp(silent, call) == 0 ? CU_ERROR_UNKNOWN : CU_SUCCESS;
}

cu_result cuInit(unsigned flags)
{
    (void)flags;
    if (user != 0 && user != getpid()) {
        return CU_ERROR_NOT_INITIALIZED;
    }
    user = getpid();
    return setting("FAKE_CUDA_INIT", CU_SUCCESS);
}

cu_result cuDriverGetVersion(int *version)
{
    *version = 12040;
    return answer("cuDriverGetVersion");
}

cu_result cuGetErrorName(cu_result error, const char **name)
{
    *name = error == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : NULL;
    return CU_SUCCESS;
}

cu_result cuGetErrorString(cu_result error, const char **text)
{
    *text = "system has unsupported display driver / cuda driver combination";
    return error == 803 ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

cu_result cuDeviceGetCount(int *count)
{
    *count = setting("FAKE_CUDA_DEVICES", 2);
    return answer("cuDeviceGetCount");
}

cu_result cuDeviceGet(cu_device *device, int ordinal)
{
    *device = 100 + ordinal; /* no ordinal: who mixes them up is told */
    return answer("cuDeviceGet");
}

cu_result cuDeviceGetName(char *name, int capacity, cu_device device)
{
    (void)snprintf(name, (size_t)capacity, "Fake %d", device);
    return answer("cuDeviceGetName");
}

/* The first device is written as by the driver, others with a domain of eight digits. */
cu_result cuDeviceGetPCIBusId(char *text, int capacity, cu_device device)
{
    (void)snprintf(text, (size_t)capacity,
            device == 100 ? "%04X:%02X:00.0" : "%08X:%02X:00.0", device - 100,
            0x1A + device - 100);
    return answer("cuDeviceGetPCIBusId");
}

static void fill_uuid(cu_uuid *uuid, int first, cu_device device)
{
    for (int i = 0; i < 16; i++) {
        uuid->bytes[i] = (char)(first + i);
    }
    uuid->bytes[15] = (char)device;
}

cu_result cuDeviceGetUuid(cu_uuid *uuid, cu_device device)
{
    fill_uuid(uuid, 0x10, device);
    return answer("cuDeviceGetUuid");
}

cu_result cuDeviceGetUuid_v2(cu_uuid *uuid, cu_device device)
{
    fill_uuid(uuid, 0xf0, device);
    return answer("cuDeviceGetUuid_v2");
}

cu_result cuDeviceGetAttribute(
        int *value, cu_device_attribute attribute, cu_device device)
{
    switch (attribute) {
    case CU_DEVICE_SM_COUNT:
        *value = 32 + device;
        break;
    case CU_DEVICE_L2_BYTES:
        *value = 50 << 20;
        break;
    case CU_DEVICE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CU_DEVICE_CAPABILITY_MINOR:
        *value = device - 100;
        break;
    default:
        return CU_ERROR_INVALID_VALUE;
    }
    return answer("cuDeviceGetAttribute");
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device)
{
    *bytes = ((size_t)device - 20) << 30;
    return answer("cuDeviceTotalMem_v2");
}
