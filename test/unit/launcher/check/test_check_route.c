/*
 * Numeric addresses.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "launcher/check/route.h"
#include "test/unit/unit.h"

UNIT_TEST(test_addresses_and_their_texts)
{
    static const char *const texts[] = { "10.1.2.3", "127.0.0.1", "fd00::1", "::1" };
    struct sockaddr_storage address;
    char text[FACTS_ADDRESS_MAX];

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(route_address(&address, texts[i], 80) > 0);
        assert_true(route_text((const struct sockaddr *)&address, text));
        assert_string_equal(text, texts[i]);
    }
    assert_int_equal(route_address(&address, "host", 80), 0);
    assert_int_equal(route_address(&address, "10.1.2", 80), 0);
    assert_false(route_text((const struct sockaddr *)&address, text));
    assert_true(route_address(&address, "fe80::1", 80) > 0);
    assert_false(route_text((const struct sockaddr *)&address, text)); /* one link */
}

UNIT_TEST(test_the_way_to_ourselves)
{
    char text[FACTS_ADDRESS_MAX];

    assert_true(route_source("127.0.0.1", text));
    assert_string_equal(text, "127.0.0.1");
    assert_false(route_source("host", text));
    assert_string_equal(text, "");
}

UNIT_TEST(test_addresses_inside_ranges)
{
    const struct facts facts = {
        .addresses = { "172.17.0.1", "10.1.0.5", "10.2.0.5", "fd00::5" },
        .address_count = 4,
    };
    char text[FACTS_ADDRESS_MAX];

    assert_true(route_inside(&facts, "10.0.0.0/8", text));
    assert_string_equal(text, "10.1.0.5");
    assert_true(route_inside(&facts, "192.168.0.0/16,10.2.0.0/16", text));
    assert_string_equal(text, "10.2.0.5");
    assert_true(route_inside(&facts, "fd00::/16,10.0.0.0/8", text));
    assert_string_equal(text, "fd00::5");
    assert_false(route_inside(&facts, "10.3.0.0/16", text));
    assert_string_equal(text, "");
    assert_false(route_inside(&facts, "", text));
}
