/*
 * Memory of ncclMemAlloc, and what is registered with communicators. Registering changes no
 * result here; what counts is whether it is done rightly.
 */
#include "test/gpusim/nccl/memory.h"

#include <string.h>

#include "base/mem.h"
#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/calls.h"
#include "test/gpusim/nccl/gpusim_nccl.h"
#include "test/gpusim/nccl/resident.h"

/* What ncclMemAlloc has given. */
struct allocation {
    struct allocation *next;
    uint64_t start;
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    struct allocation *first;
    size_t registered_calls;
} memories = { .lock = PTHREAD_MUTEX_INITIALIZER };

nccl_result ncclMemAlloc(void **pointer, size_t bytes)
{
    nccl_result result = api_begin("ncclMemAlloc", -1);
    struct allocation *allocation;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    allocation = must(mem_calloc(1, sizeof *allocation));
    if (cuMemAlloc_v2(&allocation->start, bytes) != CU_SUCCESS) {
        mem_free(allocation);
        return comm_error(NULL, NCCL_UNHANDLED_CUDA_ERROR, "ncclMemAlloc: no memory");
    }
    allocation->bytes = bytes;
    (void)pthread_mutex_lock(&memories.lock);
    allocation->next = memories.first;
    memories.first = allocation;
    (void)pthread_mutex_unlock(&memories.lock);
    memcpy(pointer, &allocation->start, sizeof *pointer);
    return NCCL_SUCCESS;
}

/* Takes the allocation that starts there out of the list; NULL: none. */
static struct allocation *take(uint64_t start)
{
    struct allocation **link;
    struct allocation *found;

    (void)pthread_mutex_lock(&memories.lock);
    for (link = &memories.first; *link != NULL && (*link)->start != start;
            link = &(*link)->next) {
    }
    found = *link;
    if (found != NULL) {
        *link = found->next;
    }
    (void)pthread_mutex_unlock(&memories.lock);
    return found;
}

nccl_result ncclMemFree(void *pointer)
{
    nccl_result result = api_begin("ncclMemFree", -1);
    struct allocation *allocation;

    if (result != NCCL_SUCCESS || pointer == NULL) {
        return result;
    }
    allocation = take((uint64_t)(uintptr_t)pointer);
    if (allocation == NULL) {
        gpusim_report("ncclMemFree of %p, which ncclMemAlloc has not given", pointer);
        return NCCL_INVALID_ARGUMENT;
    }
    if (comm_has_registered(allocation->start, allocation->bytes)) {
        gpusim_report(
                "ncclMemFree of %p, which is registered with a communicator", pointer);
    }
    if (cuMemFree_v2(allocation->start) != CU_SUCCESS) {
        result = NCCL_UNHANDLED_CUDA_ERROR;
    }
    mem_free(allocation);
    return result;
}

static bool is_own(uint64_t start, size_t bytes)
{
    const struct allocation *allocation;

    (void)pthread_mutex_lock(&memories.lock);
    for (allocation = memories.first; allocation != NULL;
            allocation = allocation->next) {
        if (allocation->start <= start &&
                start + bytes <= allocation->start + allocation->bytes) {
            break;
        }
    }
    (void)pthread_mutex_unlock(&memories.lock);
    return allocation != NULL;
}

/* Memory that can be registered, as a record that belongs to nobody yet; else an error. */
static nccl_result check(nccl_comm comm, const char *function, void *memory,
        size_t bytes, struct comm_memory **record)
{
    uint64_t start = (uint64_t)(uintptr_t)memory;

    if (bytes == 0 || !gpusim_range_is_live(start, bytes)) {
        return comm_misuse(
                comm, function, "this is no device memory", NCCL_INVALID_ARGUMENT);
    }
    if (!is_own(start, bytes)) {
        return comm_error(comm, NCCL_INVALID_ARGUMENT,
                "%s: memory that ncclMemAlloc has not given", function);
    }
    *record = must(mem_calloc(1, sizeof **record));
    (*record)->start = start;
    (*record)->bytes = bytes;
    return NCCL_SUCCESS;
}

static void add(nccl_comm comm, struct comm_memory *record)
{
    (void)pthread_mutex_lock(&comm->lock);
    record->number = comm->memory == NULL ? 0 : comm->memory->number + 1;
    record->next = comm->memory;
    comm->memory = record;
    (void)pthread_mutex_unlock(&comm->lock);
}

