/*
 * Encoding and decoding of messages, byte by byte, so that the bytes are the same on
 * every machine.
 *
 * A varint is LEB128: seven bits per byte, least significant first, the top bit set on
 * all bytes but the last. The reader takes only the shortest form, so that every value
 * has exactly one encoding.
 */
#include "base/wire.h"

#include <string.h>

#include "base/mem.h"

enum {
    WRITER_CAPACITY_MIN = 256,
    VARINT_BITS = 7,
    VARINT_MORE = 0x80,
    VARINT_MASK = 0x7f,
    VARINT_SHIFT_MAX = 63
};

void wire_writer_fini(struct wire_writer *out)
{
    mem_free(out->data);
    *out = (struct wire_writer){ .data = NULL };
}

void wire_writer_reset(struct wire_writer *out)
{
    out->len = 0;
    out->failed = false;
}

bool wire_writer_reserve(struct wire_writer *out, size_t bytes)
{
    size_t needed, capacity;
    uint8_t *data;

    if (out->failed) {
        return false;
    }
    if (bytes <= out->capacity - out->len) {
        return true;
    }
    if (__builtin_add_overflow(out->len, bytes, &needed)) {
        out->failed = true;
        return false;
    }
    capacity = size_max(out->capacity, WRITER_CAPACITY_MIN);
    while (capacity < needed) {
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    }
    data = mem_resize(out->data, capacity, 1);
    if (data == NULL) {
        out->failed = true;
        return false;
    }
    out->data = data;
    out->capacity = capacity;
    return true;
}

/* `bytes` low bytes of value, least significant first. */
static void wire_put_fixed(struct wire_writer *out, uint64_t value, size_t bytes)
{
    size_t i;

    if (!wire_writer_reserve(out, bytes)) {
        return;
    }
    for (i = 0; i < bytes; i++) {
        out->data[out->len + i] = (uint8_t)(value >> (8 * i));
    }
    out->len += bytes;
}

void wire_put_u8(struct wire_writer *out, uint8_t value)
{
    wire_put_fixed(out, value, sizeof value);
}

void wire_put_u32(struct wire_writer *out, uint32_t value)
{
    wire_put_fixed(out, value, sizeof value);
}

void wire_put_u64(struct wire_writer *out, uint64_t value)
{
    wire_put_fixed(out, value, sizeof value);
}

void wire_put_varint(struct wire_writer *out, uint64_t value)
{
    uint8_t bytes[VARINT_SHIFT_MAX / VARINT_BITS + 1];
    size_t len = 0;

    while (value > VARINT_MASK) {
        bytes[len++] = (uint8_t)((value & VARINT_MASK) | VARINT_MORE);
        value >>= VARINT_BITS;
    }
    bytes[len++] = (uint8_t)value;
    wire_put_bytes(out, bytes, len);
}

void wire_put_svarint(struct wire_writer *out, int64_t value)
{
    /* 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
    uint64_t twice = (uint64_t)value << 1;

    wire_put_varint(out, value < 0 ? ~twice : twice);
}

void wire_put_f64(struct wire_writer *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    wire_put_u64(out, bits);
}

void wire_put_bytes(struct wire_writer *out, const void *bytes, size_t len)
{
    if (len == 0 || !wire_writer_reserve(out, len)) {
        return;
    }
    memcpy(out->data + out->len, bytes, len);
    out->len += len;
}

void wire_put_str(struct wire_writer *out, const char *text, size_t len)
{
    wire_put_varint(out, len);
    wire_put_bytes(out, text, len);
}

void wire_reader_init(struct wire_reader *in, const void *data, size_t len)
{
    static const uint8_t nothing = 0;

    /* Never NULL, so that a string of no bytes has an address too. */
    *in = (struct wire_reader){ .data = data != NULL ? data : &nothing,
        .len = data != NULL ? len : 0 };
}

const uint8_t *wire_get_bytes(struct wire_reader *in, size_t len)
{
    const uint8_t *bytes;

    if (in->failed || len > in->len - in->pos) {
        in->failed = true;
        return NULL;
    }
    bytes = in->data + in->pos;
    in->pos += len;
    return bytes;
}

static uint64_t wire_get_fixed(struct wire_reader *in, size_t bytes)
{
    const uint8_t *data = wire_get_bytes(in, bytes);
    uint64_t value = 0;
    size_t i;

    if (data == NULL) {
        return 0;
    }
    for (i = 0; i < bytes; i++) {
        value |= (uint64_t)data[i] << (8 * i);
    }
    return value;
}

uint8_t wire_get_u8(struct wire_reader *in)
{
    return (uint8_t)wire_get_fixed(in, sizeof(uint8_t));
}

uint32_t wire_get_u32(struct wire_reader *in)
{
    return (uint32_t)wire_get_fixed(in, sizeof(uint32_t));
}

uint64_t wire_get_u64(struct wire_reader *in)
{
    return wire_get_fixed(in, sizeof(uint64_t));
}

uint64_t wire_get_varint(struct wire_reader *in)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;

    for (;;) {
        byte = wire_get_u8(in);
        value |= (uint64_t)(byte & VARINT_MASK) << shift;
        if ((byte & VARINT_MORE) == 0 || shift == VARINT_SHIFT_MAX) {
            break;
        }
        shift += VARINT_BITS;
    }
    /* The tenth byte has one bit of room; a last byte of 0 says nothing. */
    if ((shift == VARINT_SHIFT_MAX && byte > 1) || (shift > 0 && byte == 0)) {
        in->failed = true;
    }
    return in->failed ? 0 : value;
}

int64_t wire_get_svarint(struct wire_reader *in)
{
    uint64_t coded = wire_get_varint(in);
    uint64_t value = (coded & 1) != 0 ? ~(coded >> 1) : coded >> 1;
    int64_t result;

    memcpy(&result, &value, sizeof result);
    return result;
}

double wire_get_f64(struct wire_reader *in)
{
    uint64_t bits = wire_get_u64(in);
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

const char *wire_get_str(struct wire_reader *in, size_t max, size_t *len)
{
    uint64_t bytes = wire_get_varint(in);
    const uint8_t *text;

    *len = 0;
    if (bytes > max) {
        in->failed = true;
        return NULL;
    }
    text = wire_get_bytes(in, (size_t)bytes);
    if (text != NULL) {
        *len = (size_t)bytes;
    }
    return (const char *)text;
}

void wire_get_text(struct wire_reader *in, char *text, size_t capacity)
{
    size_t len;
    const char *bytes = wire_get_str(in, capacity - 1, &len);

    if (bytes != NULL) {
        memcpy(text, bytes, len);
    }
    text[len] = '\0';
}
