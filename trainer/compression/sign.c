/*
 * One bit per element: a rank sends the signs and the mean magnitude, with error feedback.
 */
#include <math.h>
#include <string.h>

#include "compression/compressed.h"

enum {
    WORD_BITS = 32
};

/** The state of a parameter. A message is the scale, then the signs, of which 1 is minus. */
struct sign {
    struct compressed common;
    int64_t length; /* words of a message */
    union compressed_word *sent;
    union compressed_word *received; /* those of all ranks */
};

static void prepare(void *state, const tutti_compressor_info *info)
{
    struct sign *sign = state;
    int64_t bytes;

    sign->length = 1 + (info->count + WORD_BITS - 1) / WORD_BITS;
    bytes = sign->length * (int64_t)sizeof *sign->sent;
    sign->sent = compressed_alloc(&sign->common, bytes);
    sign->received = compressed_alloc(&sign->common, info->ranks * bytes);
}

/** out[i] += scale, with the sign of element i of a block. */
static void add_signs(
        const union compressed_word *words, float scale, int64_t n, float *out)
{
    union compressed_word value = { .value = scale };
    uint32_t bits = value.bits;

    for (int64_t i = 0; i < n; i++) {
        uint32_t minus = words[i / WORD_BITS].bits >> (i % WORD_BITS) & 1;

        value.bits = bits ^ minus << 31;
        out[i] += value.value;
    }
}

/** The signs of a block; -0 is minus, which does not matter. */
static void take_signs(const float *values, int64_t n, union compressed_word *words)
{
    for (int64_t w = 0; w * WORD_BITS < n; w++) {
        int64_t end = compressed_min(WORD_BITS, n - w * WORD_BITS);
        uint32_t bits = 0;

        for (int64_t i = 0; i < end; i++) {
            union compressed_word value = { .value = values[w * WORD_BITS + i] };

            bits |= value.bits >> 31 << i;
        }
        words[w].bits = bits;
    }
}

static void encode(struct sign *sign, const float *gradient)
{
    const struct compressed *c = &sign->common;
    float sum[COMPRESSED_BLOCK];
    double magnitudes = 0.0;

    for (int64_t first = 0; first < c->count; first += COMPRESSED_BLOCK) {
        int64_t n = compressed_min(COMPRESSED_BLOCK, c->count - first);

        compressed_add(c, gradient, first, n, sum);
        take_signs(sum, n, sign->sent + 1 + first / WORD_BITS);
        for (int64_t i = 0; i < n; i++) {
            magnitudes += fabs((double)sum[i]);
        }
    }
    sign->sent[0].value = (float)(magnitudes / (double)c->count);
}

static void sign_sent(
        void *state, int64_t first, int64_t n, const float *sum, float *out)
{
    const struct sign *sign = state;

    (void)sum;
    memset(out, 0, (size_t)n * sizeof *out);
    add_signs(sign->sent + 1 + first / WORD_BITS, sign->sent[0].value, n, out);
}

static void decode(struct sign *sign, float *gradient, tutti_exchange *next)
{
    struct compressed *c = &sign->common;
    float share = 1.0F / (float)c->ranks;
    bool finite = true;

    for (int r = 0; r < c->ranks; r++) {
        finite = finite && isfinite(sign->received[r * sign->length].value);
    }
    compressed_settle(c, gradient, finite, next);
    for (int64_t first = 0; first < c->count; first += COMPRESSED_BLOCK) {
        int64_t n = compressed_min(COMPRESSED_BLOCK, c->count - first);

        memset(gradient + first, 0, (size_t)n * sizeof *gradient);
        for (int r = 0; r < c->ranks; r++) {
            const union compressed_word *message = sign->received + r * sign->length;

            add_signs(message + 1 + first / WORD_BITS, message[0].value * share, n,
                    gradient + first);
        }
    }
}

static tutti_status sign_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct sign *sign = state;

    if (stage == 0) {
        encode(sign, gradient);
        return compressed_ask(next, TUTTI_ALLGATHER, sign->sent, sign->received,
                sign->length, TUTTI_UINT32);
    }
    decode(sign, gradient, next);
    return TUTTI_OK;
}

static tutti_status sign_open(const tutti_compressor_info *info, void **state)
{
    static const struct codec codec = { .bytes = sizeof(struct sign),
        .prepare = prepare,
        .stage = sign_stage,
        .sent = sign_sent };

    return compressed_open(info, &codec, state);
}

const tutti_compressor *tutti_compress_sign(void)
{
    static const tutti_compressor compressor = COMPRESSED_HOOK("sign", sign_open);

    return &compressor;
}
