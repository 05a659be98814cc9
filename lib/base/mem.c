/*
 * Allocation: malloc behind two counters, one that counts calls and one that tests arm
 * to make a chosen call fail.
 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Mutable state outside contexts; both are plain counters. */
static _Atomic uint64_t alloc_count;
static _Atomic uint64_t calls_until_failure; /* 0: off */

/* Counts a call; true when a test wants it to fail. */
static bool alloc_must_fail(void)
{
    uint64_t left;

    atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed);
    left = atomic_load_explicit(&calls_until_failure, memory_order_relaxed);
    while (left != 0) {
        if (atomic_compare_exchange_weak_explicit(&calls_until_failure, &left, left - 1,
                    memory_order_relaxed, memory_order_relaxed)) {
            return left == 1;
        }
    }
    return false;
}

void *mem_alloc(size_t size)
{
    if (alloc_must_fail()) {
        return NULL;
    }
    return malloc(size_max(size, 1));
}

void *mem_calloc(size_t count, size_t size)
{
    size_t bytes;

    if (alloc_must_fail() || !size_mul(count, size, &bytes)) {
        return NULL;
    }
    return calloc(1, size_max(bytes, 1));
}

void *mem_resize(void *block, size_t count, size_t size)
{
    size_t bytes;

    if (alloc_must_fail() || !size_mul(count, size, &bytes)) {
        return NULL;
    }
    return realloc(block, size_max(bytes, 1));
}

bool mem_grow(void *array, size_t *capacity, size_t need, size_t element)
{
    const size_t wanted = need + need / 2 + 8;
    void *block;

    if (need <= *capacity) {
        return true;
    }
    /* A pointer to elements of any type, copied as what it is. */
    memcpy(&block, array, sizeof block);
    block = mem_resize(block, wanted, element);
    if (block == NULL) {
        return false;
    }
    memcpy(array, &block, sizeof block);
    *capacity = wanted;
    return true;
}

void *mem_alloc_aligned(size_t size)
{
    void *block;
    size_t bytes;

    if (alloc_must_fail() || size > SIZE_MAX - MEM_CACHE_LINE) {
        return NULL;
    }
    bytes = size_align(size_max(size, 1), MEM_CACHE_LINE);
    block = aligned_alloc(MEM_CACHE_LINE, bytes);
    if (block != NULL) {
        memset(block, 0, bytes);
    }
    return block;
}

/* Up to here memcpy() uses the widest vectors; well below where it uses "rep movs". */
#define COPY_SMALL ((size_t)2 << 10)

/* 16 bytes, which any vector unit moves at once, at any address. */
typedef uint64_t copy_vector __attribute__((vector_size(16), aligned(1), may_alias));

/* From front to back: memcpy() begins at both ends, which other cores deliver slowly. */
static size_t copy_vectors(void *to, const void *from, size_t bytes)
{
    const size_t blocks = bytes / (4 * sizeof(copy_vector));
    copy_vector *target = to;
    const copy_vector *source = from;

    for (size_t i = 0; i < blocks; i++, target += 4, source += 4) {
        const copy_vector first = source[0];
        const copy_vector second = source[1];
        const copy_vector third = source[2];
        const copy_vector fourth = source[3];

        target[0] = first;
        target[1] = second;
        target[2] = third;
        target[3] = fourth;
    }
    return blocks * 4 * sizeof(copy_vector);
}

void mem_copy(void *to, const void *from, size_t bytes)
{
    size_t done = 0;

    if (bytes > COPY_SMALL) {
        done = copy_vectors(to, from, bytes);
        bytes -= done;
    }
    /* A length that the compiler knows to be small may become "rep movs", too. */
    __asm__("" : "+r"(bytes));
    memcpy((char *)to + done, (const char *)from + done, bytes);
}

char *mem_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(bytes);

    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

void mem_free(void *block)
{
    free(block);
}

uint64_t mem_alloc_count(void)
{
    return atomic_load_explicit(&alloc_count, memory_order_relaxed);
}

void mem_fail_at(uint64_t n)
{
    atomic_store_explicit(&calls_until_failure, n, memory_order_relaxed);
}
