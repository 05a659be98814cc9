/*
 * SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104, FIPS 198-1), for proofs that are some
 * hundred bytes long: plain C, and no library to load for it (docs/design/launcher.md).
 */
#ifndef TUTTI_LAUNCHER_SESSION_SHA256_H
#define TUTTI_LAUNCHER_SESSION_SHA256_H

#include <stddef.h>
#include <stdint.h>

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

#endif
