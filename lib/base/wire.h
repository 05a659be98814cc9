/*
 * Encoding of messages: little-endian fields, LEB128 variable-length integers, and
 * strings with a length. The writer grows its buffer and latches the first failure;
 * the reader checks every bound and latches the first error, so callers check once.
 */
#ifndef TUTTI_BASE_WIRE_H
#define TUTTI_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"

/** A growing message. Zeroed is valid and empty. */
struct wire_writer {
    uint8_t *data; /* owned; mem_free() */
    size_t len; /* bytes written */
    size_t capacity; /* bytes allocated */
    bool failed; /* out of memory: what follows is dropped */
};

void wire_writer_fini(struct wire_writer *out) TUTTI_SHARED(wire_writer_fini);
/** Empties it and keeps the memory. */
void wire_writer_reset(struct wire_writer *out);
/** Makes room for `bytes` more; false (latched) when out of memory. */
bool wire_writer_reserve(struct wire_writer *out, size_t bytes)
        TUTTI_SHARED(wire_writer_reserve);

void wire_put_u8(struct wire_writer *out, uint8_t value);
void wire_put_u32(struct wire_writer *out, uint32_t value) TUTTI_SHARED(wire_put_u32);
void wire_put_u64(struct wire_writer *out, uint64_t value) TUTTI_SHARED(wire_put_u64);
/** 1 to 10 bytes. */
void wire_put_varint(struct wire_writer *out, uint64_t value);
/** Zigzag, so that small negative numbers are short. */
void wire_put_svarint(struct wire_writer *out, int64_t value);
/** The 8 bytes of an IEEE double. */
void wire_put_f64(struct wire_writer *out, double value);
/** Bytes without a length. */
void wire_put_bytes(struct wire_writer *out, const void *bytes, size_t len)
        TUTTI_SHARED(wire_put_bytes);
/** A varint length and the bytes. */
void wire_put_str(struct wire_writer *out, const char *text, size_t len);

/** A message being read; the bytes are borrowed. */
struct wire_reader {
    const uint8_t *data; /* borrowed */
    size_t len; /* bytes in data */
    size_t pos; /* next byte */
    bool failed; /* something did not fit: all later reads give 0 */
};

void wire_reader_init(struct wire_reader *in, const void *data, size_t len)
        TUTTI_SHARED(wire_reader_init);
/** True when every read so far was in bounds. */
static inline bool wire_ok(const struct wire_reader *in)
{
    return !in->failed;
}
/** Bytes not yet read; 0 after a failure. */
static inline size_t wire_left(const struct wire_reader *in)
{
    return in->failed ? 0 : in->len - in->pos;
}
uint8_t wire_get_u8(struct wire_reader *in);
uint32_t wire_get_u32(struct wire_reader *in) TUTTI_SHARED(wire_get_u32);
uint64_t wire_get_u64(struct wire_reader *in) TUTTI_SHARED(wire_get_u64);
uint64_t wire_get_varint(struct wire_reader *in);
int64_t wire_get_svarint(struct wire_reader *in);
double wire_get_f64(struct wire_reader *in);
/** `len` bytes inside the message, or NULL (latched). */
const uint8_t *wire_get_bytes(struct wire_reader *in, size_t len)
        TUTTI_SHARED(wire_get_bytes);
/** A string inside the message, not terminated; fails when longer than max. */
const char *wire_get_str(struct wire_reader *in, size_t max, size_t *len);
/** A string, copied and terminated; fails when it does not fit, and text is "" then. */
void wire_get_text(struct wire_reader *in, char *text, size_t capacity);

#endif