nccl_result ncclCommRegister(
        const nccl_comm comm, void *memory, size_t bytes, void **handle)
{
    nccl_result result = api_enter(comm, "ncclCommRegister");
    struct comm_memory *record = NULL;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    result = check(comm, "ncclCommRegister", memory, bytes, &record);
    if (result == NCCL_SUCCESS) {
        add(comm, record);
        *handle = record;
    }
    comm_leave(comm);
    return result;
}

/* Takes a registration back; the communicator is entered. */
static nccl_result remove_record(
        nccl_comm comm, const char *function, const void *handle)
{
    struct comm_memory **link;
    struct comm_memory *found;

    (void)pthread_mutex_lock(&comm->lock);
    for (link = &comm->memory; *link != NULL && *link != handle;
            link = &(*link)->next) {
    }
    found = *link;
    if (found != NULL) {
        *link = found->next;
    }
    (void)pthread_mutex_unlock(&comm->lock);
    if (found == NULL) {
        return comm_misuse(comm, function, "a handle that is not of this communicator",
                NCCL_INVALID_ARGUMENT);
    }
    if (!gpusim_range_is_live(found->start, found->bytes)) {
        (void)comm_misuse(comm, function, "the memory was freed before", NCCL_SUCCESS);
    }
    mem_free(found);
    return NCCL_SUCCESS;
}

nccl_result ncclCommDeregister(const nccl_comm comm, void *handle)
{
    static const char function[] = "ncclCommDeregister";
    nccl_result result = api_begin(function, api_rank(comm));

    if (result == NCCL_SUCCESS) {
        result = comm_enter_any(comm, function);
    }
    if (result == NCCL_SUCCESS) {
        result = remove_record(comm, function, handle);
        comm_leave_any(comm);
    }
    return result;
}

/* ---- for tests ---- */

/* 0: not registered; else the offset in what is + 1, and << 40 which registration that is. */
static uint64_t place_of(nccl_comm comm, uint64_t start, size_t bytes)
{
    const struct comm_memory *record;
    uint64_t place;

    (void)pthread_mutex_lock(&comm->lock);
    for (record = comm->memory; record != NULL; record = record->next) {
        if (record->start <= start && start + bytes <= record->start + record->bytes) {
            break;
        }
    }
    place = record == NULL ? 0 : 1 + start - record->start + (record->number << 40);
    (void)pthread_mutex_unlock(&comm->lock);
    return place;
}

/* Where both sides lie, as far as it has to be the same on all ranks. */
static void note_places(struct call *call, uint64_t input, uint64_t output)
{
    switch (call->function) {
    case FUNCTION_ALL_REDUCE:
        call->input_place = input;
        call->output_place = output;
        break;
    case FUNCTION_REDUCE_SCATTER:
        call->input_place = input;
        call->output_place = output != 0;
        break;
    case FUNCTION_ALL_GATHER:
        call->input_place = input != 0;
        call->output_place = output;
        break;
    case FUNCTION_REDUCE:
        call->input_place = input;
        break;
    case FUNCTION_BROADCAST:
        call->output_place = output;
        break;
    case FUNCTION_SEND:
        call->input_place = input != 0;
        break;
    case FUNCTION_RECV:
        call->output_place = output != 0;
        break;
    }
}

void memory_note_call(nccl_comm comm, struct call *call)
{
    const size_t input_bytes = call_input_bytes(comm, call);
    const size_t output_bytes = call_output_bytes(comm, call);
    const uint64_t input = place_of(comm, call->input, input_bytes);
    const uint64_t output = place_of(comm, call->output, output_bytes);

    note_places(call, input, output);
    if ((input != 0 || input_bytes == 0) && (output != 0 || output_bytes == 0)) {
        (void)pthread_mutex_lock(&memories.lock);
        memories.registered_calls++;
        (void)pthread_mutex_unlock(&memories.lock);
    }
}

struct gpusim_nccl_live gpusim_nccl_live(void)
{
    struct gpusim_nccl_live live = {
        .comms = comm_count_live(),
        .unnamed = comm_count_unnamed(),
        .registrations = comm_count_registered(),
        .resident = resident_count(),
    };
    const struct allocation *allocation;

    (void)pthread_mutex_lock(&memories.lock);
    for (allocation = memories.first; allocation != NULL;
            allocation = allocation->next) {
        live.allocations++;
    }
    api_get_config(&live);
    live.registered_calls = memories.registered_calls;
    (void)pthread_mutex_unlock(&memories.lock);
    return live;
}
