/*
 * Faults of the simulated NCCL.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/gpusim_nccl.h"

enum {
    FAULTS_MAX = 32,
    ANY_RANK = -1
};

static struct {
    pthread_mutex_t lock;
    size_t count;
    struct fault {
        int rank; /* or ANY_RANK              */
        char what[40];
        long nth; /* 0: every time            */
        long value;
        long seen; /* times that it happened   */
    } list[FAULTS_MAX];
} faults = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A bad fault must not be a test that passes. */
__attribute__((noreturn)) static void bad_fault(const char *text)
{
    (void)fprintf(stderr, "gpusim_nccl_fail(%s): not rank:what:nth:value\n", text);
    abort();
}

static void add_locked(const char *text)
{
    struct fault *fault = &faults.list[faults.count];
    char rank[8];

    if (faults.count == FAULTS_MAX ||
            sscanf(text, "%7[0-9*]:%39[A-Za-z]:%ld:%ld", rank, fault->what, &fault->nth,
                    &fault->value) < 4) {
        bad_fault(text);
    }
    fault->rank = rank[0] == '*' ? ANY_RANK : (int)strtol(rank, NULL, 10);
    fault->seen = 0;
    faults.count++;
}

void gpusim_nccl_fail(const char *text)
{
    (void)pthread_mutex_lock(&faults.lock);
    add_locked(text);
    (void)pthread_mutex_unlock(&faults.lock);
}

bool fault_at(int rank, const char *what, long *value)
{
    bool fires = false;
    struct fault *fault;

    (void)pthread_mutex_lock(&faults.lock);
    for (fault = faults.list; fault != faults.list + faults.count; fault++) {
        if ((fault->rank == ANY_RANK || fault->rank == rank) &&
                strcmp(fault->what, what) == 0) {
            fault->seen++;
            if (fault->nth == 0 || fault->nth == fault->seen) {
                *value = fault->value;
                fires = true;
            }
        }
    }
    (void)pthread_mutex_unlock(&faults.lock);
    return fires;
}
