/*
 * Digests of memory: a number that tells whether two pieces of memory hold the same. A change
 * of a single word of 32 bits always changes it, any other in all but about one of 2^64
 * cases. It is the same on all processors of one byte order, and no defence against intent.
 */
#ifndef TUTTI_BASE_DIGEST_H
#define TUTTI_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"

/** Any thread; any alignment. */
uint64_t digest(const void *data, size_t bytes) TUTTI_SHARED(digest);

#endif
