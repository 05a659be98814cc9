/*
 * The CUDA driver, loaded at run time: one table of functions, filled from the driver's
 * shared object, so that one build serves machines with and without it. Nothing links it.
 * Types and constants are our own; headers_cuda.c compares them with cuda.h.
 */
#ifndef TUTTI_OPS_GPU_DRIVER_H
#define TUTTI_OPS_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** CU_SUCCESS or CU_ERROR_...; others exist. */
typedef int cu_result;
/** A device as the driver counts them, after CUDA_VISIBLE_DEVICES. */
typedef int cu_device;
/** An address in device memory; with unified addressing also the host's view of it. */
typedef uint64_t cu_pointer;
/** Values of the constants so named. */
typedef unsigned cu_device_attribute;
typedef unsigned cu_pointer_attribute;
typedef unsigned cu_capture_status;
typedef unsigned cu_capture_mode;

/** Opaque objects of the driver. A cudaStream_t and a cudaEvent_t are the same things. */
typedef struct cu_context_object *cu_context;
typedef struct cu_stream_object *cu_stream;
typedef struct cu_event_object *cu_event;
typedef struct cu_module_object *cu_module;
typedef struct cu_function_object *cu_function;
typedef struct cu_graph_object *cu_graph;
typedef struct cu_graph_node_object *cu_graph_node;
typedef struct cu_user_object_object *cu_user_object;

/** Runs on a thread of the driver, in stream order; it may not call the driver. */
typedef void (*cu_host_function)(void *user);

/** Identity of a device. */
typedef struct cu_uuid_bytes {
    char bytes[16];
} cu_uuid;

/** The default streams that have no object: 0 means the first unless compiled otherwise. */
#define CU_LEGACY_STREAM ((cu_stream)(uintptr_t)1)
#define CU_THREAD_STREAM ((cu_stream)(uintptr_t)2)

/** Constants: see driver.def. */
enum cuda_constant {
#define CUDA_CONSTANT(ours, theirs, value) ours = (value),
#include "ops/gpu/driver.def"
};

/** A loaded driver. Immutable after driver_load(); copies are as good as the original. */
struct cuda_driver {
    int version; /* of CUDA that it supports: 12040 is 12.4 */
    /* NOLINTBEGIN(bugprone-macro-parentheses): declarations are no expressions */
#define CUDA_REQUIRED(field, symbol, parameters) cu_result(*field) parameters;
#define CUDA_OPTIONAL(field, symbol, parameters) cu_result(*field) parameters;
#include "ops/gpu/driver.def"
    /* NOLINTEND(bugprone-macro-parentheses) */
};

/**
 * Loads and initialises a driver. It stays loaded until the process ends; loading it again
 * is cheap and gives the same functions. Any thread. A driver does not survive fork():
 * in a child of a process that used it this fails and says so.
 * @param library  name or path of the shared object ("libcuda.so.1")
 * @param[out] driver  filled on success only
 * @return TUTTI_OK; TUTTI_ERR_UNSUPPORTED with one sentence as the last error that says
 *         what is missing: driver, symbols of it, or devices
 */
TUTTI_MUST_USE tutti_status driver_load(
        const char *library, struct cuda_driver *driver);

/** A PCI id such as "0000:1b:00.0" with the terminating zero. */
#define GPU_PCI_MAX 16
/** A UUID such as "GPU-8d2c2d3a-..." with the terminating zero. */
#define GPU_UUID_MAX 41

/** How many devices there are. TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status driver_count(const struct cuda_driver *driver, int *count);
/** The PCI id of a device in lower case, its domain with four digits. */
cu_result driver_read_pci(
        const struct cuda_driver *driver, cu_device device, char pci[GPU_PCI_MAX]);
/** The UUID of a device, or of a part of one, as nvidia-smi shows it. */
cu_result driver_read_uuid(
        const struct cuda_driver *driver, cu_device device, char uuid[GPU_UUID_MAX]);

/** Name of an error, e.g. "CUDA_ERROR_OUT_OF_MEMORY"; never NULL. Any thread. */
const char *driver_error_name(const struct cuda_driver *driver, cu_result error);
/** Text of an error, e.g. "out of memory"; never NULL. Any thread. */
const char *driver_error_text(const struct cuda_driver *driver, cu_result error);

#endif
