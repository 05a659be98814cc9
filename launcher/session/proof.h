/*
 * Two sides of a connection show each other that they know a secret, without sending it:
 *
 *   who accepted                            who connected
 *      challenge (fresh)  ------------------>
 *         <-----------------------------------  answer (fresh), proof of who connected
 *      proof of who accepted ---------------->
 *
 * A proof is HMAC-SHA256, keyed with the secret, of a label, challenge, answer and text. Both
 * sides bring 32 fresh random bytes, so what was recorded is of no use later; labels differ
 * by direction and protocol, so a proof sent back, or taken elsewhere, is wrong. Who
 * connected proves first: a stranger who calls gets nothing that he could try secrets on.
 */
#ifndef TUTTI_LAUNCHER_SESSION_PROOF_H
#define TUTTI_LAUNCHER_SESSION_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/session/sha256.h"

enum {
    PROOF_NONCE_BYTES = 32,
    PROOF_BYTES = SHA256_BYTES
};

/** What both sides know of one exchange. */
struct proof_exchange {
    const void *secret; /* borrowed */
    size_t secret_len;
    uint8_t challenge[PROOF_NONCE_BYTES]; /* of who accepted  */
    uint8_t answer[PROOF_NONCE_BYTES]; /* of who connected */
};

/** Fresh random bytes. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status proof_nonce(uint8_t nonce[PROOF_NONCE_BYTES]);

/** A proof, or a key of what follows; `text` is what was said beside the nonces. */
void proof_make(const struct proof_exchange *exchange, const char *label,
        const void *text, size_t len, uint8_t proof[PROOF_BYTES]);
/** True when two proofs are the same; the time tells nothing about how far they are. */
bool proof_is(const void *claimed, size_t len, const uint8_t proof[PROOF_BYTES]);

#endif
