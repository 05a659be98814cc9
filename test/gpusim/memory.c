/*
 * Memory. Addresses are not used twice. With GPUSIM_PROTECT the product sees device memory through a
 * mapping without any rights, except while a kernel's body runs; the simulator has another
 * mapping of the same bytes.
 *
 * Fresh memory is filled with 0xCB; the pages of freed memory go back to the system. A guard of at
 * least 512 bytes of 0xFD lies behind each allocation and is looked at when it is freed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ops/gpu/driver.h"
#include "test/gpusim/state.h"

enum {
    ALIGNMENT = 512,
    BYTE_FRESH = 0xCB,
    BYTE_GUARD = 0xFD
};

/* Addresses of each kind: device memory, and behind it the host's. */
static const size_t arena_bytes = (size_t)256 << 30;

static struct {
    pthread_mutex_t
            lock; /* of the bytes themselves; the innermost but that of reports */
    uint64_t base; /* for the product                            */
    char *alias; /* the same bytes, for the simulator          */
    atomic_size_t used[2]; /* addresses ever; read without the lock, too */
    size_t page;
    bool protects;
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool memory_is_ours(uint64_t address)
{
    return address - memory.base < 2 * arena_bytes && memory.base != 0;
}

int memory_init(void)
{
    const int rights = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_NORESERVE;
    int file = memfd_create("gpusim", MFD_CLOEXEC);
    char *base;

    if (file < 0 || ftruncate(file, (off_t)(2 * arena_bytes)) != 0) {
        return CUDA_OPERATING_SYSTEM;
    }
    memory.page = (size_t)sysconf(_SC_PAGESIZE);
    memory.protects = gpusim_option("GPUSIM_PROTECT", 0) != 0;
    memory.alias = mmap(NULL, 2 * arena_bytes, rights, flags, file, 0);
    base = memory.alias;
    if (memory.protects) {
        base = mmap(NULL, 2 * arena_bytes, PROT_NONE, flags, file, 0);
        (void)mprotect(base + arena_bytes, arena_bytes, rights);
    }
    memory.base = (uint64_t)(uintptr_t)base;
    (void)close(file);
    return memory.alias != MAP_FAILED && base != MAP_FAILED ? CUDA_SUCCESS
                                                            : CUDA_OPERATING_SYSTEM;
}

/* ---- bytes ---- */

static void protect(int rights)
{
    if (memory.protects && memory.used[0] > 0) {
        (void)mprotect((void *)(uintptr_t)memory.base, memory.used[0], rights);
    }
}

void memory_open(void)
{
    pthread_mutex_lock(&memory.lock);
    protect(PROT_READ | PROT_WRITE);
}

void memory_close(void)
{
    protect(PROT_NONE);
    pthread_mutex_unlock(&memory.lock);
}

void gpusim_memory_lock(void)
{
    pthread_mutex_lock(&memory.lock);
}

void gpusim_memory_unlock(void)
{
    pthread_mutex_unlock(&memory.lock);
}

void *gpusim_at(uint64_t address)
{
    return memory_is_ours(address) ? (void *)(memory.alias + (address - memory.base))
                                   : (void *)(uintptr_t)address;
}

/* ---- allocations ---- */

/* What is found comes first: it is asked for again. */
struct allocation *memory_find(uint64_t address)
{
    struct allocation **link = &sim.allocations;
    struct allocation *found;

    if (!memory_is_ours(address)) {
        return NULL;
    }
    while (*link != NULL && address - (*link)->start >= (*link)->span_bytes) {
        link = &(*link)->next;
    }
    found = *link;
    if (found != NULL) {
        *link = found->next;
        found->next = sim.allocations;
        sim.allocations = found;
    }
    return found;
}

/* The whole pages go back to the system; its neighbours may have the others. */
static void drop_pages(const struct allocation *allocation)
{
    char *start = gpusim_at(allocation->start);
    const size_t skipped = -(uintptr_t)start & (memory.page - 1);

    if (allocation->span_bytes >= skipped + memory.page) {
        (void)madvise(start + skipped,
                (allocation->span_bytes - skipped) & ~(memory.page - 1), MADV_REMOVE);
    }
}

struct allocation *memory_find_live(uint64_t address)
{
    struct allocation *found = memory_find(address);

    return found != NULL && found->is_live && address - found->start < found->bytes
            ? found
            : NULL;
}

struct allocation *memory_check(const char *what, uint64_t address, size_t bytes)
{
    struct allocation *found = memory_find(address);
    const uint64_t offset = found == NULL ? 0 : address - found->start;
    const char *wrong = NULL;

