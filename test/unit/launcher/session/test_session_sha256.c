/*
 * SHA-256 and HMAC-SHA256 against published vectors.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/session/sha256.h"
#include "test/unit/unit.h"

static void expect_hex(const uint8_t digest[SHA256_BYTES], const char *expected)
{
    char text[2 * SHA256_BYTES + 1];

    for (size_t i = 0; i < SHA256_BYTES; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, expected);
}

UNIT_TEST(test_messages_of_fips_180)
{
    static const struct {
        const char *message;
        size_t times;
        const char *digest;
    } cases[] = {
        { "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", 1,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "aaaaaaaaaa", 100000,
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sha256 hash;
        uint8_t digest[SHA256_BYTES];

        sha256_init(&hash);
        for (size_t k = 0; k < cases[i].times; k++) {
            sha256_add(&hash, cases[i].message, strlen(cases[i].message));
        }
        sha256_end(&hash, digest);
        expect_hex(digest, cases[i].digest);
    }
}

/* All ways in which an end fits its block; the digest of digests is from Python. */
UNIT_TEST(test_messages_of_any_length)
{
    enum {
        LENGTHS = 130
    };
    struct sha256 all;
    uint8_t message[LENGTHS];
    uint8_t digest[SHA256_BYTES];

    sha256_init(&all);
    for (size_t i = 0; i < LENGTHS; i++) {
        struct sha256 one;

        message[i] = (uint8_t)i;
        sha256_init(&one);
        sha256_add(&one, message, i / 3);
        sha256_add(&one, message + i / 3, i - i / 3);
        sha256_end(&one, digest);
        sha256_add(&all, digest, sizeof digest);
    }
    sha256_end(&all, digest);
    expect_hex(
            digest, "105812602bb337abca31d9f6bf3a57a3907500005fad7c01e1e1140aa77e4499");
}

UNIT_TEST(test_macs_of_rfc_4231)
{
    static const char big_key[] = "Test Using Larger Than Block-Size Key - "
                                  "Hash Key First";
    static const char big_all[] =
            "This is a test using a larger than block-size key and a larger than "
            "block-size data. The key needs to be hashed before being used by the HMAC "
            "algorithm.";
    static const struct {
        uint8_t key; /* repeated; 0: "Jefe" */
        size_t key_len;
        const char *text; /* NULL: 50 times `filling` */
        uint8_t filling;
        const char *mac;
    } cases[] = {
        { 0x0b, 20, "Hi There", 0,
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { 0, 4, "what do ya want for nothing?", 0,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { 0xaa, 20, NULL, 0xdd,
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
        { 0xaa, 131, big_key, 0,
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
        { 0xaa, 131, big_all, 0,
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t key[131];
        uint8_t text[50];
        uint8_t mac[SHA256_BYTES];
        struct hmac hmac;

        memset(key, cases[i].key, sizeof key);
        memset(text, cases[i].filling, sizeof text);
        hmac_init(&hmac, cases[i].key == 0 ? (const void *)"Jefe" : key,
                cases[i].key_len);
        if (cases[i].text == NULL) {
            hmac_add(&hmac, text, sizeof text);
        } else {
            hmac_add(&hmac, cases[i].text, strlen(cases[i].text));
        }
        hmac_end(&hmac, mac);
        expect_hex(mac, cases[i].mac);
    }
}
