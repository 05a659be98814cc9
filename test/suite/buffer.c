/*
 * Memory with guard bands.
 */
#include "test/suite/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A multiple of 8 and of nothing larger, so that data are aligned as malloc()'s are. */
#define GUARD_BYTES ((size_t)72)
#define GUARD 0xa5
#define RUBBISH 0x3c

void *must_alloc(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size > 0 ? size : 1);

    if (memory == NULL) {
        (void)fprintf(
                stderr, "no memory for a test: %zu times %zu bytes\n", count, size);
        abort();
    }
    return memory;
}

void buffer_init(struct buffer *buffer, size_t bytes)
{
    unsigned char *memory = must_alloc(bytes + 2 * GUARD_BYTES, 1);

    memset(memory, GUARD, GUARD_BYTES);
    memset(memory + GUARD_BYTES, RUBBISH, bytes);
    memset(memory + GUARD_BYTES + bytes, GUARD, GUARD_BYTES);
    *buffer = (struct buffer){
        .data = memory + GUARD_BYTES, .bytes = bytes, .memory = memory
    };
}

static bool is_guard(const unsigned char *band)
{
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (band[i] != GUARD) {
            return false;
        }
    }
    return true;
}

bool buffer_is_intact(const struct buffer *buffer)
{
    return is_guard(buffer->memory) &&
            is_guard(buffer->memory + GUARD_BYTES + buffer->bytes);
}

void buffer_fini(struct buffer *buffer)
{
    free(buffer->memory);
    *buffer = (struct buffer){ 0 };
}
