/*
 * Memory with guard bands: whoever writes beside it is seen. Half of it is the library's,
 * and of the other half some is shared, as a whole or from or to anywhere within, so that
 * ranks come with every mixture of memory that peers can address and memory that they
 * cannot.
 */
#ifndef TUTTI_TEST_SUITE_BUFFER_H
#define TUTTI_TEST_SUITE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

struct buffer {
    void *data; /* what the test uses, filled with rubbish  */
    size_t bytes; /* of data                                  */
    unsigned char *memory; /* data and its guards; owned               */
    size_t guard; /* bytes of each guard                      */
    tutti *lender; /* it is of tutti_alloc() of this one; NULL: of the heap */
    tutti *sharer; /* some of it is shared by tutti_share() with this one; or NULL */
    void *shared; /* where that begins */
    bool on_device; /* device memory; no lender: of cuMemAlloc() */
};

/**
 * From now on every second buffer of this thread is memory of t; NULL: none is. In a run
 * with GPUs (gpu.h) all are device memory, and the thread enters the device of t.
 */
void buffer_mix(tutti *t);
/** Ends the program without memory: a test that cannot be made proves nothing. */
void buffer_init(struct buffer *buffer, size_t bytes);
/** The same in host memory, whatever the run. */
void buffer_init_on_host(struct buffer *buffer, size_t bytes);
/** Writes data, at an offset; into device memory on a stream, if that is not NULL. */
void buffer_put(const struct buffer *buffer, size_t offset, const void *from,
        size_t bytes, void *stream);
/** True when nothing was written beside the data. Counts as reading all of it. */
bool buffer_is_intact(const struct buffer *buffer);
void buffer_fini(struct buffer *buffer);

/**
 * Zeroed memory without guards, of the device that the thread has entered or of the heap.
 * The simulator does not see how the host uses it, but freeing it counts as writing: an
 * operation whose end the host has not waited for is a race.
 */
void *array_new(size_t bytes);
void array_free(void *memory);
/** Of a variable: for BUFFER_ARRAY. */
void array_fini(void *variable);

/** An array of the block, in such memory: `type *name`. */
#define BUFFER_ARRAY(type, name, count) \
    type *name __attribute__((cleanup(array_fini))) = \
            array_new((size_t)(count) * sizeof(type))

#endif
