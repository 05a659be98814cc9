/*
 * The simulated GPU as tests see it: what it found, device memory, and faults.
 *
 * A process in which anything was found ends with status 97, unless the test took the findings
 * with gpusim_take_reports().
 */
#ifndef TUTTI_TEST_GPUSIM_GPUSIM_TEST_H
#define TUTTI_TEST_GPUSIM_GPUSIM_TEST_H

#include "test/gpusim/gpusim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Waits until every stream of the process is idle, or held; says nothing to the checker. */
GPUSIM_API void gpusim_settle(void);

/* Takes the findings since the start, or the last take; the text of the first one goes to
 * `text`, if not NULL. @return how many there were */
GPUSIM_API long gpusim_take_reports(char *text, size_t capacity);

/*
 * Host access to device memory without a copy on a stream. Checked: a stream that may still
 * write (or, for a write, read) these bytes is a race. False: not live memory.
 */
GPUSIM_API bool gpusim_read(void *to, uint64_t from, size_t bytes);
GPUSIM_API bool gpusim_write(uint64_t to, const void *from, size_t bytes);

/* As cudaDeviceReset by somebody else: all that the primary context had is gone. */
GPUSIM_API void gpusim_reset(int device);

/* The stream starts no operation until it is released. */
GPUSIM_API void gpusim_hold(void *stream);
GPUSIM_API void gpusim_release(void *stream);

/* ---- faults ---- */

/*
 * The nth call from now (1: the next one; 0: every one) of a function of either library does
 * nothing and returns `error`; one fault for each function. These are faults, too, of communicators
 * of this process, for any rank or, as "late of rank 0", for one:
 *
 *   async       ncclCommGetAsyncError tells this error once the launch runs; its kernel stays until
 *               it is aborted
 *   init        the communicator is never ready
 *   late        the launch is on its stream, but polls of a communicator that does not block say
 *               until it is aborted that it is in progress
 *   abortmeets  ncclCommAbort waits for the other ranks to come to theirs, but not for such as have
 *               not come to the communicator
 */
GPUSIM_API void gpusim_fail(const char *what, long nth, int error);
/* Device memory that can be had from now on; SIZE_MAX: all of the device's. */
GPUSIM_API void gpusim_limit_memory(int device, size_t bytes);
/* Forgets all faults. */
GPUSIM_API void gpusim_fail_nothing(void);

/* ---- counters ---- */

/* Calls of a function of either library since the start; 0 for a name never called. And copies to
 * or from memory that is not pinned, which are not asynchronous: "pageable copy". */
GPUSIM_API long gpusim_calls(const char *function);

/* What exists now, in all contexts: a test of leaks compares two of these. */
struct gpusim_live {
    size_t device_bytes; /* of cuMemAlloc, and managed        */
    size_t host_bytes; /* of cuMemHostAlloc                 */
    size_t streams; /* created and not destroyed         */
    size_t events; /* likewise                          */
    size_t modules; /* modules and libraries             */
    size_t retained; /* primary contexts, with their uses */
};
GPUSIM_API struct gpusim_live gpusim_live(void);

/* What this process has of the NCCL half. */
struct gpusim_nccl_live {
    size_t comms; /* neither destroyed nor aborted             */
    size_t unnamed; /* configs without a name so far             */
    size_t registrations; /* of memory, with these                     */
    size_t allocations; /* by ncclMemAlloc; bytes go with the context */
    size_t registered_calls; /* so far, whose memory was all registered   */
    int min_ctas, max_ctas, traffic_class; /* of the config given last        */
    size_t resident; /* kernels that a device runs, or will next  */
};
GPUSIM_API struct gpusim_nccl_live gpusim_nccl_live(void);

#ifdef __cplusplus
}
#endif

#endif
