/*
 * Digests: any changed word is seen, wherever it lies, and so are words that change places.
 */
#include <string.h>

#include "base/digest.h"
#include "test/unit/unit.h"

enum {
    BYTES = 600, /* vectors, words and bytes behind them */
    OFFSETS = 8
};

static uint8_t memory[BYTES + OFFSETS];

static void fill(uint8_t *at)
{
    for (int i = 0; i < BYTES; i++) {
        at[i] = (uint8_t)(i * 167 >> 3);
    }
}

UNIT_TEST(each_bit_counts)
{
    fill(memory);
    for (size_t bytes = 1; bytes <= BYTES; bytes += bytes < 70 ? 1 : 53) {
        const uint64_t right = digest(memory, bytes);

        for (size_t bit = 0; bit < bytes * 8; bit++) {
            memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_not_equal(digest(memory, bytes), right);
            memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

UNIT_TEST(places_and_lengths_count)
{
    const uint32_t word = 0x01020304;
    const uint32_t empty[BYTES / 4] = { 0 };
    uint32_t words[BYTES / 4];
    uint64_t last = 0;

    for (size_t i = 0; i < BYTES / 4; i++) {
        memset(words, 0, sizeof words);
        words[i] = word;
        assert_int_not_equal(digest(words, sizeof words), last);
        last = digest(words, sizeof words);
        assert_int_not_equal(digest(empty, i * 4), digest(empty, i * 4 + 1));
    }
}

UNIT_TEST(alignment_does_not_count)
{
    fill(memory);
    for (size_t offset = 1; offset < OFFSETS; offset++) {
        const uint64_t right = digest(memory, BYTES);

        fill(memory + offset);
        assert_int_equal(digest(memory + offset, BYTES), right);
        fill(memory);
    }
}
