/*
 * Structs of the public interface, which begin with their size: caller and library may know
 * different versions of them.
 */
#ifndef TUTTI_TRAINER_OPTIONS_H
#define TUTTI_TRAINER_OPTIONS_H

#include <stddef.h>
#include <string.h>

/** Fills the caller's struct: what both know is copied, the rest is 0. NULL: nothing. */
static inline void options_give(
        void *to, size_t to_bytes, const void *from, size_t from_bytes)
{
    if (to != NULL) {
        memset(to, 0, to_bytes);
        memcpy(to, from, to_bytes < from_bytes ? to_bytes : from_bytes);
    }
}

/** Takes what the caller has set over the defaults; from NULL: nothing. */
static inline void options_take(void *to, size_t to_bytes, const void *from)
{
    size_t from_bytes;

    if (from != NULL) {
        memcpy(&from_bytes, from, sizeof from_bytes);
        memcpy(to, from, to_bytes < from_bytes ? to_bytes : from_bytes);
    }
}

#endif
