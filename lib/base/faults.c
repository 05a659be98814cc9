/*
 * Bugs on purpose.
 */
#include "base/faults.h"

#ifdef TUTTI_FAULTS

#    include <stdatomic.h>
#    include <string.h>

#    include "base/error.h"

static const char *const fault_names[FAULT_COUNT] = {
    [FAULT_wait_stream_before_issue] = "wait_stream_before_issue",
    [FAULT_removed_event_wait] = "removed_event_wait",
    [FAULT_skipped_collective] = "skipped_collective",
    [FAULT_unchecked_error] = "unchecked_error",
};

static _Atomic unsigned faults; /* 1 << fault: it is there */

bool fault_is_on(enum fault which)
{
    return (atomic_load_explicit(&faults, memory_order_relaxed) & 1u << which) != 0;
}

tutti_status tutti_fault_set(const char *name)
{
    if (name == NULL) {
        atomic_store_explicit(&faults, 0, memory_order_relaxed);
        return TUTTI_OK;
    }
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        if (strcmp(fault_names[i], name) == 0) {
            (void)atomic_fetch_or_explicit(&faults, 1u << i, memory_order_relaxed);
            return TUTTI_OK;
        }
    }
    return error_set(TUTTI_ERR_INVALID, "\"%s\" is no bug that can be put in", name);
}

#else

typedef int faults_are_compiled_out;

#endif
