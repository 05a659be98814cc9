/*
 * The replacements. A sanitizer has replacements of its own, and another C library other
 * names: there nothing is counted.
 */
#include "bench/allocations.h"

#include <tutti/tutti.h>

#if TUTTI_BENCH_COUNTS_ALLOCATIONS

#    include <errno.h>
#    include <link.h>
#    include <malloc.h>
#    include <stdatomic.h>
#    include <stdbool.h>
#    include <stddef.h>
#    include <stdlib.h>

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,
 * readability-identifier-naming,readability-inconsistent-declaration-parameter-name):
 * names of glibc */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

struct code {
    uintptr_t begin, end;
};

static struct code tutti_code; /* written before `counting` is set */
static atomic_bool counting;
static atomic_int_fast64_t by_tutti;
static atomic_int_fast64_t by_others;

static void count(const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;

    /* pairs with the release in allocations_count() */
    if (atomic_load_explicit(&counting, memory_order_acquire)) {
        const bool ours = address >= tutti_code.begin && address < tutti_code.end;

        (void)atomic_fetch_add_explicit(
                ours ? &by_tutti : &by_others, 1, memory_order_relaxed);
    }
}

/* the bench hides its symbols; these must replace those of the C library */
#    pragma GCC visibility push(default)

void *malloc(size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_calloc(number, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    void *made;

    count(__builtin_return_address(0));
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 ||
            alignment == 0) {
        return EINVAL;
    }
    made = __libc_memalign(alignment, bytes);
    if (made == NULL) {
        return ENOMEM;
    }
    *memory = made;
    return 0;
}

#    pragma GCC visibility pop
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,
 * readability-identifier-naming,readability-inconsistent-declaration-parameter-name) */

/* Finds the executable piece of a library that tutti_finalize() is in. */
static int find_code(struct dl_phdr_info *info, size_t size, void *found)
{
    const uintptr_t inside = (uintptr_t)&tutti_finalize;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *piece = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + piece->p_vaddr;
        const uintptr_t end = begin + piece->p_memsz;

        if (piece->p_type == PT_LOAD && inside >= begin && inside < end) {
            *(struct code *)found = (struct code){ .begin = begin, .end = end };
            return 1;
        }
    }
    return 0;
}

void allocations_count(void)
{
    (void)dl_iterate_phdr(find_code, &tutti_code);
    atomic_store_explicit(&counting, true, memory_order_release);
}

struct allocations allocations_now(void)
{
    return (struct allocations){
        .by_tutti = atomic_load(&by_tutti),
        .by_others = atomic_load(&by_others),
    };
}

#else

void allocations_count(void)
{
}

struct allocations allocations_now(void)
{
    return (struct allocations){ .by_tutti = -1, .by_others = -1 };
}

#endif
