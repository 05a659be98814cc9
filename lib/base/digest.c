/*
 * Digests of memory, at the speed of the first-level cache: Fletcher's two sums (IEEE
 * Transactions on Communications 30(1), 1982) in 16 lanes, whose additions any processor does
 * several at once; then a polynomial over the sums and what does not fill the lanes.
 */
#include "base/digest.h"

#include <string.h>

#define LANES 4
#define VECTORS 4
#define FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd: multiplying by it loses nothing */
#define LANES_FROM 256 /* bytes: below it the lanes are not worth their end */

typedef uint32_t lanes __attribute__((vector_size(LANES * sizeof(uint32_t))));

static inline lanes load(const uint8_t *at)
{
    lanes words;

    memcpy(&words, at, sizeof words);
    return words;
}

/* Both sums of a lane are one number, so that a change of either stays one. */
static inline uint64_t fold(uint64_t result, lanes sums, lanes sums_of_sums)
{
    for (int i = 0; i < LANES; i++) {
        result = result * FACTOR + (sums[i] | (uint64_t)sums_of_sums[i] << 32);
    }
    return result;
}

/* Of whole strides of VECTORS vectors; the sums stay in registers, which arrays would not. */
static uint64_t digest_strides(uint64_t result, const uint8_t *at, size_t strides)
{
    lanes a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    lanes aa = { 0 }, bb = { 0 }, cc = { 0 }, dd = { 0 };

    for (; strides > 0; strides--, at += VECTORS * sizeof(lanes)) {
        a += load(at);
        b += load(at + sizeof(lanes));
        c += load(at + 2 * sizeof(lanes));
        d += load(at + 3 * sizeof(lanes));
        aa += a;
        bb += b;
        cc += c;
        dd += d;
    }
    return fold(fold(result, a, aa), b, bb) * FACTOR + fold(fold(0, c, cc), d, dd);
}

uint64_t digest(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    const size_t stride = VECTORS * sizeof(lanes);
    uint64_t result = bytes;
    uint64_t word;

    if (bytes >= LANES_FROM) {
        result = digest_strides(result, at, bytes / stride);
        at += bytes - bytes % stride;
        bytes %= stride;
    }
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        result = result * FACTOR + word;
    }
    word = 0;
    if (bytes > 0) { /* of nothing there may be no pointer */
        memcpy(&word, at, bytes);
    }
    return result * FACTOR + word;
}
