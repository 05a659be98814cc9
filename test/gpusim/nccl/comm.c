/*
 * A simulated communicator: its handle, its end, and how it waits. Handles are never freed, so that
 * one that was destroyed is recognised when it is used again.
 */
#include "test/gpusim/nccl/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"

enum {
    SCRATCH_BYTES = 4096,
    NS_PER_S = 1000000000,
    PAUSE_NS = 100000000 /* a wait looks again after this, whatever its bell says */
};

static struct nccl_comm_object *newest; /* of all; live_lock() */

/* What ncclGetLastError says, whatever the communicator. */
static _Thread_local char last_error[256];

/* ---- what tests see ---- */

static pthread_mutex_t now_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpusim_nccl_live now;

struct gpusim_nccl_live *live_lock(void)
{
    (void)pthread_mutex_lock(&now_lock);
    return &now;
}

void live_unlock(void)
{
    (void)pthread_mutex_unlock(&now_lock);
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

/* ---- handles ---- */

nccl_comm comm_create(int rank, int ranks, bool blocking)
{
    nccl_comm comm = calloc(1, sizeof *comm);

    comm->rank = rank;
    comm->ranks = ranks;
    comm->blocking = blocking;
    (void)cuCtxGetDevice(&comm->device);
    (void)pthread_mutex_init(&comm->lock, NULL);
    (void)cuCtxGetCurrent(&comm->context);
    (void)cuMemAlloc_v2(&comm->scratch, SCRATCH_BYTES);
    live_lock()->comms++;
    comm->next = newest;
    newest = comm;
    live_unlock();
    return comm;
}

nccl_result comm_begin(const char *function)
{
    const int result = gpusim_call(function);

    return result == 0 ? NCCL_SUCCESS
                       : job_group_failed(comm_error(
                                 result, "%s: a fault of the simulator", function));
}

/* What is wrong with a call now; NULL: nothing. Locked. */
static const char *wrong_now(nccl_comm comm, enum comm_need need)
{
    if (comm->life == COMM_DEAD) {
        return "use after its end";
    }
    if (need == COMM_ANY) {
        return NULL;
    }
    if (comm->pending.step != NULL) {
        return "use before ncclCommGetAsyncError has said that the call before is done";
    }
    if (need == COMM_SETTLED) {
        return NULL;
    }
    if (comm->life != COMM_LIVE) {
        return "use before it is made, or after ncclCommFinalize";
    }
    return comm->workers != 0 ? "use by two threads at once" : NULL;
}

nccl_result comm_enter(nccl_comm comm, const char *function, enum comm_need need)
{
    nccl_result result = comm_begin(function);
    const char *wrong;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    if (comm == NULL) {
        return job_group_failed(comm_error(
                NCCL_INVALID_ARGUMENT, "%s: this is no communicator", function));
    }
    (void)pthread_mutex_lock(&comm->lock);
    wrong = wrong_now(comm, need);
    if (wrong == NULL) {
        comm->users++;
        comm->workers += need == COMM_READY;
    }
    (void)pthread_mutex_unlock(&comm->lock);
    return wrong == NULL ? NCCL_SUCCESS
                         : job_group_failed(comm_misuse(
                                   comm, function, wrong, NCCL_INVALID_ARGUMENT));
}

nccl_result comm_leave(nccl_comm comm, enum comm_need need, nccl_result result)
{
    (void)pthread_mutex_lock(&comm->lock);
    comm->users--;
    comm->workers -= need == COMM_READY;
    (void)pthread_mutex_unlock(&comm->lock);
    return job_group_failed(result);
}

nccl_result comm_misuse(
        nccl_comm comm, const char *function, const char *what, nccl_result result)
{
    gpusim_report("%s by rank %d of communicator %04x: %s", function, comm->rank,
            segment_id_number(comm->segment.id), what);
    return comm_error(result, "%s: %s", function, what);
}

nccl_result comm_error(nccl_result result, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return result;
}

const char *ncclGetLastError(nccl_comm comm)
{
    (void)comm;
    return last_error;
}

void comm_quit(nccl_comm comm)
{
    atomic_store(&comm->quits, true);
    if (comm->segment.shared != NULL) {
        segment_ring(&comm->segment);
    }
}

bool comm_is_needed(nccl_comm comm)
{
    return atomic_load(&comm->flying) + atomic_load(&comm->captured) != 0;
}

bool comm_is_shared(nccl_comm comm)
{
    return atomic_load(&comm->users) > 1;
}

/* As NCCL: memory of the device is freed, which waits for all that the device does. */
static void free_scratch(nccl_comm comm)
{
    cu_context before;

    if (comm->scratch != 0) {
        (void)cuCtxPushCurrent_v2(comm->context);
        (void)cuMemFree_v2(comm->scratch);
        (void)cuCtxPopCurrent_v2(&before);
    }
}

void comm_bury(nccl_comm comm)
{
    (void)pthread_mutex_lock(&comm->lock);
    comm->life = COMM_DEAD;
    job_drop_pending_locked(comm);
    (void)pthread_mutex_unlock(&comm->lock);

    (void)memory_forget(comm);
    free_scratch(comm);
    segment_close(&comm->segment);
    live_lock()->comms--;
    live_unlock();
}

/* ---- waiting ---- */

/* Names the first one of those that are missing. */
_Noreturn void comm_report_hang(nccl_comm comm, const char *what, uint64_t missing)
{
    int rank = 0;

    while (rank < comm->ranks && (missing >> rank & 1) == 0) {
        rank++;
    }
    comm_report_fatal("HANG: rank %d of communicator %04x waits in %s for rank %d%s",
            comm->rank, segment_id_number(comm->segment.id), what, rank,
            rank == comm->ranks          ? " (nobody)"
                    : rank == comm->rank ? " (itself)"
                    : segment_state(&comm->segment, rank) == SEGMENT_GONE
                    ? " (which has left)"
                    : "");
}

bool comm_is_late(int64_t since_ns)
{
    return clock_ns() - since_ns >=
            (int64_t)gpusim_option("GPUSIM_HANG_S", 100) * NS_PER_S;
}

bool comm_await(
        nccl_comm comm, uint64_t (*missing)(void *user), void *user, const char *what)
{
    const int64_t since_ns = clock_ns();
    struct segment_shared *shared = comm->segment.shared;

    for (;;) {
        const uint32_t seen = atomic_load(&shared->bell);
        const uint64_t ranks = missing(user);

        if (atomic_load(&comm->quits)) {
            return false;
        }
        if (ranks == 0) {
            return true;
        }
        if (comm_is_late(since_ns)) {
            comm_report_hang(comm, what, ranks);
        }
        futex_wait(&shared->bell, seen, PAUSE_NS);
    }
}

_Noreturn void comm_report_fatal(const char *format, ...)
{
    char text[3072];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gpusim_report("%s", text);
    (void)fflush(NULL);
    _exit(97);
}
