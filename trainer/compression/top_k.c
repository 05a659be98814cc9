/*
 * Top-k: each rank sends its k largest elements, by magnitude, with their indices; the mean is
 * over all ranks, where the others count as zero. Error feedback.
 */
#include <math.h>
#include <string.h>

#include "compression/compressed.h"
#include "error.h"

enum {
    DIGIT_BITS = 11, /* of a magnitude, for each pass */
    DIGITS = 1 << DIGIT_BITS
};

/** The state of a parameter. A message is k indices, ascending, then k values. */
struct top_k {
    struct compressed common;
    int64_t k; /* elements that each rank sends */
    union compressed_word *sent;
    union compressed_word *received; /* those of all ranks */
    int64_t at; /* of top_k_sent(), in the message */
};

/** Which magnitudes are sent: all above `bits`, and the first `ties` that equal it. */
struct threshold {
    uint32_t bits; /* of a float without its sign; these are ordered as the numbers are,
                      with infinity and NaN as the largest */
    int64_t ties;
};

static uint32_t magnitude(float value)
{
    return (union compressed_word){ .value = value }.bits & 0x7fffffff;
}

static void prepare(void *state, const tutti_compressor_info *info)
{
    struct top_k *top = state;
    struct compressed *c = &top->common;
    int64_t bytes;

    top->k = (int64_t)ceil(c->settings.ratio * (double)info->count);
    c->plain = c->plain || 2 * top->k >= info->count;
    if (!c->plain && info->count > UINT32_MAX) {
        c->status = error_set(TUTTI_ERR_UNSUPPORTED,
                "parameter %s has %lld elements: top-k has 32-bit indices; split it, "
                "or choose another compressor",
                info->name, (long long)info->count);
    }
    bytes = 2 * top->k * (int64_t)sizeof *top->sent;
    top->sent = compressed_alloc(c, bytes);
    top->received = compressed_alloc(c, info->ranks * bytes);
}

/** Counts the digits at `shift` of magnitudes whose higher bits are those of prefix. */
/* NOLINTNEXTLINE(readability-function-size): elements within blocks */
static void count_digits(const struct compressed *c, const float *gradient,
        uint64_t prefix, int shift, int64_t *counts)
{
    float sum[COMPRESSED_BLOCK];

    memset(counts, 0, DIGITS * sizeof *counts);
    for (int64_t first = 0; first < c->count; first += COMPRESSED_BLOCK) {
        int64_t n = compressed_min(COMPRESSED_BLOCK, c->count - first);

        compressed_add(c, gradient, first, n, sum);
        for (int64_t i = 0; i < n; i++) {
            uint64_t bits = magnitude(sum[i]);

            if (bits >> (shift + DIGIT_BITS) == prefix >> (shift + DIGIT_BITS)) {
                counts[bits >> shift & (DIGITS - 1)]++;
            }
        }
    }
}

/** Finds the k-th largest magnitude, digit by digit from the top. */
static struct threshold find_threshold(const struct top_k *top, const float *gradient)
{
    struct threshold threshold = { .ties = top->k };
    int64_t counts[DIGITS];

    for (int shift = 2 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        uint32_t digit = DIGITS - 1;

        count_digits(&top->common, gradient, threshold.bits, shift, counts);
        while (threshold.ties > counts[digit]) {
            threshold.ties -= counts[digit];
            digit--;
        }
        threshold.bits |= digit << shift;
    }
    return threshold;
}

/* NOLINTNEXTLINE(readability-function-size): elements within blocks */
static void encode(struct top_k *top, const float *gradient)
{
    const struct compressed *c = &top->common;
    struct threshold threshold = find_threshold(top, gradient);
    float sum[COMPRESSED_BLOCK];
    int64_t at = 0;

    for (int64_t first = 0; first < c->count; first += COMPRESSED_BLOCK) {
        int64_t n = compressed_min(COMPRESSED_BLOCK, c->count - first);

        compressed_add(c, gradient, first, n, sum);
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits = magnitude(sum[i]);
            bool tie = bits == threshold.bits && threshold.ties > 0;

            if (bits > threshold.bits || tie) {
                threshold.ties -= tie ? 1 : 0;
                top->sent[at].bits = (uint32_t)(first + i);
                top->sent[top->k + at].value = sum[i];
                at++;
            }
        }
    }
    top->at = 0;
}

static void top_k_sent(
        void *state, int64_t first, int64_t n, const float *sum, float *out)
{
    struct top_k *top = state;

    (void)sum;
    memset(out, 0, (size_t)n * sizeof *out);
    for (; top->at < top->k && top->sent[top->at].bits < first + n; top->at++) {
        out[top->sent[top->at].bits - first] = top->sent[top->k + top->at].value;
    }
}

static void decode(struct top_k *top, float *gradient, tutti_exchange *next)
{
    struct compressed *c = &top->common;
    float share = 1.0F / (float)c->ranks;
    bool finite = true;

    for (int r = 0; r < c->ranks; r++) {
        const union compressed_word *values = top->received + top->k * (2 * r + 1);

        finite = finite && isfinite(elements_squares(TUTTI_FLOAT32, values, top->k));
    }
    compressed_settle(c, gradient, finite, next);
    memset(gradient, 0, (size_t)c->count * sizeof *gradient);
    for (int r = 0; r < c->ranks; r++) {
        const union compressed_word *indices = top->received + 2 * top->k * r;

        for (int64_t i = 0; i < top->k; i++) {
            gradient[indices[i].bits] += indices[top->k + i].value * share;
        }
    }
}

static tutti_status top_k_stage(
        void *state, int stage, float *gradient, tutti_exchange *next)
{
    struct top_k *top = state;

    if (stage == 0) {
        encode(top, gradient);
        return compressed_ask(next, TUTTI_ALLGATHER, top->sent, top->received,
                2 * top->k, TUTTI_UINT32);
    }
    decode(top, gradient, next);
    return TUTTI_OK;
}

static tutti_status top_k_open(const tutti_compressor_info *info, void **state)
{
    static const struct codec codec = { .bytes = sizeof(struct top_k),
        .prepare = prepare,
        .stage = top_k_stage,
        .sent = top_k_sent };

    return compressed_open(info, &codec, state);
}

const tutti_compressor *tutti_compress_top_k(void)
{
    static const tutti_compressor compressor = COMPRESSED_HOOK("top-k", top_k_open);

    return &compressor;
}
