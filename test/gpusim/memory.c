/*
 * Memory. Addresses are not used twice: those of device memory are in one arena, those of host
 * memory that CUDA knows in another. With GPUSIM_PROTECT the product sees device memory through a
 * mapping without any rights, except while a kernel's body runs; the simulator has another
 * mapping of the same bytes.
 *
 * Fresh memory is filled with 0xCB; the pages of freed memory go back to the system. A guard of at
 * least 512 bytes of 0xFD lies behind each allocation and is looked at when it is freed.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/gpusim/state.h"

enum {
    ALIGNMENT = 512,
    BYTE_FRESH = 0xCB,
    BYTE_GUARD = 0xFD
};

static const size_t reserved_bytes = (size_t)256 << 30; /* addresses of each */

struct arena {
    uint64_t base; /* for the product                            */
    char *alias; /* the same bytes, for the simulator          */
    atomic_size_t next; /* first byte never used; read without the lock, too */
    struct allocation **allocations; /* by address; freed ones as well  */
    size_t count;
    size_t capacity;
};

static struct {
    pthread_mutex_t
            lock; /* of the bytes themselves; the innermost but that of reports */
    struct arena device, host;
    size_t page;
    bool protects;
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool arena_has(const struct arena *arena, uint64_t address)
{
    return address >= arena->base && address - arena->base < reserved_bytes;
}

static struct arena *arena_of(uint64_t address)
{
    if (arena_has(&memory.device, address)) {
        return &memory.device;
    }
    return arena_has(&memory.host, address) ? &memory.host : NULL;
}

static int arena_init(struct arena *arena, bool is_protected)
{
    void *alias, *base;
    int file = memfd_create("gpusim", MFD_CLOEXEC);

    if (file < 0 || ftruncate(file, (off_t)reserved_bytes) != 0) {
        return CUDA_OPERATING_SYSTEM;
    }
    alias = mmap(NULL, reserved_bytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_NORESERVE, file, 0);
    base = alias;
    if (is_protected) {
        base = mmap(
                NULL, reserved_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    (void)close(file);
    if (alias == MAP_FAILED || base == MAP_FAILED) {
        return CUDA_OPERATING_SYSTEM;
    }
    arena->base = (uint64_t)(uintptr_t)base;
    arena->alias = alias;
    return CUDA_SUCCESS;
}

int memory_init(void)
{
    int result;

    memory.page = (size_t)sysconf(_SC_PAGESIZE);
    memory.protects = gpusim_option("GPUSIM_PROTECT", 0) != 0;
    result = arena_init(&memory.device, memory.protects);
    return result == CUDA_SUCCESS ? arena_init(&memory.host, false) : result;
}

/* ---- bytes ---- */

static void protect(int rights)
{
    const size_t used = (memory.device.next + memory.page - 1) & ~(memory.page - 1);

    if (memory.protects && used > 0) {
        (void)mprotect((void *)(uintptr_t)memory.device.base, used, rights);
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
    const struct arena *arena = arena_of(address);

    return arena == NULL ? (void *)(uintptr_t)address
                         : (void *)(arena->alias + (address - arena->base));
}

void gpusim_copy_out(void *to, uint64_t from, size_t bytes)
{
    gpusim_memory_lock();
    memcpy(to, gpusim_at(from), bytes);
    gpusim_memory_unlock();
}

void gpusim_copy_in(uint64_t to, const void *from, size_t bytes)
{
    gpusim_memory_lock();
    memcpy(gpusim_at(to), from, bytes);
    gpusim_memory_unlock();
}

/* ---- allocations ---- */

/* NULL: there are no more addresses. */
static struct allocation *extend(enum memory_kind kind, size_t span_bytes)
{
    struct arena *arena = kind == MEMORY_DEVICE ? &memory.device : &memory.host;
    struct allocation *allocation;

    if (span_bytes > reserved_bytes - arena->next) {
        return NULL;
    }
    if (arena->count == arena->capacity) {
        arena->capacity = 2 * arena->capacity + 64;
        arena->allocations = realloc(
                arena->allocations, arena->capacity * sizeof *arena->allocations);
    }
    allocation = calloc(1, sizeof *allocation);
    allocation->start = arena->base + arena->next;
    allocation->span_bytes = span_bytes;
    allocation->kind = kind;
    arena->next += span_bytes;
    arena->allocations[arena->count++] = allocation;
    return allocation;
}

static int compare(const void *address, const void *element)
{
    const uint64_t at = *(const uint64_t *)address;
    const struct allocation *allocation = *(struct allocation *const *)element;

    if (at < allocation->start) {
        return -1;
    }
    return at - allocation->start >= allocation->span_bytes;
}

struct allocation *memory_find(uint64_t address)
{
    const struct arena *arena = arena_of(address);
    struct allocation **found;

    if (arena == NULL || arena->count == 0) {
        return NULL;
    }
    found = bsearch(
            &address, arena->allocations, arena->count, sizeof(void *), compare);
    return found == NULL ? NULL : *found;
}

struct allocation *memory_at(size_t index)
{
    if (index < memory.device.count) {
        return memory.device.allocations[index];
    }
    index -= memory.device.count;
    return index < memory.host.count ? memory.host.allocations[index] : NULL;
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

int memory_check(const char *what, uint64_t address, size_t bytes)
{
    const struct allocation *found = memory_find(address);
    const uint64_t offset = found == NULL ? 0 : address - found->start;
    const char *wrong = NULL;

    if (found == NULL) {
        gpusim_report("%s touches %zu bytes that are no GPU's", what, bytes);
        return CUDA_INVALID_VALUE;
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
    return wrong == NULL ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

static int allocate(enum memory_kind kind, size_t bytes, uint64_t *pointer)
{
    struct context *context = context_current();
    struct device *device = &sim.devices[context->device];
    struct allocation *allocation = NULL;
    char *at;

    if (bytes == 0) {
        return CUDA_INVALID_VALUE;
    }
    if (bytes <= device_bytes &&
            (kind == MEMORY_PINNED ||
                    device->used_bytes + bytes <= device->limit_bytes)) {
        allocation = extend(
                kind, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT);
    }
    if (allocation == NULL) {
        return CUDA_OUT_OF_MEMORY;
    }
    allocation->bytes = bytes;
    allocation->owner = context;
    allocation->is_live = true;
    device->used_bytes += kind == MEMORY_PINNED ? 0 : bytes;
    at = gpusim_at(allocation->start);
    gpusim_memory_lock();
    memset(at, BYTE_FRESH, bytes);
    memset(at + bytes, BYTE_GUARD, allocation->span_bytes - bytes);
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
    struct allocation *allocation;

    for (size_t i = 0; (allocation = memory_at(i)) != NULL; i++) {
        if (allocation->owner == context && allocation->is_live) {
            release(allocation);
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
    struct gpusim_range range;
    struct clock clock;

    if (pointer == 0 && !pinned) {
        return CUDA_SUCCESS;
    }
    if (allocation == NULL || allocation->start != pointer ||
            (allocation->kind == MEMORY_PINNED) != pinned) {
        return CUDA_INVALID_VALUE;
    }
    if (!allocation->is_live) {
        gpusim_report("%s of memory that was freed before", function);
        return CUDA_INVALID_VALUE;
    }
    range = (struct gpusim_range){ .start = pointer, .bytes = allocation->bytes };
    clock = clock_copy(&sim.host);
    context_wait(allocation->owner);
    access_by_host(function, &clock, &range, true);
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

/* CU_POINTER_ATTRIBUTE_ values. */
enum pointer_attribute {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_IS_MANAGED = 8,
    POINTER_ORDINAL = 9,
    POINTER_START = 11,
    POINTER_SIZE = 12
};

enum memory_type {
    TYPE_HOST = 1,
    TYPE_DEVICE = 2
};

static int give_attribute(
        void *value, enum pointer_attribute attribute, const struct allocation *of)
{
    switch (attribute) {
    case POINTER_CONTEXT:
        *(void **)value = of->kind == MEMORY_MANAGED ? NULL : of->owner->handle;
        return CUDA_SUCCESS;
    case POINTER_MEMORY_TYPE:
        *(unsigned *)value = of->kind == MEMORY_PINNED ? TYPE_HOST : TYPE_DEVICE;
        return CUDA_SUCCESS;
    case POINTER_START:
        *(uint64_t *)value = of->start;
        return CUDA_SUCCESS;
    case POINTER_IS_MANAGED:
        *(unsigned *)value = of->kind == MEMORY_MANAGED;
        return CUDA_SUCCESS;
    case POINTER_ORDINAL:
        *(int *)value = of->owner->device;
        return CUDA_SUCCESS;
    case POINTER_SIZE:
        *(size_t *)value = of->bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_INVALID_VALUE;
}

/* Of an address that CUDA does not know nothing is written. */
int sim_cuPointerGetAttributes(
        unsigned count, int *attributes, void **values, uint64_t pointer)
{
    const struct allocation *found = memory_find_live(pointer);
    int result = CUDA_SUCCESS;

    for (unsigned i = 0; found != NULL && result == CUDA_SUCCESS && i < count; i++) {
        result =
                give_attribute(values[i], (enum pointer_attribute)attributes[i], found);
    }
    return result;
}

int memory_device(uint64_t address)
{
    const struct allocation *found = memory_find_live(address);

    return found == NULL || found->kind != MEMORY_DEVICE ? -1 : found->owner->device;
}

int gpusim_pointer_device(uint64_t address)
{
    int device;

    pthread_mutex_lock(&sim.lock);
    device = memory_device(address);
    pthread_mutex_unlock(&sim.lock);
    return device;
}

bool gpusim_range_is_live(uint64_t address, size_t bytes)
{
    const struct allocation *found;
    bool live;

    pthread_mutex_lock(&sim.lock);
    found = memory_find_live(address);
    live = found != NULL && bytes <= found->bytes - (address - found->start);
    pthread_mutex_unlock(&sim.lock);
    return live;
}
