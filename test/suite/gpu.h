/*
 * A run of the suite on device memory: the simulated GPU (docs/design/gpusim.md), as an
 * application sees one. A thread that is a rank enters the device of its context; then it
 * has memory there and a stream of its own. The driver is loaded, not linked, so that the
 * same program runs without one.
 *
 * Device memory of the simulator can be read and written in place. It does not see that,
 * so who writes what an operation may still use, or reads what one has written, says so:
 * gpu_write(), gpu_see(). What nothing orders is a race, and ends the process with 97.
 *
 * A call that fails ends the program.
 */
#ifndef TUTTI_TEST_SUITE_GPU_H
#define TUTTI_TEST_SUITE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

/** Which libraries a run uses. */
struct gpu_libraries {
    const char *cuda; /* path of the simulated driver               */
    const char *nccl; /* path of an NCCL; "none": everything staged */
};

/**
 * All contexts get a GPU from now on. Before there are threads.
 * @param ranks  of the job: as many devices there are
 */
void gpu_begin(const struct gpu_libraries *libraries, int ranks);
/** True after gpu_begin(). */
bool gpu_is_used(void);
/** True when what NCCL can do need not be staged. */
bool gpu_has_nccl(void);
/** True when what this thread has on its device is reduced by NCCL, in the order of ranks. */
bool gpu_folds(void);
/** The libraries of gpu_begin(). */
const struct gpu_libraries *gpu_libraries(void);

/** The calling thread works on the device of this context; NULL: on none any more. */
void gpu_enter(tutti *t);
/** True in a thread that has entered a device. */
bool gpu_is_entered(void);
/** The stream of the calling thread. */
void *gpu_stream(void);
/** Waits for all that is on it. */
void gpu_synchronize(void);

/** Memory of the thread's device, of cuMemAlloc(). */
void *gpu_alloc(size_t bytes);
void gpu_free(void *memory);
/** True for memory of a device. */
bool gpu_owns(const void *memory);
/** Writes device memory, on a stream or, if that is NULL, at once. */
void gpu_write(void *to, const void *from, size_t bytes, void *stream);
/** Says that the host reads these bytes now. */
void gpu_see(const void *from, size_t bytes);

/** The coin of the thread, which gpu_toss() and gpu_wait() throw; a program's is its own. */
void gpu_toss_from(uint64_t seed);
/** True half of the time, and only in a thread that has entered a device. */
bool gpu_toss(void);

/**
 * As tutti_wait() without a time limit, for a request that is not retried. On a device half
 * of the calls make the thread's stream wait, and wait for that.
 */
tutti_status gpu_wait(tutti *t, tutti_request *request);

#endif