    if (found == NULL) {
        gpusim_report("%s touches %zu bytes that are no GPU's", what, bytes);
        return NULL;
    }
    if (!found->is_live) {
        wrong = "uses freed";
    } else if (offset > found->bytes || bytes > found->bytes - offset) {
        wrong = "overruns its";
    }
    if (wrong != NULL) {
        gpusim_report(
                "%s %s memory: %zu bytes at offset %llu of an allocation of %zu bytes",
                what, wrong, bytes, (unsigned long long)offset, found->bytes);
    }
    return wrong == NULL ? found : NULL;
}

static int allocate(enum memory_kind kind, size_t bytes, uint64_t *pointer)
{
    struct context *context = context_current();
    struct device *device = &sim.devices[context->device];
    const size_t span_bytes = (bytes + 2 * ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    const int arena = kind == MEMORY_DEVICE ? 0 : 1;
    struct allocation *allocation;
    char *at;

    if (bytes == 0) {
        return CUDA_INVALID_VALUE;
    }
    if (bytes > device_bytes || memory.used[arena] + span_bytes > arena_bytes ||
            (kind != MEMORY_PINNED &&
                    device->used_bytes + bytes > device->limit_bytes)) {
        return CUDA_OUT_OF_MEMORY;
    }
    allocation = calloc(1, sizeof *allocation);
    *allocation = (struct allocation){ .next = sim.allocations,
        .start = memory.base + (size_t)arena * arena_bytes + memory.used[arena],
        .bytes = bytes,
        .span_bytes = span_bytes,
        .owner = context,
        .kind = kind,
        .is_live = true };
    sim.allocations = allocation;
    memory.used[arena] += span_bytes;
    device->used_bytes += kind == MEMORY_PINNED ? 0 : bytes;
    at = gpusim_at(allocation->start);
    gpusim_memory_lock();
    memset(at, BYTE_FRESH, bytes);
    memset(at + bytes, BYTE_GUARD, span_bytes - bytes);
    gpusim_memory_unlock();
    *pointer = allocation->start;
    return CUDA_SUCCESS;
}

static void guard_check(const struct allocation *allocation)
{
    const unsigned char *at = gpusim_at(allocation->start);
    size_t i = allocation->bytes;

    gpusim_memory_lock();
    while (i < allocation->span_bytes && at[i] == BYTE_GUARD) {
        i++;
    }
    gpusim_memory_unlock();
    if (i < allocation->span_bytes) {
        gpusim_report("something wrote %zu bytes behind the end of an allocation of "
                      "%zu bytes",
                i - allocation->bytes, allocation->bytes);
    }
}

static void release(struct allocation *allocation)
{
    guard_check(allocation);
    shadow_fini(&allocation->shadow);
    drop_pages(allocation);
    allocation->is_live = false;
    if (allocation->kind != MEMORY_PINNED) {
        sim.devices[allocation->owner->device].used_bytes -= allocation->bytes;
    }
}

void memory_end(const struct context *context)
{
    for (struct allocation *a = sim.allocations; a != NULL; a = a->next) {
        if (a->owner == context && a->is_live) {
            release(a);
        }
    }
}

/*
 * Freeing waits for all work of the context, as the driver may. That is no promise of the
 * driver's, so the checker treats the free as a write by the host at the time of the call.
 */
static int free_memory(const char *function, uint64_t pointer, bool pinned)
{
    struct allocation *allocation = memory_find(pointer);
    struct clock clock;

    if (allocation == NULL || allocation->start != pointer ||
            (allocation->kind == MEMORY_PINNED) != pinned) {
        return CUDA_INVALID_VALUE;
    }
    if (!allocation->is_live) {
        gpusim_report("%s of memory that was freed before", function);
        return CUDA_INVALID_VALUE;
    }
    clock = clock_copy(&sim.host);
    context_wait(allocation->owner);
    access_by_host(function, &clock, allocation,
            &(struct gpusim_range){ .start = pointer, .bytes = allocation->bytes },
            true);
    clock_fini(&clock);
    if (allocation->is_live) {
        release(allocation);
    }
    return CUDA_SUCCESS;
}

/* ---- the driver's calls ---- */

int sim_cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    return allocate(MEMORY_DEVICE, bytes, pointer);
}

int sim_cuMemAllocManaged(uint64_t *pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(MEMORY_MANAGED, bytes, pointer);
}

int sim_cuMemFree_v2(uint64_t pointer)
{
    return free_memory("cuMemFree", pointer, false);
}

int sim_cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    uint64_t address = 0;
    int result = allocate(MEMORY_PINNED, bytes, &address);

    (void)flags;
    *pointer = (void *)(uintptr_t)address;
    return result;
}

int sim_cuMemFreeHost(void *pointer)
{
    return free_memory("cuMemFreeHost", (uint64_t)(uintptr_t)pointer, true);
}

static void give_attribute(void *value, int attribute, const struct allocation *of)
{
    switch (attribute) {
    case CU_POINTER_CONTEXT:
        *(void **)value = of->kind == MEMORY_MANAGED ? NULL : of->owner->handle;
        break;
    case CU_POINTER_MEMORY_TYPE:
        *(unsigned *)value = of->kind == MEMORY_PINNED ? 1 : CU_MEMORY_DEVICE;
        break;
    case CU_POINTER_RANGE_START:
        *(uint64_t *)value = of->start;
        break;
    case CU_POINTER_IS_MANAGED:
        *(unsigned *)value = of->kind == MEMORY_MANAGED;
        break;
    case CU_POINTER_DEVICE_ORDINAL:
        *(int *)value = of->owner->device;
        break;
    case CU_POINTER_RANGE_SIZE:
        *(size_t *)value = of->bytes;
        break;
    default:
        break;
    }
}

/* Of an address that CUDA does not know nothing is written. */
int sim_cuPointerGetAttributes(
        unsigned count, int *attributes, void **values, uint64_t pointer)
{
    const struct allocation *found = memory_find_live(pointer);

    for (unsigned i = 0; found != NULL && i < count; i++) {
        give_attribute(values[i], attributes[i], found);
    }
    return CUDA_SUCCESS;
}

int gpusim_pointer_device(uint64_t address)
{
    const struct allocation *found;
    int device = -1;

    pthread_mutex_lock(&sim.lock);
    found = memory_find_live(address);
    if (found != NULL && found->kind == MEMORY_DEVICE) {
        device = found->owner->device;
    }
    pthread_mutex_unlock(&sim.lock);
    return device;
}
