/*
 * Memory of the simulator itself: it does not go on without.
 */
#ifndef TUTTI_SIM_GROW_H
#define TUTTI_SIM_GROW_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Zeroed; free(). */
static inline void *sim_alloc(size_t count, size_t size)
{
    void *block = calloc(count > 0 ? count : 1, size);

    if (block == NULL) {
        (void)fprintf(stderr, "the simulator is out of memory\n");
        _Exit(2);
    }
    return block;
}

/** Room for one more in an array of `count`; the new element is zeroed. */
static inline void *sim_grow(void *array, int count, size_t size)
{
    const size_t at = (size_t)count;

    /* Full when it holds none, or 8, 16, 32 ... */
    if (at == 0 || (at >= 8 && (at & (at - 1)) == 0)) {
        array = realloc(array, (at == 0 ? 8 : 2 * at) * size);
        if (array == NULL) {
            (void)fprintf(stderr, "the simulator is out of memory\n");
            _Exit(2);
        }
    }
    memset((char *)array + at * size, 0, size);
    return array;
}

#endif
