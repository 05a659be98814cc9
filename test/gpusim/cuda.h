/*
 * The part of the CUDA driver that is simulated, under its real names. Handles are void
 * pointers here and CUdeviceptr is uint64_t; to a caller that is the same.
 */
#ifndef TUTTI_TEST_GPUSIM_CUDA_H
#define TUTTI_TEST_GPUSIM_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "test/gpusim/gpusim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors that the simulator gives, by the names of cuda.h without their prefix. */
enum cuda_error {
#define CUDA_ERROR(value, name, text) CUDA_##name = (value),
#include "test/gpusim/cuda_errors.def"
#undef CUDA_ERROR
};

GPUSIM_API int cuInit(unsigned flags);
GPUSIM_API int cuDriverGetVersion(int *version);
GPUSIM_API int cuGetErrorName(int error, const char **text);
GPUSIM_API int cuGetErrorString(int error, const char **text);
GPUSIM_API int cuDeviceGetCount(int *count);
GPUSIM_API int cuDeviceGet(int *device, int ordinal);
GPUSIM_API int cuDeviceGetName(char *name, int length, int device);
GPUSIM_API int cuDeviceGetPCIBusId(char *text, int length, int device);
GPUSIM_API int cuDeviceGetUuid(void *uuid, int device);
GPUSIM_API int cuDeviceGetUuid_v2(void *uuid, int device);
GPUSIM_API int cuDeviceGetAttribute(int *value, int attribute, int device);
GPUSIM_API int cuDeviceTotalMem_v2(size_t *bytes, int device);
GPUSIM_API int cuDevicePrimaryCtxRetain(void **context, int device);
GPUSIM_API int cuDevicePrimaryCtxRelease_v2(int device);
GPUSIM_API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
GPUSIM_API int cuCtxCreate_v2(void **context, unsigned flags, int device);
GPUSIM_API int cuCtxDestroy_v2(void *context);
GPUSIM_API int cuCtxPushCurrent_v2(void *context);
GPUSIM_API int cuCtxPopCurrent_v2(void **context);
GPUSIM_API int cuCtxSetCurrent(void *context);
GPUSIM_API int cuCtxGetCurrent(void **context);
GPUSIM_API int cuCtxGetDevice(int *device);
GPUSIM_API int cuCtxGetId(void *context, unsigned long long *id);
GPUSIM_API int cuCtxGetStreamPriorityRange(int *least, int *greatest);
GPUSIM_API int cuCtxSynchronize(void);
GPUSIM_API int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
GPUSIM_API int cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags);
GPUSIM_API int cuMemFree_v2(uint64_t pointer);
GPUSIM_API int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
GPUSIM_API int cuMemFreeHost(void *pointer);
GPUSIM_API int cuPointerGetAttributes(
        unsigned count, int *attributes, void **values, uint64_t pointer);
GPUSIM_API int cuMemcpyDtoDAsync_v2(
        uint64_t to, uint64_t from, size_t bytes, void *stream);
GPUSIM_API int cuMemcpyHtoDAsync_v2(
        uint64_t to, const void *from, size_t bytes, void *stream);
GPUSIM_API int cuMemcpyDtoHAsync_v2(
        void *to, uint64_t from, size_t bytes, void *stream);
GPUSIM_API int cuMemsetD8Async(
        uint64_t to, unsigned char value, size_t count, void *stream);
GPUSIM_API int cuMemsetD32Async(
        uint64_t to, unsigned value, size_t count, void *stream);
GPUSIM_API int cuStreamCreate(void **stream, unsigned flags);
GPUSIM_API int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
GPUSIM_API int cuStreamDestroy_v2(void *stream);
GPUSIM_API int cuStreamSynchronize(void *stream);
GPUSIM_API int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
GPUSIM_API int cuStreamGetCtx(void *stream, void **context);
GPUSIM_API int cuStreamGetFlags(void *stream, unsigned *flags);
GPUSIM_API int cuStreamGetPriority(void *stream, int *priority);
GPUSIM_API int cuStreamIsCapturing(void *stream, int *status);
GPUSIM_API int cuStreamBeginCapture_v2(void *stream, int mode);
GPUSIM_API int cuStreamEndCapture(void *stream, void **graph);
GPUSIM_API int cuThreadExchangeStreamCaptureMode(int *mode);
GPUSIM_API int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id,
        void **graph, const void ***nodes, size_t *count);
GPUSIM_API int cuUserObjectCreate(void **object, void *user, void (*destroy)(void *),
        unsigned references, unsigned flags);
GPUSIM_API int cuGraphRetainUserObject(
        void *graph, void *object, unsigned references, unsigned flags);
GPUSIM_API int cuGraphInstantiateWithFlags(
        void **exec, void *graph, unsigned long long flags);
GPUSIM_API int cuGraphLaunch(void *exec, void *stream);
GPUSIM_API int cuGraphExecDestroy(void *exec);
GPUSIM_API int cuGraphDestroy(void *graph);
GPUSIM_API int cuGraphGetNodes(void *graph, void **nodes, size_t *count);
GPUSIM_API int cuLaunchHostFunc(void *stream, void (*function)(void *), void *argument);
GPUSIM_API int cuEventCreate(void **event, unsigned flags);
GPUSIM_API int cuEventDestroy_v2(void *event);
GPUSIM_API int cuEventRecord(void *event, void *stream);
GPUSIM_API int cuEventQuery(void *event);
GPUSIM_API int cuEventSynchronize(void *event);
GPUSIM_API int cuEventElapsedTime(float *milliseconds, void *start, void *end);
GPUSIM_API int cuModuleLoadData(void **module, const void *image);
GPUSIM_API int cuModuleUnload(void *module);
GPUSIM_API int cuModuleGetFunction(void **function, void *module, const char *name);
GPUSIM_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(
        int *blocks, void *function, int threads, size_t shared_bytes);
GPUSIM_API int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y,
        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
        unsigned shared, void *stream, void **parameters, void **extra);

#ifdef __cplusplus
}
#endif

#endif
