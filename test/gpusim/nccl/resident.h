/*
 * Kernels of collectives that a device runs at a time, one: those
 * of other communicators wait, though they are on other streams. So two communicators whose
 * collectives two ranks launch in different orders wait for each other for ever, as they may
 * on a GPU.
 */
#ifndef TUTTI_TEST_GPUSIM_NCCL_RESIDENT_H
#define TUTTI_TEST_GPUSIM_NCCL_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>

#include "test/gpusim/nccl/launch.h"

/* A kernel's place in the device's queue. */
struct resident {
    struct resident *next;
    nccl_comm comm;
};

/* Waits for a place; false when the kernel has to leave, and then has none. */
bool resident_enter(struct resident *place, struct launch *launch);
void resident_leave(struct resident *place);
/** Kernels of this process that have entered and not left. */
size_t resident_count(void);

#endif
