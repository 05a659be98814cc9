/*
 * For tests: faults, and what there is now.
 */
#include <stdio.h>

#include "test/gpusim/nccl/comm.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpusim_nccl_live now;

struct gpusim_nccl_live *live_lock(void)
{
    (void)pthread_mutex_lock(&lock);
    return &now;
}

void live_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

struct gpusim_nccl_live gpusim_nccl_live(void)
{
    const struct gpusim_nccl_live live = *live_lock();

    live_unlock();
    return live;
}

int fault_of(int rank, const char *what)
{
    char name[64];
    const int fault = gpusim_call(what);

    (void)snprintf(name, sizeof name, "%s of rank %d", what, rank);
    return fault != 0 ? fault : gpusim_call(name);
}
