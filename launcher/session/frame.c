/*
 * Frames of a session.
 */
#include "launcher/session/frame.h"

#include "base/error.h"

size_t frame_begin(struct wire_writer *out, uint8_t type)
{
    size_t start = out->len;

    wire_put_u32(out, 0);
    wire_put_u8(out, type);
    return start;
}

/* Of the number-th frame in one direction. */
static void make_seal(const uint8_t key[PROOF_BYTES], uint64_t number,
        const uint8_t *bytes, size_t len, uint8_t seal[PROOF_BYTES])
{
    struct hmac hmac;
    uint8_t count[sizeof number];

    for (size_t i = 0; i < sizeof count; i++) {
        count[i] = (uint8_t)(number >> (8 * i));
    }
    hmac_init(&hmac, key, PROOF_BYTES);
    hmac_add(&hmac, count, sizeof count);
    hmac_add(&hmac, bytes, len);
    hmac_end(&hmac, seal);
}

void frame_end(struct wire_writer *out, size_t start, struct frame_seal *seal)
{
    uint8_t bytes[PROOF_BYTES];
    size_t len;

    if (out->failed) {
        return;
    }
    if (seal != NULL && seal->is_on) {
        make_seal(seal->out_key, seal->sent++, out->data + start + FRAME_LENGTH_BYTES,
                out->len - start - FRAME_LENGTH_BYTES, bytes);
        wire_put_bytes(out, bytes, sizeof bytes);
    }
    len = out->len - start - FRAME_LENGTH_BYTES;
    for (size_t i = 0; i < FRAME_LENGTH_BYTES; i++) {
        out->data[start + i] = (uint8_t)(len >> (8 * i));
    }
}

/* True when what follows the `len` bytes is the seal of the next frame. */
static bool is_sealed(struct frame_seal *seal, const uint8_t *bytes, size_t len)
{
    uint8_t expected[PROOF_BYTES];

    make_seal(seal->in_key, seal->received++, bytes, len, expected);
    return proof_is(bytes + len, PROOF_BYTES, expected);
}

tutti_status frame_take(const uint8_t *bytes, size_t len, struct frame_seal *seal,
        struct frame *frame, size_t *used)
{
    const size_t seal_len = seal != NULL && seal->is_on ? PROOF_BYTES : 0;
    struct wire_reader in;
    uint32_t body;

    *used = 0;
    if (len < FRAME_LENGTH_BYTES) {
        return TUTTI_OK;
    }
    wire_reader_init(&in, bytes, len);
    body = wire_get_u32(&in);
    if (body < 1 + seal_len || body > FRAME_MAX + seal_len) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "a message of %u bytes over the link; it has %zu to %zu", body,
                1 + seal_len, FRAME_MAX + seal_len);
    }
    if (len - FRAME_LENGTH_BYTES < body) {
        return TUTTI_OK;
    }
    bytes += FRAME_LENGTH_BYTES;
    if (seal_len > 0 && !is_sealed(seal, bytes, body - seal_len)) {
        return error_set(TUTTI_ERR_PROTOCOL, "a message with a wrong seal");
    }
    *frame = (struct frame){
        .type = bytes[0], .body = bytes + 1, .len = body - seal_len - 1
    };
    *used = FRAME_LENGTH_BYTES + body;
    return TUTTI_OK;
}
