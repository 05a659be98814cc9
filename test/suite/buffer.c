/*
 * Memory with guard bands.
 */
#include "test/suite/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/batch/reference.h"
#include "test/suite/gpu.h"

/* A multiple of 8 and of nothing larger, so that data are aligned as malloc()'s are. */
#define GUARD_BYTES ((size_t)72)
/* On devices half of them: data that are aligned as the fusion buffer is need no packing. */
#define GUARD_BYTES_ALIGNED ((size_t)256)
#define GUARD 0xa5
#define RUBBISH 0x3c

/* Whose memory this thread mixes in, and how many buffers it has made. */
static _Thread_local tutti *lender_of_thread;
static _Thread_local unsigned made;

void buffer_mix(tutti *t)
{
    lender_of_thread = t;
    if (suite_gpu_is_used()) {
        suite_gpu_enter(t);
    }
}

/* Other buffers are on each rank the library's, and on none always. */
static tutti *choose_lender(void)
{
    tutti *t = lender_of_thread;

    made++;
    return t != NULL && (made + made / 3 + (unsigned)tutti_rank(t)) % 2 == 0 ? t : NULL;
}

static unsigned char *lend(tutti *lender, size_t bytes, tutti_memory_kind kind)
{
    void *memory = NULL;

    if (tutti_alloc(lender, bytes, kind, &memory) != TUTTI_OK) {
        (void)fprintf(stderr, "no memory for a test: %s\n", tutti_last_error());
        abort();
    }
    return memory;
}

static unsigned char *memory_new(const struct buffer *buffer)
{
    const size_t all = buffer->bytes + 2 * buffer->guard;

    if (buffer->lender != NULL) {
        return lend(buffer->lender, all, buffer->on_device ? TUTTI_DEVICE : TUTTI_HOST);
    }
    return buffer->on_device ? suite_gpu_alloc(all) : must_alloc(all, 1);
}

/* Two of three buffers of the heap: all of it, or one that ends or begins within. */
static void share(struct buffer *buffer)
{
    const size_t all = buffer->bytes + 2 * buffer->guard;
    const size_t cut = all > 0 ? (size_t)made * 977 % all : 0;
    const size_t begin = made % 6 == 2 ? cut : 0;
    const size_t end = made % 6 == 4 ? cut : all;

    if (lender_of_thread == NULL || buffer->on_device || buffer->lender != NULL ||
            made % 3 == 0) {
        return;
    }
    buffer->shared = buffer->memory + begin;
    if (tutti_share(lender_of_thread, buffer->shared, end - begin) != TUTTI_OK) {
        (void)fprintf(stderr, "a test cannot share: %s\n", tutti_last_error());
        abort();
    }
    buffer->sharer = end > begin ? lender_of_thread : NULL;
}

static void init(struct buffer *buffer, size_t bytes, bool on_device)
{
    unsigned char *filled;

    *buffer = (struct buffer){ .bytes = bytes,
        .lender = choose_lender(),
        .guard = on_device && made % 4 < 2 ? GUARD_BYTES_ALIGNED : GUARD_BYTES,
        .on_device = on_device };
    buffer->memory = memory_new(buffer);
    buffer->data = buffer->memory + buffer->guard;
    filled = on_device ? must_alloc(bytes + 2 * buffer->guard, 1) : buffer->memory;
    memset(filled, GUARD, buffer->guard);
    memset(filled + buffer->guard, RUBBISH, bytes);
    memset(filled + buffer->guard + bytes, GUARD, buffer->guard);
    share(buffer);
    if (on_device) {
        suite_gpu_write(buffer->memory, filled, bytes + 2 * buffer->guard, NULL);
        free(filled);
    }
}

void buffer_init(struct buffer *buffer, size_t bytes)
{
    init(buffer, bytes, suite_gpu_is_entered());
}

void buffer_init_on_host(struct buffer *buffer, size_t bytes)
{
    init(buffer, bytes, false);
}

void buffer_put(const struct buffer *buffer, size_t offset, const void *from,
        size_t bytes, void *stream)
{
    char *to = (char *)buffer->data + offset;

    if (buffer->on_device) {
        suite_gpu_write(to, from, bytes, stream);
    } else if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

static bool is_guard(const unsigned char *band, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (band[i] != GUARD) {
            return false;
        }
    }
    return true;
}

bool buffer_is_intact(const struct buffer *buffer)
{
    if (buffer->on_device) {
        suite_gpu_see(buffer->memory, buffer->bytes + 2 * buffer->guard);
    }
    return is_guard(buffer->memory, buffer->guard) &&
            is_guard(buffer->memory + buffer->guard + buffer->bytes, buffer->guard);
}

void buffer_fini(struct buffer *buffer)
{
    if (buffer->sharer != NULL) {
        (void)tutti_unshare(buffer->sharer, buffer->shared);
    }
    if (buffer->lender != NULL) {
        (void)tutti_free(buffer->lender, buffer->memory);
    } else if (buffer->on_device) {
        suite_gpu_free(buffer->memory);
    } else {
        free(buffer->memory);
    }
    *buffer = (struct buffer){ 0 };
}

void *array_new(size_t bytes)
{
    void *zeros = must_alloc(bytes, 1);
    void *memory;

    if (!suite_gpu_is_entered() || bytes == 0) {
        return zeros;
    }
    memory = suite_gpu_alloc(bytes);
    suite_gpu_write(memory, zeros, bytes, NULL);
    free(zeros);
    return memory;
}

void array_free(void *memory)
{
    if (suite_gpu_owns(memory)) {
        suite_gpu_free(memory);
    } else {
        free(memory);
    }
}

void array_fini(void *variable)
{
    void *memory = NULL;

    memcpy(&memory, variable, sizeof memory);
    array_free(memory);
}
