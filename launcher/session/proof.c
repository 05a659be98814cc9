/*
 * Proofs that a secret is known.
 */
#include "launcher/session/proof.h"

#include <string.h>
#include <sys/random.h>

#include "base/error.h"

tutti_status proof_nonce(uint8_t nonce[PROOF_NONCE_BYTES])
{
    return getrandom(nonce, PROOF_NONCE_BYTES, 0) == PROOF_NONCE_BYTES
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "random bytes");
}

void proof_make(const struct proof_exchange *exchange, const char *label,
        const void *text, size_t len, uint8_t proof[PROOF_BYTES])
{
    struct hmac hmac;

    hmac_init(&hmac, exchange->secret, exchange->secret_len);
    /* With the zero of the label: no label and nonces read as others. */
    hmac_add(&hmac, label, strlen(label) + 1);
    hmac_add(&hmac, exchange->challenge, sizeof exchange->challenge);
    hmac_add(&hmac, exchange->answer, sizeof exchange->answer);
    hmac_add(&hmac, text, len);
    hmac_end(&hmac, proof);
}

bool proof_is(const void *claimed, size_t len, const uint8_t proof[PROOF_BYTES])
{
    const uint8_t *bytes = claimed;
    unsigned difference = 0;

    if (len != PROOF_BYTES) {
        return false;
    }
    for (size_t i = 0; i < PROOF_BYTES; i++) {
        difference |= (unsigned)bytes[i] ^ proof[i];
    }
    return difference == 0;
}
