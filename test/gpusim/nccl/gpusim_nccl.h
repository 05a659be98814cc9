/*
 * The simulated NCCL as tests see it, besides its own functions. Calls of its functions are
 * counted by gpusim_calls(), broken rules by gpusim_take_reports() (gpusim_test.h).
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_GPUSIM_NCCL_H
#define TUTTI_TEST_GPUSIM_NCCL_GPUSIM_NCCL_H

#include <stddef.h>

#include "test/gpusim/gpusim.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Adds a fault, rank:what:nth:value. The rank is that in the communicator concerned, or * for
 * any; nth counts from now and 1 what happens to it in this process, 0 is every time.
 *
 *   what            value
 *   ncclAllReduce   (any function) the call does nothing and returns this error
 *   async           ncclCommGetAsyncError tells this error once the launch runs; its kernel
 *                   stays until it is aborted
 *   init            the communicator is never ready (the value does not matter)
 *   late            the launch is on its stream, but polls of a communicator that does not
 *                   block say until it is aborted that it is in progress (the value does
 *                   not matter)
 *   abortmeets      ncclCommAbort waits for the other ranks to come to theirs, but not for such
 *                   as have not come to the communicator (the value does not matter)
 */
GPUSIM_API void gpusim_nccl_fail(const char *text);

/* What this process has now. */
struct gpusim_nccl_live {
    size_t comms; /* neither destroyed nor aborted             */
    size_t unnamed; /* configs without a name so far             */
    size_t registrations; /* of memory, with these                     */
    size_t allocations; /* by ncclMemAlloc                           */
    size_t registered_calls; /* so far, whose memory was all registered   */
    int min_ctas, max_ctas, traffic_class; /* of the config given last        */
    size_t resident; /* kernels that a device runs, or will next  */
};
GPUSIM_API struct gpusim_nccl_live gpusim_nccl_live(void);

#ifdef __cplusplus
}
#endif

#endif
