/*
 * A simulated communicator: its handle and its end. All handles stay in one list, so that
 * one that was destroyed is recognised when it is used again.
 */
#include "test/gpusim/nccl/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/gpusim_nccl.h"
#include "test/gpusim/nccl/job.h"

enum {
    SCRATCH_BYTES = 4096
};

static struct {
    pthread_mutex_t lock; /* of the list, and of opening and closing segments */
    struct nccl_comm_object *first;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What ncclGetLastError(NULL) says. */
static _Thread_local char thread_error[256];

void *must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

nccl_comm comm_create(int rank, int ranks, bool blocking)
{
    nccl_comm comm = must(mem_calloc(1, sizeof *comm));

    comm->rank = rank;
    comm->ranks = ranks;
    comm->blocking = blocking;
    comm->device = gpusim_current_device();
    comm->life = COMM_ARRIVING;
    (void)pthread_mutex_init(&comm->lock, NULL);
    (void)pthread_cond_init(&comm->calm, NULL);
    (void)cuCtxGetCurrent(&comm->context);
    if (cuMemAlloc_v2(&comm->scratch, SCRATCH_BYTES) != CU_SUCCESS) {
        comm->scratch = 0;
    }

    (void)pthread_mutex_lock(&registry.lock);
    comm->next = registry.first;
    registry.first = comm;
    (void)pthread_mutex_unlock(&registry.lock);
    return comm;
}

void comm_open_segment(nccl_comm comm, const unsigned char *id)
{
    uint64_t number;

    memcpy(&number, id + 3 * sizeof number, sizeof number);
    comm->number = number & 0xffff;
    (void)pthread_mutex_lock(&registry.lock);
    segment_open(&comm->segment, id, comm->rank, comm->ranks);
    (void)pthread_mutex_unlock(&registry.lock);
}

bool comm_is_known(const struct nccl_comm_object *comm)
{
    const struct nccl_comm_object *other;

    (void)pthread_mutex_lock(&registry.lock);
    for (other = registry.first; other != NULL && other != comm; other = other->next) {
    }
    (void)pthread_mutex_unlock(&registry.lock);
    return other != NULL;
}

nccl_result comm_misuse(
        nccl_comm comm, const char *function, const char *what, nccl_result result)
{
    gpusim_report("%s by rank %d of communicator %04llx: %s", function, comm->rank,
            (unsigned long long)comm->number, what);
    return comm_error(comm, result, "%s: %s", function, what);
}

nccl_result comm_enter_any(nccl_comm comm, const char *function)
{
    if (comm == NULL || !comm_is_known(comm)) {
        return comm_error(NULL, NCCL_INVALID_ARGUMENT, "%s: no communicator", function);
    }
    (void)pthread_mutex_lock(&comm->lock);
    if (comm->life == COMM_DEAD) {
        (void)pthread_mutex_unlock(&comm->lock);
        return comm_misuse(comm, function, "use after its end", NCCL_INVALID_ARGUMENT);
    }
    comm->users++;
    (void)pthread_mutex_unlock(&comm->lock);
    return NCCL_SUCCESS;
}

void comm_leave_any(nccl_comm comm)
{
    (void)pthread_mutex_lock(&comm->lock);
    comm->users--;
    (void)pthread_cond_broadcast(&comm->calm);
    (void)pthread_mutex_unlock(&comm->lock);
}

/* What is wrong with work on the communicator now; NULL: nothing. Locked. */
static const char *unready(nccl_comm comm)
{
    if (comm->pending != NULL || comm->life == COMM_ARRIVING) {
        return "use before ncclCommGetAsyncError has said that the call before is done";
    }
    if (comm->life != COMM_LIVE) {
        return "use after ncclCommFinalize or the end";
    }
    if (comm->workers != 0) {
        return "use by two threads at once";
    }
    return NULL;
}

nccl_result comm_enter(nccl_comm comm, const char *function)
{
    nccl_result result = comm_enter_any(comm, function);
    const char *wrong;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    (void)pthread_mutex_lock(&comm->lock);
    wrong = unready(comm);
    if (wrong == NULL) {
        comm->workers++;
    }
    result = NCCL_INVALID_ARGUMENT;
    (void)pthread_mutex_unlock(&comm->lock);
    if (wrong != NULL) {
        comm_leave_any(comm);
        return comm_misuse(comm, function, wrong, result);
    }
    return NCCL_SUCCESS;
}

void comm_leave(nccl_comm comm)
{
    (void)pthread_mutex_lock(&comm->lock);
    comm->workers--;
    (void)pthread_mutex_unlock(&comm->lock);
    comm_leave_any(comm);
}

void comm_quit(nccl_comm comm, enum comm_quit who)
{
    atomic_store(&comm->quit, who);
    (void)pthread_mutex_lock(&comm->lock);
    (void)pthread_cond_broadcast(&comm->calm);
    (void)pthread_mutex_unlock(&comm->lock);
    (void)pthread_mutex_lock(&registry.lock);
    if (comm->segment.shared != NULL) {
        segment_ring(&comm->segment, comm->rank);
    }
    (void)pthread_mutex_unlock(&registry.lock);
}

int comm_flying(nccl_comm comm)
{
    int flying;

    (void)pthread_mutex_lock(&comm->lock);
    flying = comm->flying;
    (void)pthread_mutex_unlock(&comm->lock);
    return flying;
}

/* As NCCL: memory of the device is freed, which waits for all that the device does. */
static void free_scratch(nccl_comm comm)
{
    cu_context before;

    if (comm->scratch != 0) {
        (void)cuCtxPushCurrent_v2(comm->context);
        (void)cuMemFree_v2(comm->scratch);
        (void)cuCtxPopCurrent_v2(&before);
        comm->scratch = 0;
    }
}

bool comm_is_needed(nccl_comm comm)
{
    bool needed;

    (void)pthread_mutex_lock(&comm->lock);
    needed = comm->flying + comm->captured != 0;
    (void)pthread_mutex_unlock(&comm->lock);
    return needed;
}

void comm_bury(nccl_comm comm)
{
    struct comm_memory *memory;
    struct comm_memory *next;

    (void)pthread_mutex_lock(&comm->lock);
    while (comm->flying != 0 || comm->users > 1) {
        (void)pthread_cond_wait(&comm->calm, &comm->lock);
    }
    comm->life = COMM_DEAD;
    memory = comm->memory;
    comm->memory = NULL;
    job_drop_pending_locked(comm);
    (void)pthread_mutex_unlock(&comm->lock);

    for (; memory != NULL; memory = next) {
        next = memory->next;
        mem_free(memory);
    }
    free_scratch(comm);
    (void)pthread_mutex_lock(&registry.lock);
    if (comm->segment.shared != NULL) {
        segment_id_release(comm->segment.id);
    }
    segment_close(&comm->segment);
    (void)pthread_mutex_unlock(&registry.lock);
}

void comm_ring_device(int device)
{
    struct nccl_comm_object *comm;

    (void)pthread_mutex_lock(&registry.lock);
    for (comm = registry.first; comm != NULL; comm = comm->next) {
        if (comm->device == device && comm->segment.shared != NULL) {
            segment_ring(&comm->segment, comm->rank);
        }
    }
    (void)pthread_mutex_unlock(&registry.lock);
}

nccl_result comm_error(nccl_comm comm, nccl_result result, const char *format, ...)
{
    char text[sizeof comm->last_error];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)snprintf(thread_error, sizeof thread_error, "%s", text);
    if (comm != NULL) {
        (void)pthread_mutex_lock(&comm->lock);
        memcpy(comm->last_error, text, sizeof text);
        (void)pthread_mutex_unlock(&comm->lock);
    }
    return result;
}

const char *comm_last_error(nccl_comm comm)
{
    return comm != NULL && comm_is_known(comm) ? comm->last_error : thread_error;
}

/* Registrations of a communicator that overlap a range. */
static size_t registrations(nccl_comm comm, uint64_t start, uint64_t end)
{
    const struct comm_memory *memory;
    size_t count = 0;

    (void)pthread_mutex_lock(&comm->lock);
    for (memory = comm->memory; memory != NULL; memory = memory->next) {
        count += memory->start < end && start < memory->start + memory->bytes;
    }
    (void)pthread_mutex_unlock(&comm->lock);
    return count;
}

void comm_count(struct gpusim_nccl_live *live, uint64_t start, uint64_t end)
{
    struct nccl_comm_object *comm;

    (void)pthread_mutex_lock(&registry.lock);
    for (comm = registry.first; comm != NULL; comm = comm->next) {
        live->comms += comm->segment.shared != NULL;
        live->unnamed += comm->segment.shared != NULL && comm->is_unnamed;
        live->registrations += registrations(comm, start, end);
    }
    (void)pthread_mutex_unlock(&registry.lock);
}
