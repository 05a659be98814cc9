/*
 * A run of the suite on device memory: the simulated GPU (docs/design/gpusim.md), as an
 * application sees one. A thread that is a rank enters the device of its context; then it
 * has memory there and a stream of its own. The driver is loaded, not linked, so that the
 * same program runs without one.
 *
 * Device memory of the simulator can be read and written in place. It does not see that,
 * so who writes what an operation may still use, or reads what one has written, says so with
 * suite_gpu_write() and suite_gpu_see(). What nothing orders is a race, which ends the process
 * with 97.
 *
 * A call that fails ends the program.
 */
#ifndef TUTTI_TEST_SUITE_GPU_H
#define TUTTI_TEST_SUITE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

/**
 * All contexts get a GPU from now on, by the environment. Before there are threads.
 * @param cuda   path of the simulated driver
 * @param nccl   path of an NCCL; "none": everything is staged
 * @param ranks  of the job: as many devices there are
 */
void suite_gpu_begin(const char *cuda, const char *nccl, int ranks);
/** True after suite_gpu_begin(). */
bool suite_gpu_is_used(void);
/** True when what NCCL can do need not be staged. */
bool suite_gpu_has_nccl(void);

/** The calling thread works on the device of this context; NULL: on none any more. */
void suite_gpu_enter(tutti *t);
/** True in a thread that has entered a device. */
bool suite_gpu_is_entered(void);
/** The stream of the calling thread. */
void *suite_gpu_stream(void);
/** Waits for all that is on it. */
void suite_gpu_synchronize(void);

/** Memory of the thread's device, of cuMemAlloc(). */
void *suite_gpu_alloc(size_t bytes);
void suite_gpu_free(void *memory);
/** True for memory of a device. */
bool suite_gpu_owns(const void *memory);
/** Writes device memory, on a stream or, if that is NULL, at once. */
void suite_gpu_write(void *to, const void *from, size_t bytes, void *stream);
/** Says that the host reads these bytes now. */
void suite_gpu_see(const void *from, size_t bytes);

/** The thread's coin, for suite_gpu_toss() and suite_gpu_wait(); a program's is its own. */
void suite_gpu_toss_from(uint64_t seed);
/** True half of the time, and only in a thread that has entered a device. */
bool suite_gpu_toss(void);

/**
 * As tutti_wait() without a time limit, for a request that is not retried. On a device half
 * of the calls make the thread's stream wait, and wait for that.
 */
tutti_status suite_gpu_wait(tutti *t, tutti_request *request);

#endif
