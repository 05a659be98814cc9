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

/* Bytes of device, pinned or managed memory that an operation reads or writes. */
struct gpusim_range {
    uint64_t start; /* address as the product knows it */
    size_t bytes; /* 0: nothing                      */
};

/* One operation for a stream. Ranges and label are copied, the argument is not. */
struct gpusim_op {
    const char *label; /* says in reports what this was: "ncclAllReduce"            */
    const struct gpusim_range *reads;
    size_t read_count;
    const struct gpusim_range *writes;
    size_t write_count;
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
 * ranks), must not call CUDA, and reaches device memory through the functions below. The
 * ranges are checked when the operation starts: live memory of the device, and no race.
 */
GPUSIM_API int gpusim_enqueue(void *stream, const struct gpusim_op *op);
/* True while a stream is being captured: what is put on it runs when the graph is launched. */
GPUSIM_API bool gpusim_is_captured(const void *stream);

/*
 * Copies between device memory (also pinned and managed) and the simulator's own; for
 * bodies, whose ranges are checked already. Serialised with all other simulated accesses,
 * so that a thread sanitiser stays silent about races that gpusim reports itself.
 */
GPUSIM_API void gpusim_copy_out(void *to, uint64_t from, size_t bytes);
GPUSIM_API void gpusim_copy_in(uint64_t to, const void *from, size_t bytes);

/*
 * Where the bytes of an address lie for the simulator, also while the product may not touch
 * them (GPUSIM_PROTECT). Between gpusim_memory_lock() and _unlock(), which bodies hold only
 * while they compute, never while they wait. A kernel's body holds the lock already.
 */
GPUSIM_API void *gpusim_at(uint64_t address);
GPUSIM_API void gpusim_memory_lock(void);
GPUSIM_API void gpusim_memory_unlock(void);

/* Device of live memory (-1: pinned, managed or not ours) and whether a range is live. */
GPUSIM_API int gpusim_pointer_device(uint64_t address);
GPUSIM_API bool gpusim_range_is_live(uint64_t address, size_t bytes);

/* Device of a stream (NULL, 1, 2: of the current context); -1: no such stream. */
GPUSIM_API int gpusim_stream_device(const void *stream);

/* Device of the calling thread's current context; -1: none. */
GPUSIM_API int gpusim_current_device(void);

/* "0000:17:00.0" of a device, NULL when there is no such device; lives for ever. */
GPUSIM_API const char *gpusim_device_pci(int device);

/* Makes `result` the sticky error of the device's contexts, as a failing kernel does. */
GPUSIM_API void gpusim_fail_device(int device, int result);

/* Options: the environment's value, or the one given. */
GPUSIM_API const char *gpusim_option_text(const char *name, const char *otherwise);
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

struct gpusim_accesses; /* ranges of one launch */

/* A kernel compiled for the host, with one parameter. */
struct gpusim_kernel {
    const char *name;
    size_t parameter_bytes;
    /* Names what the launch reads and writes (gpusim_reads(), gpusim_writes()). Called when
     * the launch starts: tables in device memory are read through gpusim_at(). */
    void (*ranges)(
            const struct gpusim_launch *launch, struct gpusim_accesses *accesses);
    /* The whole grid. Device pointers may be followed as they are. */
    void (*body)(const struct gpusim_launch *launch);
    unsigned max_threads; /* per block */
};

GPUSIM_API void gpusim_reads(
        struct gpusim_accesses *accesses, uint64_t start, size_t bytes);
GPUSIM_API void gpusim_writes(
        struct gpusim_accesses *accesses, uint64_t start, size_t bytes);

/* Adds a kernel, which must live for ever; it replaces one of the same name. */
GPUSIM_API void gpusim_kernel_register(const struct gpusim_kernel *kernel);

/* The product's kernels (kernels.c). */
const struct gpusim_kernel *gpusim_kernel_table(size_t *count);

#ifdef __cplusplus
}
#endif

#endif
