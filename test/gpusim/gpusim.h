/*
 * What the parts of the simulated GPU share: the CUDA half owns devices, memory, streams and
 * the happens-before check; the NCCL half and the table of kernels are built on this header.
 * Tests of the product use gpusim_test.h instead.
 *
 * Results are those of the CUDA driver (0 is success). Every function may be called from any
 * thread; what may not be called from the body of an operation says so.
 */
#ifndef TUTTI_TEST_GPUSIM_GPUSIM_H
#define TUTTI_TEST_GPUSIM_GPUSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUSIM_API __attribute__((visibility("default")))

struct gpusim_accesses; /* what one operation touches */

GPUSIM_API void gpusim_reads(
        struct gpusim_accesses *accesses, uint64_t start, size_t bytes);
GPUSIM_API void gpusim_writes(
        struct gpusim_accesses *accesses, uint64_t start, size_t bytes);

/* One operation for a stream. */
struct gpusim_op {
    const char
            *label; /* says in reports what this was: "ncclAllReduce"; lives for ever */
    /* Names what it reads and writes (gpusim_reads(), gpusim_writes()), when it starts: live
     * memory of the device, and no race; NULL: nothing. Calls nothing else of this header. */
    void (*ranges)(const void *argument, struct gpusim_accesses *accesses);
    int (*body)(void *argument); /* run by the stream's thread; a result other than
                                         0 is a sticky error of the stream's context.
                                         NULL: nothing is done                          */
    void (*dispose)(void *argument); /* called once after the body, and also when the
                                         body is never run; may be NULL                 */
    void *(*again)(void *argument); /* on a captured stream: the argument of a launch of
                                       the graph, disposed of like the other, which goes
                                       with the graph; calls nothing of this header   */
    void *argument;
};

/*
 * Puts an operation behind those already on the stream (NULL or 1: the legacy default
 * stream of the current context, 2: the calling thread's). On failure nothing is kept and
 * `dispose` is not called. The body may block as long as it likes (it waits for other
 * ranks), must not call CUDA, and reaches device memory through the functions below.
 */
GPUSIM_API int gpusim_enqueue(void *stream, const struct gpusim_op *op);

/*
 * Where the bytes of an address lie for the simulator, also while the product may not touch
 * them (GPUSIM_PROTECT), and for memory that is not CUDA's. Between gpusim_memory_lock() and _unlock(), which bodies hold only
 * while they compute, never while they wait. A kernel's body holds the lock already.
 */
GPUSIM_API void *gpusim_at(uint64_t address);
GPUSIM_API void gpusim_memory_lock(void);
GPUSIM_API void gpusim_memory_unlock(void);

/* Device of live memory; -1: pinned, managed or not ours. */
GPUSIM_API int gpusim_pointer_device(uint64_t address);

/* Makes `result` the sticky error of the device's contexts, as a failing kernel does. */
GPUSIM_API void gpusim_fail_device(int device, int result);

/* An option: the environment's value, or the one given. */
GPUSIM_API long gpusim_option(const char *name, long otherwise);

/* A number that depends on its arguments alone. */
GPUSIM_API uint64_t gpusim_seeded(uint64_t first, uint64_t second);

/*
 * Counts a call and says what a fault (GPUSIM_FAIL, gpusim_fail()) makes of it: 0 or the
 * error to return. The NCCL half calls it at the start of each of its functions, too.
 */
GPUSIM_API int gpusim_call(const char *function);

/* A rule was broken: said on stderr, counted, and the process will end with status 97. */
GPUSIM_API void gpusim_report(const char *format, ...)
        __attribute__((format(printf, 1, 2)));

/* ---- kernels ---- */

/* A launch, with its own copy of the parameter. */
struct gpusim_launch {
    const struct gpusim_kernel *kernel;
    unsigned blocks;
    unsigned threads; /* of a block */
    const void *parameter;
};

/* A kernel compiled for the host, with one parameter. */
struct gpusim_kernel {
    const char *name;
    size_t parameter_bytes;
    /* As those of an operation. */
    void (*ranges)(
            const struct gpusim_launch *launch, struct gpusim_accesses *accesses);
    /* The whole grid. Device pointers may be followed as they are. */
    void (*body)(const struct gpusim_launch *launch);
    unsigned max_threads; /* per block */
};

/* Adds a kernel, which must live for ever. The product's are there. */
GPUSIM_API void gpusim_kernel_register(const struct gpusim_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
