/*
 * What all compressors have in common: settings, memory, the residual, and parameters that are
 * left uncompressed. A compressor is a struct codec, whose state begins with a
 * struct compressed.
 */
#ifndef TUTTI_TRAINER_COMPRESSED_H
#define TUTTI_TRAINER_COMPRESSED_H

#include <tutti/trainer/compression.h>

#include "reducer/elements.h"

enum {
    COMPRESSED_TENSORS = 2, /* a state has at most so many */
    COMPRESSED_BUFFERS = 4, /* and so many of these */
    COMPRESSED_TEXT_BYTES = 100,
    COMPRESSED_BLOCK = 1024 /* elements that are worked on at a time, on the stack */
};

/** A compressor's own part; without a stage() all parameters are plain. */
struct codec {
    size_t bytes; /* of its state */
    tutti_dtype dtype; /* of what fp16 and bf16 exchange */
    /** Allocates, and may change `plain`; an error is noted in `status`. */
    void (*prepare)(void *state, const tutti_compressor_info *info);
    /** As that of tutti_compressor; not called for a plain parameter. */
    tutti_status (*stage)(
            void *state, int stage, float *gradient, tutti_exchange *next);
    /** What this rank sent of n elements from `first` on, whose sum with the residual was
        `sum`. Called from the first to the last element. */
    void (*sent)(void *state, int64_t first, int64_t n, const float *sum, float *out);
};

/** The state of one parameter; the first member of every compressor's own. */
struct compressed {
    const struct codec *codec;
    tutti *t; /* borrowed */
    const char *name; /* of the parameter; borrowed */
    int64_t count; /* elements */
    int ranks;
    int rank;
    tutti_compression_settings settings;
    bool keeps; /* tensors lie in front of what they were before the step */
    bool plain; /* averaged as it is, or not at all with one rank */
    tutti_status status; /* of prepare() */
    float *residual; /* [count], what was left out; NULL without feedback */
    void *buffers[COMPRESSED_BUFFERS]; /* of tutti_alloc(); owned */
    int buffer_count;
    tutti_state_tensor tensors[COMPRESSED_TENSORS]; /* data and name are owned */
    int64_t dims[COMPRESSED_TENSORS][2]; /* theirs */
    size_t tensor_count;
};

/** A 32-bit element of a message that has numbers and bits. */
union compressed_word {
    float value;
    uint32_t bits;
};

/** The hook of a compressor but for its open(), which calls compressed_open(). */
#define COMPRESSED_HOOK(title, opener) \
    { \
        .size = sizeof(tutti_compressor), .name = (title), .open = (opener), \
        .stage = compressed_stage, .close = compressed_close, \
        .tensors = compressed_tensors, .undo = compressed_undo \
    }

/** Makes the state: reads the settings, prepares, and makes the residual. */
tutti_status compressed_open(
        const tutti_compressor_info *info, const struct codec *codec, void **state);
tutti_status compressed_stage(
        void *state, int stage, float *gradient, tutti_exchange *next);
void compressed_close(void *state);
void compressed_undo(void *state);
size_t compressed_tensors(void *state, tutti_state_tensor *tensors, size_t n);

/**
 * For prepare(): memory of tutti_alloc(), freed with the state. NULL for a plain parameter, and
 * after an error, which compressed_open() returns.
 */
void *compressed_alloc(struct compressed *c, int64_t bytes);

/**
 * The same, zeroed, and to be saved as PARAMETER.suffix: a tensor of two dimensions, of which
 * this rank has `count` elements from `first` on.
 */
float *compressed_tensor(struct compressed *c, const char *suffix,
        const int64_t dims[2], int64_t first, int64_t count);

/** Asks for a collective on contiguous elements, an average if it reduces: TUTTI_AGAIN. */
tutti_status compressed_ask(tutti_exchange *next, tutti_collective collective,
        const void *input, void *output, int64_t count, tutti_dtype dtype);

/** out[i] = gradient[first + i] + residual[first + i] for n elements. */
void compressed_add(const struct compressed *c, const float *gradient, int64_t first,
        int64_t n, float *out);

/**
 * The last look at a gradient, before it is overwritten: reports what this rank left out, and
 * keeps it if what came from all ranks is finite.
 */
void compressed_settle(
        struct compressed *c, const float *gradient, bool finite, tutti_exchange *next);

/** Writes the settings: " (ratio 0.01, ...)". */
void compressed_describe(const void *state, char text[COMPRESSED_TEXT_BYTES]);

/** The lesser of two numbers. */
static inline int64_t compressed_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
