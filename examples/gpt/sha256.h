/*
 * SHA-256 (FIPS 180-4), to compare parameters by.
 */
#ifndef GPT_SHA256_H
#define GPT_SHA256_H

#include <stddef.h>

enum {
    SHA256_TEXT_BYTES = 65 /* 64 hexadecimal digits and a terminating zero */
};

/** The hash of `bytes` bytes, as `sha256sum` prints it. */
void sha256(const void *data, size_t bytes, char text[SHA256_TEXT_BYTES]);

#endif
