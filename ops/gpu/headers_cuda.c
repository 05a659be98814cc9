/*
 * Compares driver.def and the types of driver.h with the real cuda.h, where there is one.
 * Compiled by a test and in no library: that it compiles is the proof.
 */

/* Without it cuda.h hides the functions of which it has later versions. */
#define __CUDA_API_VERSION_INTERNAL
#include <assert.h>
#include <cuda.h>

#if CUDA_VERSION < 13000 /* which lack some errors */
#    define CUDA_ERROR_CONTAINED 226
#    define CUDA_ERROR_TENSOR_MEMORY_LEAK 721
#endif

#include "ops/gpu/driver.h"

/* Same size, and both numbers or both pointers: passed and returned alike. */
#define SAME_SCALAR(ours, theirs) \
    static_assert(sizeof(ours) == sizeof(theirs) && \
                    __builtin_classify_type((ours)0) == \
                            __builtin_classify_type((theirs)0), \
            #ours " is not passed as " #theirs)

SAME_SCALAR(cu_result, CUresult);
SAME_SCALAR(cu_device, CUdevice);
SAME_SCALAR(cu_pointer, CUdeviceptr);
SAME_SCALAR(cu_device_attribute, CUdevice_attribute);
SAME_SCALAR(cu_pointer_attribute, CUpointer_attribute);
SAME_SCALAR(cu_capture_status, CUstreamCaptureStatus);
SAME_SCALAR(cu_context, CUcontext);
SAME_SCALAR(cu_stream, CUstream);
SAME_SCALAR(cu_event, CUevent);
SAME_SCALAR(cu_module, CUmodule);
SAME_SCALAR(cu_function, CUfunction);
SAME_SCALAR(cu_graph, CUgraph);
SAME_SCALAR(cu_graph_node, CUgraphNode);
SAME_SCALAR(cu_user_object, CUuserObject);
static_assert(sizeof(cu_uuid) == sizeof(CUuuid), "cu_uuid is not CUuuid");
static_assert(__builtin_types_compatible_p(cu_host_function, CUhostFn),
        "cu_host_function is not CUhostFn");
#if !defined(__clang__) /* which folds no casts of pointers */
static_assert((size_t)CU_LEGACY_STREAM == (size_t)CU_STREAM_LEGACY &&
                (size_t)CU_THREAD_STREAM == (size_t)CU_STREAM_PER_THREAD,
        "the default streams have other handles");
#endif

#define CUDA_CONSTANT(ours, theirs, value) \
    static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs);
#include "ops/gpu/driver.def"

/* The table once more, spelled with the types of cuda.h. */
#define cu_result CUresult
#define cu_device CUdevice
#define cu_pointer CUdeviceptr
#define cu_device_attribute CUdevice_attribute
#define cu_pointer_attribute CUpointer_attribute
#define cu_capture_status CUstreamCaptureStatus
#define cu_context CUcontext
#define cu_stream CUstream
#define cu_event CUevent
#define cu_module CUmodule
#define cu_function CUfunction
#define cu_graph CUgraph
#define cu_graph_node CUgraphNode
#define cu_user_object CUuserObject
#define cu_uuid CUuuid
#define cu_host_function CUhostFn

#define CUDA_REQUIRED(field, symbol, parameters) \
    static_assert( \
            __builtin_types_compatible_p(__typeof__(symbol), CUresult parameters), \
            #symbol " has other parameters");
#define CUDA_OPTIONAL(field, symbol, parameters) \
    CUDA_REQUIRED(field, symbol, parameters)
#include "ops/gpu/driver.def"
