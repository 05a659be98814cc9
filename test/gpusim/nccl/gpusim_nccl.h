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
