/*
 * A proof is right for one secret, one direction, one exchange and one text.
 */
#include <string.h>

#include "launcher/session/proof.h"
#include "test/unit/unit.h"

#define OURS "who connected"
#define THEIRS "who accepted"

/* True when the proof of `other` passes for that of the exchange all tests have. */
static bool passes(
        const struct proof_exchange *other, const char *label, const char *text)
{
    static const struct proof_exchange exchange = {
        .secret = "a secret", .secret_len = 8, .challenge = { 1, 2 }, .answer = { 3 }
    };
    uint8_t expected[PROOF_BYTES];
    uint8_t proof[PROOF_BYTES];

    proof_make(&exchange, OURS, "text", 4, expected);
    proof_make(other, label, text, strlen(text), proof);
    return proof_is(proof, sizeof proof, expected);
}

UNIT_TEST(test_only_the_same_exchange_passes)
{
    const struct proof_exchange same = {
        .secret = "a secret", .secret_len = 8, .challenge = { 1, 2 }, .answer = { 3 }
    };
    struct proof_exchange other = same;

    assert_true(passes(&same, OURS, "text"));
    assert_false(passes(&same, THEIRS, "text")); /* reflected */
    assert_false(passes(&same, OURS, "tex"));
    other.secret_len = 7;
    assert_false(passes(&other, OURS, "text"));
    other = same;
    other.secret = "b secret";
    assert_false(passes(&other, OURS, "text"));
    other = same;
    other.challenge[31] = 1; /* replayed */
    assert_false(passes(&other, OURS, "text"));
    other = (struct proof_exchange){
        .secret = "a secret", .secret_len = 8, .challenge = { 3 }, .answer = { 1, 2 }
    };
    assert_false(passes(&other, OURS, "text"));
}

UNIT_TEST(test_proofs_are_compared_whole)
{
    uint8_t proof[PROOF_BYTES] = { 1 };
    uint8_t other[PROOF_BYTES];

    assert_true(proof_is(proof, sizeof proof, proof));
    assert_false(proof_is(proof, sizeof proof - 1, proof));
    assert_false(proof_is(proof, 0, proof));
    for (size_t i = 0; i < sizeof other; i++) {
        memcpy(other, proof, sizeof other);
        other[i] ^= 0x80;
        assert_false(proof_is(other, sizeof other, proof));
    }
}

UNIT_TEST(test_nonces_are_fresh)
{
    uint8_t first[PROOF_NONCE_BYTES] = { 0 };
    uint8_t second[PROOF_NONCE_BYTES] = { 0 };

    assert_int_equal(proof_nonce(first), TUTTI_OK);
    assert_int_equal(proof_nonce(second), TUTTI_OK);
    assert_memory_not_equal(first, second, sizeof first);
}
