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

/* Whose memory this thread mixes in, and how many buffers it has made. */
static _Thread_local tutti *lender_of_thread;
static _Thread_local unsigned made;

void buffer_mix(tutti *t)
{
    lender_of_thread = t;
}

/* Other buffers are on each rank the library's, and on none always. */
static tutti *choose_lender(void)
{
    tutti *t = lender_of_thread;

    made++;
    return t != NULL && (made + made / 3 + (unsigned)tutti_rank(t)) % 2 == 0 ? t : NULL;
}

static unsigned char *memory_new(tutti *lender, size_t bytes)
{
    void *memory = NULL;

    if (lender == NULL) {
        return must_alloc(bytes, 1);
    }
    if (tutti_alloc(lender, bytes, TUTTI_HOST, &memory) != TUTTI_OK) {
        (void)fprintf(stderr, "no memory for a test: %s\n", tutti_last_error());
        abort();
    }
    return memory;
}

void buffer_init(struct buffer *buffer, size_t bytes)
{
    tutti *lender = choose_lender();
    unsigned char *memory = memory_new(lender, bytes + 2 * GUARD_BYTES);

    memset(memory, GUARD, GUARD_BYTES);
    memset(memory + GUARD_BYTES, RUBBISH, bytes);
    memset(memory + GUARD_BYTES + bytes, GUARD, GUARD_BYTES);
    *buffer = (struct buffer){
        .data = memory + GUARD_BYTES, .bytes = bytes, .memory = memory, .lender = lender
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
    if (buffer->lender != NULL) {
        (void)tutti_free(buffer->lender, buffer->memory);
    } else {
        free(buffer->memory);
    }
    *buffer = (struct buffer){ 0 };
}
