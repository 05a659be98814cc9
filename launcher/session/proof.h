/*
 * Two sides of a connection prove to each other that they know a secret, without sending it:
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

/*
 * SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104, FIPS 198-1) in plain C; names of one letter are those of
 * the standard. docs/design/launcher.md says
 * why no library is loaded for them.
 */

enum {
    SHA256_BYTES = 32, /* of a digest */
    SHA256_BLOCK = 64 /* bytes that are taken at a time */
};

/** A digest being made. */
struct sha256 {
    uint32_t state[SHA256_BYTES / 4];
    uint8_t block[SHA256_BLOCK]; /* the last len % SHA256_BLOCK bytes */
    uint64_t len; /* bytes so far */
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t len);
void sha256_end(struct sha256 *hash, uint8_t digest[SHA256_BYTES]);

/** A keyed digest being made. */
struct hmac {
    struct sha256 inner, outer;
};

void hmac_init(struct hmac *hmac, const void *key, size_t len);
void hmac_add(struct hmac *hmac, const void *bytes, size_t len);
void hmac_end(struct hmac *hmac, uint8_t digest[SHA256_BYTES]);

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

/** A proof, or a token; `text` is what was said beside the nonces. */
void proof_make(const struct proof_exchange *exchange, const char *label,
        const void *text, size_t len, uint8_t proof[PROOF_BYTES]);
/** True when two proofs are the same; the time tells nothing about how far they are. */
bool proof_is(const void *claimed, size_t len, const uint8_t proof[PROOF_BYTES]);

#endif
