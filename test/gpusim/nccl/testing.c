/*
 * For tests: faults, and what there is now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/nccl/comm.h"

enum {
    FAULTS_MAX = 32
};

static struct {
    pthread_mutex_t lock;
    struct gpusim_nccl_live live;
    size_t fault_count;
    struct fault {
        char rank[8]; /* or "*"                  */
        char what[40];
        int nth; /* 0: every time            */
        int value;
        int seen; /* times that it happened  */
    } faults[FAULTS_MAX];
} now = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct gpusim_nccl_live *live_lock(void)
{
    (void)pthread_mutex_lock(&now.lock);
    return &now.live;
}

void live_unlock(void)
{
    (void)pthread_mutex_unlock(&now.lock);
}

struct gpusim_nccl_live gpusim_nccl_live(void)
{
    const struct gpusim_nccl_live live = *live_lock();

    live_unlock();
    return live;
}

void gpusim_nccl_fail(const char *text)
{
    struct fault fault = { .seen = 0 };

    if (sscanf(text, "%7[0-9*]:%39[A-Za-z]:%d:%d", fault.rank, fault.what, &fault.nth,
                &fault.value) < 4 ||
            now.fault_count == FAULTS_MAX) {
        /* A bad fault must not be a test that passes. */
        (void)fprintf(stderr, "gpusim_nccl_fail(%s): not rank:what:nth:value\n", text);
        abort();
    }
    (void)live_lock();
    now.faults[now.fault_count++] = fault;
    live_unlock();
}

bool fault_at(int rank, const char *what, int *value)
{
    bool fires = false;

    (void)live_lock();
    for (struct fault *fault = now.faults; fault != now.faults + now.fault_count;
            fault++) {
        if ((fault->rank[0] == '*' || strtol(fault->rank, NULL, 10) == rank) &&
                strcmp(fault->what, what) == 0) {
            fault->seen++;
            if (fault->nth == 0 || fault->nth == fault->seen) {
                *value = fault->value;
                fires = true;
            }
        }
    }
    live_unlock();
    return fires;
}
