/*
 * Where a context takes the memory from that it hands out and packs tensors into: memory
 * that data planes reach faster than any other, where there is such a thing.
 */
#ifndef TUTTI_CORE_MEMORY_H
#define TUTTI_CORE_MEMORY_H

#include <stddef.h>

/** Zeroed: the heap. Outlives the context. */
struct memory {
    /* Zeroed memory on a boundary of 64 bytes; NULL: none. Any thread. */
    void *(*alloc)(void *user, size_t bytes);
    /* NULL is allowed. Any thread. */
    void (*give_back)(void *user, void *memory);
    void *user;
};

#endif
