/*
 * Where tuttirun is, as text.
 */
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "launcher/session/link_address.h"
#include "test/unit/unit.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

UNIT_TEST(test_text_and_back)
{
    struct link_address address = {
        .token = TOKEN,
        .addresses = { "10.0.0.1", "fe80::1%eth0" },
        .count = 2,
        .port = 40000,
    };
    struct link_address found;
    char text[LINK_JOIN_MAX];

    link_address_format(&address, text);
    assert_string_equal(text, TOKEN " 10.0.0.1,fe80::1%eth0 40000");
    assert_int_equal(link_address_parse(&found, text), TUTTI_OK);
    assert_string_equal(found.token, TOKEN);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.addresses[0], "10.0.0.1");
    assert_string_equal(found.addresses[1], "fe80::1%eth0");
    assert_int_equal(found.port, 40000);
}

UNIT_TEST(test_the_longest_fits)
{
    struct link_address address = {
        .token = TOKEN, .count = LINK_ADDRESSES_MAX, .port = 65535
    };
    struct link_address found;
    char text[LINK_JOIN_MAX];

    for (size_t i = 0; i < address.count; i++) {
        memset(address.addresses[i], 'f', LINK_ADDRESS_MAX - 1);
    }
    link_address_format(&address, text);
    assert_int_equal(link_address_parse(&found, text), TUTTI_OK);
    assert_int_equal(found.count, LINK_ADDRESSES_MAX);
    assert_int_equal(found.port, 65535);
}

UNIT_TEST(test_malformed_is_refused_without_the_token)
{
    static const char *const texts[] = {
        "",
        TOKEN,
        TOKEN " ",
        TOKEN " 10.0.0.1",
        TOKEN " 10.0.0.1 ",
        TOKEN " 10.0.0.1 0",
        TOKEN " 10.0.0.1 65536",
        TOKEN " 10.0.0.1 80x",
        TOKEN " 10.0.0.1, 80",
        TOKEN " ,10.0.0.1 80",
        TOKEN "0 10.0.0.1 80",
        "short 10.0.0.1 80",
        TOKEN " a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a 80",
    };
    struct link_address address = { .port = 7 };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(link_address_parse(&address, texts[i]), TUTTI_ERR_INVALID);
        assert_null(strstr(tutti_last_error(), TOKEN));
        assert_non_null(strstr(tutti_last_error(), LINK_VARIABLE));
        assert_int_equal(address.port, 7);
    }
}
