/*
 * A rank's GPU: its context, streams and kernels, and what the files of this folder share.
 */
#ifndef TUTTI_OPS_GPU_GPU_H
#define TUTTI_OPS_GPU_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "base/config.h"
#include "base/log.h"
#include "ops/device.h"
#include "ops/gpu/driver.h"
#include "ops/gpu/nccl.h"
#include "ops/op.h"

/** Streams of a GPU; each in order, events between them. */
enum gpu_stream {
    GPU_PACK, /* tensors into slabs                                               */
    GPU_COMM, /* NCCL                                                             */
    GPU_UNPACK, /* slabs into tensors                                               */
    GPU_COPY, /* to host memory and back                                          */
    GPU_STREAMS
};

struct gpu_marks; /* marks.c */
struct gpu_memory; /* memory.c */

/** One per rank; outlives its context. Fixed after gpu_open() but for what says otherwise. */
struct gpu {
    const struct cuda_driver *cuda;
    const struct nccl_api *nccl; /* NULL: there is none                        */
    const struct config *config; /* borrowed */
    const struct log *log; /* borrowed */
    int rank; /* world rank, for messages; -1: not known yet             */
    int ordinal; /* of the device                                        */
    char pci[16]; /* its PCI id, "0000:1b:00.0"                          */
    cu_context context; /* the device's primary one                        */
    cu_stream streams[GPU_STREAMS]; /* of high priority, non-blocking          */
    int sm_count; /* multiprocessors                                      */
    size_t l2_bytes; /* of its second-level cache                           */
    void *kernels; /* a loaded cu_library or cu_module; NULL: none          */
    struct gpu_marks *marks; /* owned */
    struct gpu_memory *memory; /* owned */
    _Atomic int lost; /* the first cu_result that says that the device is lost; 0 */
};

/**
 * Opens the device that config->gpu means for this rank; see find.h for what there is.
 * Called by the thread that calls tutti_init*(): its current context counts.
 * @param local_rank  index among the ranks of the node
 * @param[out] gpu    NULL where there is none, with the reason in tutti_last_error()
 * @return TUTTI_OK, also without one; TUTTI_ERR_CONFIG (config->gpu names a device that is
 *         not there), TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status gpu_open(const struct config *config, const struct log *log,
        int local_rank, struct gpu **gpu);
/** Waits for nothing; what is in flight must have passed or been aborted. NULL is allowed. */
void gpu_close(struct gpu *gpu);
/** The interface of the core over it. */
struct device gpu_device(struct gpu *gpu);

/** Makes the context current on this thread, and undoes it. They nest. */
void gpu_enter(const struct gpu *gpu);
void gpu_leave(const struct gpu *gpu);

/**
 * TUTTI_OK for CU_SUCCESS; else the error of a failed call, in words: what was done, the
 * device, the driver's name and text. Notes a lost device.
 * @param what  "launch the packing kernel"
 */
tutti_status gpu_check(struct gpu *gpu, int result, const char *what);

/* ------------------------------------------------------------ marks (marks.c) */

/** A mark behind what is on a stream of the GPU now. TUTTI_ERR_NO_MEMORY, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status gpu_mark(
        struct gpu *gpu, cu_stream stream, struct device_mark **mark);
/** A stream of the GPU waits for a mark. */
TUTTI_MUST_USE tutti_status gpu_follow(
        struct gpu *gpu, cu_stream stream, const struct device_mark *mark);
/** TUTTI_OK, TUTTI_AGAIN, or the device is lost. */
tutti_status gpu_passed(struct gpu *gpu, const struct device_mark *mark);
void gpu_mark_hold(struct device_mark *mark);
void gpu_mark_release(struct gpu *gpu, struct device_mark *mark);

/* ---------------------------------------------------------- memory (memory.c) */

/** A piece of device memory for packing, used by one batch after the other. */
struct gpu_slab {
    cu_pointer memory; /* 256-byte aligned                                     */
    size_t bytes; /* at least what was asked for                            */
    void *registration; /* of the communicator's; see communicator.h; or NULL    */
    struct gpu_slab *next; /* spare ones */
};

/**
 * A slab that nothing in flight uses, or whose last use ends before what is put on `stream`
 * from now on (it follows the mark). NULL: no memory; error set.
 */
struct gpu_slab *gpu_slab_take(struct gpu *gpu, size_t bytes, cu_stream stream);
/** Gives it back; it is in use until the mark has passed (a reference is added). */
void gpu_slab_give(struct gpu *gpu, struct gpu_slab *slab, struct device_mark *mark);
/** True when memory is of tutti_alloc(TUTTI_DEVICE) of this rank, all of it. */
bool gpu_memory_has(struct gpu *gpu, const void *memory, size_t bytes);

#endif
