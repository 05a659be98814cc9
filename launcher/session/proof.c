#include "launcher/session/proof.h"

#include <string.h>
#include <sys/random.h>

#include "base/error.h"

enum {
    ROUNDS = 64,
    LENGTH_BYTES = 8, /* of the length in bits at the end */
    INNER_PAD = 0x36,
    OUTER_PAD = 0x5c
};

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf,
    0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1,
    0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351,
    0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb,
    0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
    0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814,
    0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };

static uint32_t rotate(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static uint32_t read_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
            (uint32_t)bytes[2] << 8 | bytes[3];
}

static void expand(const uint8_t block[SHA256_BLOCK], uint32_t w[ROUNDS])
{
    for (size_t t = 0; t < 16; t++) {
        w[t] = read_word(block + 4 * t);
    }
    for (size_t t = 16; t < ROUNDS; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;

        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

static void take_block(struct sha256 *hash, const uint8_t block[SHA256_BLOCK])
{
    uint32_t w[ROUNDS];
    uint32_t v[8]; /* a to h */

    expand(block, w);
    memcpy(v, hash->state, sizeof v);
    for (size_t t = 0; t < ROUNDS; t++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + constants[t] + w[t];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (size_t i = 0; i < 8; i++) {
        hash->state[i] += v[i];
    }
}

void sha256_init(struct sha256 *hash)
{
    *hash = (struct sha256){
        .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                0x9b05688c, 0x1f83d9ab, 0x5be0cd19 },
    };
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;

    while (len > 0) {
        size_t held = hash->len % SHA256_BLOCK;
        size_t part = len < SHA256_BLOCK - held ? len : SHA256_BLOCK - held;

        memcpy(hash->block + held, from, part);
        hash->len += part;
        from += part;
        len -= part;
        if (held + part == SHA256_BLOCK) {
            take_block(hash, hash->block);
        }
    }
}

void sha256_end(struct sha256 *hash, uint8_t digest[SHA256_BYTES])
{
    static const uint8_t padding[SHA256_BLOCK] = { 0x80 };
    const uint64_t bits = hash->len * 8;
    size_t held = (hash->len + LENGTH_BYTES) % SHA256_BLOCK;
    uint8_t length[LENGTH_BYTES];

    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    sha256_add(hash, padding, SHA256_BLOCK - held);
    sha256_add(hash, length, sizeof length);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

static void begin(struct sha256 *hash, const uint8_t key[SHA256_BLOCK], uint8_t pad)
{
    uint8_t block[SHA256_BLOCK];

    for (size_t i = 0; i < SHA256_BLOCK; i++) {
        block[i] = key[i] ^ pad;
    }
    sha256_init(hash);
    sha256_add(hash, block, sizeof block);
}

void hmac_init(struct hmac *hmac, const void *key, size_t len)
{
    uint8_t block[SHA256_BLOCK] = { 0 };

    if (len > SHA256_BLOCK) {
        sha256_init(&hmac->inner);
        sha256_add(&hmac->inner, key, len);
        sha256_end(&hmac->inner, block);
    } else if (len > 0) {
        memcpy(block, key, len);
    }
    begin(&hmac->inner, block, INNER_PAD);
    begin(&hmac->outer, block, OUTER_PAD);
}

void hmac_add(struct hmac *hmac, const void *bytes, size_t len)
{
    sha256_add(&hmac->inner, bytes, len);
}

void hmac_end(struct hmac *hmac, uint8_t digest[SHA256_BYTES])
{
    sha256_end(&hmac->inner, digest);
    sha256_add(&hmac->outer, digest, SHA256_BYTES);
    sha256_end(&hmac->outer, digest);
}

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
