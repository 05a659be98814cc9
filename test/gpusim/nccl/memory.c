/*
 * Memory of ncclMemAlloc, and what is registered with communicators. Registering changes no
 * result here; what counts is whether it is done rightly.
 */
#include <stdlib.h>
#include <string.h>

#include "test/gpusim/nccl/launch.h"

/* What ncclMemAlloc has given, or is registered with a communicator. */
struct region {
    struct region *next;
    nccl_comm comm; /* NULL: ncclMemAlloc's */
    uint64_t start;
    size_t bytes;
    uint64_t number; /* of registrations with the communicator before it */
};

/* Of all; guarded by live_lock(). */
static struct region *regions;

static size_t *count_of(nccl_comm comm, struct gpusim_nccl_live *live)
{
    return comm == NULL ? &live->allocations : &live->registrations;
}

static struct region *add(nccl_comm comm, uint64_t start, size_t bytes)
{
    struct region *added = calloc(1, sizeof *added);
    struct gpusim_nccl_live *live = live_lock();

    *added = (struct region){ .next = regions,
        .comm = comm,
        .start = start,
        .bytes = bytes,
        .number = comm == NULL ? 0 : comm->registered++ };
    regions = added;
    ++*count_of(comm, live);
    live_unlock();
    return added;
}

/* Takes out the first one that is `wanted`, or, with NULL, is of the communicator and begins at
 * `start` (0: anywhere). False: there is none. */
static bool take(nccl_comm comm, const void *wanted, uint64_t start, struct region *out)
{
    struct gpusim_nccl_live *live = live_lock();
    struct region **link = &regions;
    struct region *found;

    while (*link != NULL &&
            ((*link)->comm != comm || (wanted != NULL && *link != wanted) ||
                    (start != 0 && (*link)->start != start))) {
        link = &(*link)->next;
    }
    found = *link;
    if (found != NULL) {
        *link = found->next;
        *out = *found;
        --*count_of(comm, live);
    }
    live_unlock();
    free(found);
    return found != NULL;
}

/* What contains a range; locked. */
static const struct region *find(nccl_comm comm, uint64_t start, size_t bytes)
{
    const struct region *at = regions;

    while (at != NULL &&
            (at->comm != comm || at->start > start ||
                    start + bytes > at->start + at->bytes)) {
        at = at->next;
    }
    return at;
}

bool memory_forget(nccl_comm comm)
{
    struct region gone;
    bool any = false;

    while (take(comm, NULL, 0, &gone)) {
        any = true;
    }
    return any;
}

/* ---- ncclMemAlloc ---- */

nccl_result ncclMemAlloc(void **pointer, size_t bytes)
{
    nccl_result result = comm_begin("ncclMemAlloc");
    cu_pointer start = 0;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    if (cuMemAlloc_v2(&start, bytes) != CU_SUCCESS) {
        return comm_error(NCCL_UNHANDLED_CUDA_ERROR, "ncclMemAlloc: no memory");
    }
    (void)add(NULL, start, bytes);
    memcpy(pointer, &start, sizeof *pointer);
    return NCCL_SUCCESS;
}

static bool is_registered(const struct region *memory)
{
    const struct region *at;

    (void)live_lock();
    for (at = regions; at != NULL; at = at->next) {
        if (at->comm != NULL && at->start < memory->start + memory->bytes &&
                memory->start < at->start + at->bytes) {
            break;
        }
    }
    live_unlock();
    return at != NULL;
}

nccl_result ncclMemFree(void *pointer)
{
    nccl_result result = comm_begin("ncclMemFree");
    struct region freed;

    if (result != NCCL_SUCCESS || pointer == NULL) {
        return result;
    }
    if (!take(NULL, NULL, (uint64_t)(uintptr_t)pointer, &freed)) {
        gpusim_report("ncclMemFree of %p, which ncclMemAlloc has not given", pointer);
        return NCCL_INVALID_ARGUMENT;
    }
    if (is_registered(&freed)) {
        gpusim_report(
                "ncclMemFree of %p, which is registered with a communicator", pointer);
    }
    return cuMemFree_v2(freed.start) == CU_SUCCESS ? NCCL_SUCCESS
                                                   : NCCL_UNHANDLED_CUDA_ERROR;
}

/* ---- registration ---- */

nccl_result ncclCommRegister(
        const nccl_comm comm, void *memory, size_t bytes, void **handle)
{
    static const char function[] = "ncclCommRegister";
    const uint64_t start = (uint64_t)(uintptr_t)memory;
    nccl_result result = comm_enter(comm, function, COMM_READY);
    bool is_own;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    (void)live_lock();
    is_own = find(NULL, start, bytes) != NULL;
    live_unlock();
    if (is_own) {
        *handle = add(comm, start, bytes);
    } else {
        result = comm_error(NCCL_INVALID_ARGUMENT,
                "%s: memory that ncclMemAlloc has not given", function);
    }
    return comm_leave(comm, COMM_READY, result);
}

nccl_result ncclCommDeregister(const nccl_comm comm, void *handle)
{
    static const char function[] = "ncclCommDeregister";
    nccl_result result = comm_enter(comm, function, COMM_ANY);
    struct region gone;

    if (result != NCCL_SUCCESS) {
        return result;
    }
    if (!take(comm, handle, 0, &gone)) {
        result = comm_misuse(comm, function,
                "a handle that is not of this communicator", NCCL_INVALID_ARGUMENT);
    }
    return comm_leave(comm, COMM_ANY, result);
}

/* 0: not registered; else the offset in what is + 1, and << 40 which registration that is. */
static uint64_t place_of(nccl_comm comm, uint64_t start, size_t bytes)
{
    const struct region *in = find(comm, start, bytes);

    return in == NULL ? 0 : 1 + start - in->start + (in->number << 40);
}

void memory_note_call(nccl_comm comm, struct call *call)
{
    const size_t input_bytes = call_input_bytes(comm, call);
    const size_t output_bytes = call_output_bytes(comm, call);
    struct gpusim_nccl_live *live = live_lock();
    const uint64_t input = place_of(comm, call->input, input_bytes);
    const uint64_t output = place_of(comm, call->output, output_bytes);

    call_note_places(call, input, output);
    live->registered_calls +=
            (input != 0 || input_bytes == 0) && (output != 0 || output_bytes == 0);
    live_unlock();
}
