/*
 * The wire encoding: exact bytes, round trips, and a reader that survives anything.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/wire.h"
#include "test/unit/unit.h"

static const uint64_t unsigned_samples[] = { 0, 1, 127, 128, 255, 16383, 16384,
    UINT32_MAX, UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_MAX };
static const int64_t signed_samples[] = { 0, -1, 1, -64, 64, -65, INT32_MIN, INT32_MAX,
    INT64_MIN, INT64_MAX };

enum {
    UNSIGNED_SAMPLES = sizeof unsigned_samples / sizeof *unsigned_samples,
    SIGNED_SAMPLES = sizeof signed_samples / sizeof *signed_samples
};

static void assert_encoding(
        const struct wire_writer *out, const void *bytes, size_t len)
{
    assert_false(out->failed);
    assert_int_equal(out->len, len);
    assert_memory_equal(out->data, bytes, len);
}

UNIT_TEST(test_fixed_fields_are_little_endian)
{
    static const uint8_t expected[] = { 0x01, 0x05, 0x04, 0x03, 0x02, 0x0d, 0x0c, 0x0b,
        0x0a, 0x09, 0x08, 0x07, 0x06, 0, 0, 0, 0, 0, 0, 0xf8, 0xbf };
    struct wire_writer out = { .data = NULL };

    wire_put_u8(&out, 1);
    wire_put_u32(&out, 0x02030405);
    wire_put_u64(&out, UINT64_C(0x060708090a0b0c0d));
    wire_put_f64(&out, -1.5);

    assert_encoding(&out, expected, sizeof expected);
    wire_writer_fini(&out);
}

UNIT_TEST(test_varints_have_their_golden_bytes)
{
    static const uint8_t expected[] = { 0x00, 0x7f, 0x80, 0x01, 0xac, 0x02, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00, 0x01, 0x02, 0x03 };
    struct wire_writer out = { .data = NULL };

    wire_put_varint(&out, 0);
    wire_put_varint(&out, 127);
    wire_put_varint(&out, 128);
    wire_put_varint(&out, 300);
    wire_put_varint(&out, UINT64_MAX);
    wire_put_svarint(&out, 0);
    wire_put_svarint(&out, -1);
    wire_put_svarint(&out, 1);
    wire_put_svarint(&out, -2);

    assert_encoding(&out, expected, sizeof expected);
    wire_writer_fini(&out);
}

static void put_everything(struct wire_writer *out)
{
    size_t i;

    for (i = 0; i < UNSIGNED_SAMPLES; i++) {
        wire_put_u8(out, (uint8_t)unsigned_samples[i]);
        wire_put_u32(out, (uint32_t)unsigned_samples[i]);
        wire_put_u64(out, unsigned_samples[i]);
        wire_put_varint(out, unsigned_samples[i]);
    }
    for (i = 0; i < SIGNED_SAMPLES; i++) {
        wire_put_svarint(out, signed_samples[i]);
        wire_put_f64(out, (double)signed_samples[i] / 3);
    }
    wire_put_str(out, "layer/weight", 12);
    wire_put_str(out, "", 0);
    wire_put_bytes(out, "tail", 4);
}

UNIT_TEST(test_what_is_put_is_got)
{
    struct wire_writer out = { .data = NULL };
    struct wire_reader in;
    const char *text;
    size_t len, i;

    put_everything(&out);
    wire_reader_init(&in, out.data, out.len);

    for (i = 0; i < UNSIGNED_SAMPLES; i++) {
        assert_int_equal(wire_get_u8(&in), (uint8_t)unsigned_samples[i]);
        assert_int_equal(wire_get_u32(&in), (uint32_t)unsigned_samples[i]);
        assert_true(wire_get_u64(&in) == unsigned_samples[i]);
        assert_true(wire_get_varint(&in) == unsigned_samples[i]);
    }
    for (i = 0; i < SIGNED_SAMPLES; i++) {
        assert_true(wire_get_svarint(&in) == signed_samples[i]);
        assert_true(wire_get_f64(&in) == (double)signed_samples[i] / 3);
    }
    text = wire_get_str(&in, 12, &len);
    assert_int_equal(len, 12);
    assert_memory_equal(text, "layer/weight", 12);
    assert_non_null(wire_get_str(&in, 0, &len));
    assert_int_equal(len, 0);
    assert_memory_equal(wire_get_bytes(&in, 4), "tail", 4);
    assert_true(wire_ok(&in));
    assert_int_equal(wire_left(&in), 0);
    wire_writer_fini(&out);
}

/* Reads the message of put_everything(); true when all of it was there. */
static bool get_everything(const void *data, size_t len)
{
    struct wire_reader in;
    size_t text_len, i;

    wire_reader_init(&in, data, len);
    for (i = 0; i < UNSIGNED_SAMPLES; i++) {
        (void)wire_get_u8(&in);
        (void)wire_get_u32(&in);
        (void)wire_get_u64(&in);
        (void)wire_get_varint(&in);
    }
    for (i = 0; i < SIGNED_SAMPLES; i++) {
        (void)wire_get_svarint(&in);
        (void)wire_get_f64(&in);
    }
    (void)wire_get_str(&in, 12, &text_len);
    (void)wire_get_str(&in, 0, &text_len);
    (void)wire_get_bytes(&in, 4);
    return wire_ok(&in);
}

UNIT_TEST(test_every_truncation_is_an_error)
{
    struct wire_writer out = { .data = NULL };
    size_t len;

    put_everything(&out);

    for (len = 0; len < out.len; len++) {
        /* A block of its own, so that a sanitizer sees one byte too far. */
        uint8_t *cut = malloc(len > 0 ? len : 1);

        assert_non_null(cut);
        memcpy(cut, out.data, len);
        assert_false(get_everything(cut, len));
        free(cut);
    }
    assert_true(get_everything(out.data, out.len));
    wire_writer_fini(&out);
}

static void assert_varint_refused(const uint8_t *bytes, size_t len)
{
    struct wire_reader in;

    wire_reader_init(&in, bytes, len);
    assert_true(wire_get_varint(&in) == 0);
    assert_false(wire_ok(&in));
}

UNIT_TEST(test_overlong_varints_are_refused)
{
    static const uint8_t padded[] = { 0x81, 0x00 };
    static const uint8_t too_big[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0x02 };
    static const uint8_t endless[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
        0x80, 0x80, 0x01 };

    assert_varint_refused(padded, sizeof padded);
    assert_varint_refused(too_big, sizeof too_big);
    assert_varint_refused(endless, sizeof endless);
}

UNIT_TEST(test_the_first_error_is_latched)
{
    static const uint8_t bytes[] = { 3, 'a', 'b', 'c', 9 };
    struct wire_reader in;
    size_t len;

    wire_reader_init(&in, bytes, sizeof bytes);

    assert_null(wire_get_str(&in, 2, &len));
    assert_int_equal(len, 0);
    assert_false(wire_ok(&in));
    assert_int_equal(wire_left(&in), 0);
    assert_int_equal(wire_get_u8(&in), 0);
    assert_null(wire_get_bytes(&in, 0));
    assert_false(wire_ok(&in));
}

UNIT_TEST(test_a_length_beyond_the_message_is_refused)
{
    struct wire_writer out = { .data = NULL };
    struct wire_reader in;
    size_t len;

    wire_put_varint(&out, UINT64_MAX);
    wire_reader_init(&in, out.data, out.len);

    assert_null(wire_get_str(&in, SIZE_MAX, &len));
    assert_false(wire_ok(&in));
    wire_writer_fini(&out);
}
