/*
 * Memory with guard bands: whoever writes beside it is seen. Half of it is the library's,
 * so that ranks come with every mixture of memory that peers can address and memory that
 * they cannot.
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
    tutti *lender; /* it is of tutti_alloc() of this one; NULL: of the heap */
};

/** From now on every second buffer of this thread is memory of t; NULL: none is. */
void buffer_mix(tutti *t);
/** Ends the program without memory: a test that cannot be made proves nothing. */
void buffer_init(struct buffer *buffer, size_t bytes);
/** True when nothing was written beside the data. */
bool buffer_is_intact(const struct buffer *buffer);
void buffer_fini(struct buffer *buffer);

/** Zeroed memory; ends the program when there is none. */
void *must_alloc(size_t count, size_t size);

#endif
