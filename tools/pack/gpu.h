/*
 * The GPU that bench-pack measures: driver, one stream, the kernels.
 */
#ifndef TUTTI_TOOLS_PACK_GPU_H
#define TUTTI_TOOLS_PACK_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "ops/gpu/driver.h"
#include "ops/gpu/kernels/kernels.h"

/** Exit status for "there is nothing to measure". */
#define PACK_SKIPPED 77

/** cuMemcpyBatchAsync of CUDA 13 (its second version); attributes as in cuda.h. */
struct pack_copy_attributes {
    int source_order; /* 1: in the order of the stream                             */
    int source_place[2]; /* type and number; zeros: none                           */
    int target_place[2]; /* likewise                                               */
    unsigned flags;
};
typedef cu_result (*pack_batch_fn)(cu_pointer *to, cu_pointer *from, size_t *bytes,
        size_t count, struct pack_copy_attributes *attributes, size_t *attribute_starts,
        size_t attribute_count, cu_stream stream);

struct pack_gpu {
    struct cuda_driver cuda;
    char name[80]; /* of the device                                                */
    bool simulated; /* it is test/gpusim: times mean nothing                       */
    cu_context context; /* primary, current on the thread that opened              */
    cu_stream stream;
    cu_event begin, end; /* with times                                             */
    struct kernel_target target;
    cu_function kernels[KERNEL_COUNT]; /* NULL: the image lacks it (large)         */
    cu_function rival; /* rival.h                                                  */
    pack_batch_fn copy_batch; /* NULL: the driver has none, or an older one        */
    cu_pointer busy; /* memory to write, while runs are launched; 0: none           */
    double peak; /* a plain copy, in 10^9 bytes per second; 0: not measured        */
};

/**
 * Opens the first device.
 * @return 0, or PACK_SKIPPED after a sentence that says what is missing
 */
int pack_gpu_open(struct pack_gpu *gpu, const struct config *config);
void pack_gpu_close(struct pack_gpu *gpu);

/** Ends the program with a message. */
_Noreturn void pack_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Ends the program with a message unless the result is CU_SUCCESS. */
void pack_must(const struct pack_gpu *gpu, cu_result result, const char *what);

/** Device memory; ends the program when there is none. */
cu_pointer pack_allocate(const struct pack_gpu *gpu, size_t bytes);
void pack_free(const struct pack_gpu *gpu, cu_pointer memory);
/** Copies and waits. */
void pack_upload(
        const struct pack_gpu *gpu, cu_pointer to, const void *from, size_t bytes);
void pack_download(const struct pack_gpu *gpu, void *to, cu_pointer from, size_t bytes);

#endif
