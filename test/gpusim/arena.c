/*
 * Addresses, which are not used twice: those of device memory, and those of host memory that
 * CUDA knows. With GPUSIM_PROTECT the product sees device memory through a mapping without any
 * rights, except while a kernel's body runs; the simulator has another mapping of the same bytes.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/gpusim/state.h"

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
    struct sigaction previous; /* what SIGSEGV did */
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

/* Says what happened before the process ends as it would have without this. */
static void on_fault(int number, siginfo_t *info, void *user)
{
    static const char text[] =
            "gpusim: host code touched device memory (a missing staging copy?)\n";

    (void)user;
    if (arena_has(&memory.device, (uint64_t)(uintptr_t)info->si_addr)) {
        ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);

        (void)written;
    }
    (void)sigaction(number, &memory.previous, NULL);
}

int arenas_init(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    int result;

    memory.page = (size_t)sysconf(_SC_PAGESIZE);
    memory.protects = gpusim_option("GPUSIM_PROTECT", 0) != 0;
    result = arena_init(&memory.device, memory.protects);
    if (result == CUDA_SUCCESS) {
        result = arena_init(&memory.host, false);
    }
    if (result == CUDA_SUCCESS && memory.protects) {
        (void)sigaction(SIGSEGV, &action, &memory.previous);
    }
    return result;
}

/* ---- allocations ---- */

struct allocation *arena_extend(enum memory_kind kind, size_t span_bytes)
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

struct allocation *arena_find(uint64_t address)
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

struct allocation *arena_at(size_t index)
{
    if (index < memory.device.count) {
        return memory.device.allocations[index];
    }
    index -= memory.device.count;
    return index < memory.host.count ? memory.host.allocations[index] : NULL;
}

/* The whole pages of it; its neighbours may have the others. */
void arena_drop(const struct allocation *allocation)
{
    char *start = gpusim_at(allocation->start);
    const size_t skipped = -(uintptr_t)start & (memory.page - 1);

    if (allocation->span_bytes >= skipped + memory.page) {
        (void)madvise(start + skipped,
                (allocation->span_bytes - skipped) & ~(memory.page - 1), MADV_REMOVE);
    }
}

/* ---- bytes ---- */

static void protect(int rights)
{
    const size_t used = (memory.device.next + memory.page - 1) & ~(memory.page - 1);

    if (memory.protects && used > 0) {
        (void)mprotect((void *)(uintptr_t)memory.device.base, used, rights);
    }
}

void arena_open(void)
{
    pthread_mutex_lock(&memory.lock);
    protect(PROT_READ | PROT_WRITE);
}

void arena_close(void)
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
