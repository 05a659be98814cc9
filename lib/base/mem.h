/*
 * Allocation: counted, so that tests can show that the steady state allocates nothing,
 * and fault-injectable, so that tests can fail the n-th allocation.
 */
#ifndef TUTTI_BASE_MEM_H
#define TUTTI_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"

/** What memory is aligned to, and ranks and threads divide at, so as not to share a line. */
#define MEM_CACHE_LINE ((size_t)64)

/** Memory, or NULL. size 0 gives a unique pointer. Any thread. Freed by mem_free(). */
void *mem_alloc(size_t size) TUTTI_SHARED(mem_alloc);
/** As mem_alloc(), zeroed, count * size bytes; NULL also on overflow. */
void *mem_calloc(size_t count, size_t size) TUTTI_SHARED(mem_calloc);
/** Resizes to count * size bytes; on failure the old block is unchanged. */
void *mem_resize(void *block, size_t count, size_t size);
/**
 * Makes room in an array that grows: for `need` elements, and more than that, so that
 * adding one by one is cheap.
 * @param array  address of the pointer to the elements
 * @return false when out of memory, nothing changed
 */
bool mem_grow(void *array, size_t *capacity, size_t need, size_t element)
        TUTTI_SHARED(mem_grow);
/** Zeroed memory on a boundary of 64 bytes; freed by mem_free(). */
void *mem_alloc_aligned(size_t size);
/** A copy of a string, or NULL. */
char *mem_strdup(const char *text);
/** Frees any of the above; NULL is allowed. */
void mem_free(void *block) TUTTI_SHARED(mem_free);

/**
 * Copies bytes between ranges that do not overlap. For data of any length: on some AMD
 * processors the "rep movs" that glibc's memcpy() takes for more than a few KiB, and
 * compilers for a known length, is ten times slower than vector stores when source and
 * destination lie at certain distances modulo a page (glibc bug 30994).
 */
void mem_copy(void *to, const void *from, size_t bytes);

/** Number of allocations (of any kind above) so far in this process. */
uint64_t mem_alloc_count(void);
/** Test hook: the n-th allocation from now fails, once; 0 switches it off. */
void mem_fail_at(uint64_t n);

/** *out = a * b; false on overflow, out unchanged. */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
    size_t product;

    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

static inline size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/** The next multiple of a power of two. */
static inline size_t size_align(size_t value, size_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

#endif
