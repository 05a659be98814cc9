/*
 * Addresses: one arena per device, one of pinned and one of managed memory. With
 * GPUSIM_PROTECT the product sees device memory through a mapping without any rights, except
 * while a kernel's body runs; the simulator has another mapping of the same bytes.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/gpusim/state.h"

enum {
    ARENAS_MAX = DEVICES_MAX + 2,
    RESERVED_GIB = 64 /* addresses of each */
};

static struct {
    pthread_mutex_t
            lock; /* of the bytes themselves; the innermost but that of reports */
    struct arena arenas[ARENAS_MAX];
    size_t count;
    size_t page;
    bool protects;
    struct sigaction previous; /* what SIGSEGV did */
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct arena *arena_of(uint64_t address)
{
    for (size_t i = 0; i < memory.count; i++) {
        struct arena *arena = &memory.arenas[i];

        if (address >= arena->base && address - arena->base < arena->reserved) {
            return arena;
        }
    }
    return NULL;
}

struct arena *arena_find(enum arena_kind kind, int device)
{
    for (size_t i = 0; i < memory.count; i++) {
        if (memory.arenas[i].kind == kind &&
                (kind != ARENA_DEVICE || memory.arenas[i].device == device)) {
            return &memory.arenas[i];
        }
    }
    return NULL;
}

static int arena_init(enum arena_kind kind, int device)
{
    struct arena *arena = &memory.arenas[memory.count];
    size_t reserved = (size_t)RESERVED_GIB << 30;
    void *alias, *base;
    int file = memfd_create("gpusim", MFD_CLOEXEC);

    if (file < 0 || ftruncate(file, (off_t)reserved) != 0) {
        return CUDA_OPERATING_SYSTEM;
    }
    alias = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
            file, 0);
    base = alias;
    if (memory.protects && kind == ARENA_DEVICE) {
        base = mmap(NULL, reserved, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    (void)close(file);
    if (alias == MAP_FAILED || base == MAP_FAILED) {
        return CUDA_OPERATING_SYSTEM;
    }
    *arena = (struct arena){
        .base = (uint64_t)(uintptr_t)base,
        .alias = alias,
        .reserved = reserved,
        .kind = kind,
        .device = device,
    };
    memory.count++;
    return CUDA_SUCCESS;
}

/* Says what happened before the process ends as it would have without this. */
static void on_fault(int number, siginfo_t *info, void *user)
{
    static const char text[] =
            "gpusim: host code touched device memory (a missing staging copy?)\n";
    const struct arena *arena = arena_of((uint64_t)(uintptr_t)info->si_addr);

    (void)user;
    if (arena != NULL && arena->kind == ARENA_DEVICE) {
        ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);

        (void)written;
    }
    (void)sigaction(number, &memory.previous, NULL);
}

int arenas_init(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    int result = CUDA_SUCCESS;

    memory.page = (size_t)sysconf(_SC_PAGESIZE);
    memory.protects = gpusim_option("GPUSIM_PROTECT", 0) != 0;
    for (int i = 0; result == CUDA_SUCCESS && i < sim.device_count; i++) {
        result = arena_init(ARENA_DEVICE, i);
    }
    result = result == CUDA_SUCCESS ? arena_init(ARENA_PINNED, -1) : result;
    result = result == CUDA_SUCCESS ? arena_init(ARENA_MANAGED, -1) : result;
    if (result == CUDA_SUCCESS && memory.protects) {
        (void)sigaction(SIGSEGV, &action, &memory.previous);
    }
    return result;
}

static void protect(int rights)
{
    for (size_t i = 0; memory.protects && i < memory.count; i++) {
        const struct arena *arena = &memory.arenas[i];

        if (arena->kind == ARENA_DEVICE && arena->next > 0) {
            size_t used = (arena->next + memory.page - 1) & ~(memory.page - 1);

            (void)mprotect((void *)(uintptr_t)arena->base, used, rights);
        }
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

struct arena *arena_at(size_t index)
{
    return index < memory.count ? &memory.arenas[index] : NULL;
}
