/*
 * Ranges, and which network is chosen: by --nic, by the routes to the hosts.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "launcher/environment.h"
#include "launcher/starter/job_network.h"
#include "test/unit/launcher/words.h"
#include "test/unit/unit.h"

/* A cluster's node: two networks, docker, and an address of IPv6. */
static void make_node(struct network_table *table)
{
    static const struct {
        const char *name;
        const char *address;
        unsigned bits;
        bool is_loopback;
    } rows[] = {
        { "lo", "127.0.0.1", 96 + 8, true },
        { "docker0", "172.17.0.1", 96 + 16, false },
        { "ens5", "10.0.1.7", 96 + 20, false },
        { "ib0", "192.168.4.7", 96 + 24, false },
        { "ib0", "fd00:4::7", 64, false },
    };

    table->count = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < table->count; i++) {
        struct network_interface *next = &table->interfaces[i];

        *next = (struct network_interface){ .is_loopback = rows[i].is_loopback };
        (void)strncpy(next->name, rows[i].name, sizeof next->name - 1);
        assert_true(network_range_parse(&next->range, rows[i].address));
        next->range.bits = rows[i].bits;
    }
}

UNIT_TEST(test_ranges_are_read_strictly)
{
    static const struct {
        const char *text;
        const char *expected; /* NULL: malformed */
    } rows[] = {
        { "10.1.2.3/8", "10.0.0.0/8" },
        { "10.1.2.3", "10.1.2.3/32" },
        { "10.1.2.3/30", "10.1.2.0/30" },
        { "10.255.2.3/12", "10.240.0.0/12" },
        { "0.0.0.0/0", "0.0.0.0/0" },
        { "fd00:4::7/64", "fd00:4::/64" },
        { "::1", "::1/128" },
        { "::/0", "::/0" },
        { "10.1.2.3/33", NULL },
        { "10.1.2.3/-1", NULL },
        { "10.1.2.3/", NULL },
        { "10.1.2/8", NULL },
        { "fd00::/129", NULL },
        { "eth0", NULL },
        { "", NULL },
        { "/8", NULL },
        { "0000000000000000000000000000000000000000000000000000000000000000000", NULL },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct network_range range;
        char text[NETWORK_ADDRESS_MAX];

        assert_int_equal(
                network_range_parse(&range, rows[i].text), rows[i].expected != NULL);
        if (rows[i].expected != NULL) {
            network_range_format(&range, text);
            assert_string_equal(text, rows[i].expected);
        }
    }
}

UNIT_TEST(test_a_range_has_what_shares_its_bits)
{
    static const struct {
        const char *range;
        const char *address;
        bool has;
    } rows[] = {
        { "10.0.0.0/20", "10.0.15.255", true },
        { "10.0.0.0/20", "10.0.16.0", false },
        { "10.0.0.1", "10.0.0.1", true },
        { "10.0.0.1", "10.0.0.0", false },
        { "0.0.0.0/0", "255.1.2.3", true },
        { "0.0.0.0/0", "fd00::1", false },
        { "fd00::/15", "fd01::1", true },
        { "fd00::/16", "fd01::1", false },
        { "::/0", "10.0.0.1", true },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct network_range range;
        struct network_range address;

        assert_true(network_range_parse(&range, rows[i].range));
        assert_true(network_range_parse(&address, rows[i].address));
        assert_int_equal(network_range_has(&range, address.bytes), rows[i].has);
    }
}

UNIT_TEST(test_nic_takes_ranges_and_names)
{
    static const struct {
        const char *nic;
        const char *cidrs; /* NULL: refused */
        const char *interface; /* or a part of the error */
    } rows[] = {
        { "10.0.0.0/8", "10.0.0.0/8", "ens5" },
        { "192.168.0.0/16,10.0.0.0/8", "192.168.0.0/16,10.0.0.0/8", "ib0" },
        { "fd00:4::/64", "fd00:4::/64", "ib0" },
        { "ens5", "10.0.0.0/20", "ens5" },
        { "ib0,ens5", "192.168.4.0/24,10.0.0.0/20", "ib0" },
        { "11.0.0.0/8", NULL, "ens5 10.0.0.0/20" },
        { "eth0", NULL, "--nic eth0" },
        { "10.0.0.0/8,eth0", NULL, "--nic eth0" },
        { "", NULL, "write up to" },
        { "ens5,", NULL, "write up to" },
        { "lo,lo,lo,lo,lo,lo,lo,lo,lo", NULL, "write up to" },
    };
    struct network_table table;

    make_node(&table);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct network_choice choice = { .is_asked = false };
        tutti_status status = network_choose_asked(&table, rows[i].nic, &choice);

        if (rows[i].cidrs == NULL) {
            assert_int_equal(status, TUTTI_ERR_INVALID);
            assert_non_null(strstr(tutti_last_error(), rows[i].interface));
            assert_false(choice.is_asked);
        } else {
            assert_int_equal(status, TUTTI_OK);
            assert_string_equal(choice.cidrs, rows[i].cidrs);
            assert_string_equal(choice.interface, rows[i].interface);
            assert_true(choice.is_asked);
        }
    }
}

static struct network_route route_of(const char *source, const char *peer)
{
    struct network_route route = { .source = { 0 } };
    struct network_range range;

    assert_true(network_range_parse(&range, source));
    memcpy(route.source, range.bytes, sizeof route.source);
    assert_true(network_range_parse(&range, peer));
    memcpy(route.peer, range.bytes, sizeof route.peer);
    return route;
}

UNIT_TEST(test_routes_choose_a_network_that_has_all_hosts)
{
    const struct network_route here = route_of("10.0.1.7", "10.0.1.7");
    const struct network_route near = route_of("10.0.1.7", "10.0.2.9");
    const struct network_route other = route_of("192.168.4.7", "192.168.4.9");
    const struct network_route far = route_of("10.0.1.7", "10.9.0.1");
    const struct {
        struct network_route routes[2];
        const char *cidrs;
        const char *interface;
    } rows[] = {
        { { near, near }, "10.0.0.0/20", "ens5" },
        { { here, near }, "10.0.0.0/20", "ens5" },
        { { here, other }, "192.168.4.0/24", "ib0" },
        { { near, other }, "", "" }, /* no network has both */
        { { near, far }, "", "" }, /* behind a router */
        { { here, here }, "", "" },
    };
    struct network_table table;

    make_node(&table);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct network_choice choice;

        network_choose_routes(&table, rows[i].routes, 2, &choice);
        assert_string_equal(choice.cidrs, rows[i].cidrs);
        assert_string_equal(choice.interface, rows[i].interface);
        assert_false(choice.is_asked);
    }
}

UNIT_TEST(test_hosts_here_get_loopback_only)
{
    char addresses[4][NETWORK_ADDRESS_MAX];
    struct host_list hosts = { .hosts = NULL };
    size_t count = 0;

    assert_int_equal(network_addresses(&hosts, NULL, addresses, 4, &count), TUTTI_OK);
    assert_int_equal(count, 1);
    assert_string_equal(addresses[0], "127.0.0.1");
    assert_int_equal(host_list_parse(&hosts, "localhost:2,127.0.0.1"), TUTTI_OK);
    assert_int_equal(network_addresses(&hosts, NULL, addresses, 4, &count), TUTTI_OK);
    assert_int_equal(count, 1);
    assert_string_equal(addresses[0], "127.0.0.1");
    host_list_fini(&hosts);
}

UNIT_TEST(test_other_hosts_never_get_loopback_first)
{
    char addresses[4][NETWORK_ADDRESS_MAX];
    struct host_list hosts = { .hosts = NULL };
    struct network_table table;
    size_t outside = 0;
    size_t count = 0;

    assert_int_equal(network_read(&table), TUTTI_OK);
    for (size_t i = 0; i < table.count; i++) {
        outside += table.interfaces[i].is_loopback ? 0 : 1;
    }
    /* Reserved for documentation, so nobody answers; only the route is asked for. */
    assert_int_equal(host_list_parse(&hosts, "[2001:db8::1],192.0.2.1"), TUTTI_OK);
    assert_int_equal(network_addresses(&hosts, NULL, addresses, 4, &count), TUTTI_OK);
    assert_int_equal(strcmp(addresses[0], "127.0.0.1") == 0, outside == 0);
    assert_in_range(count, 1, 4);
    host_list_fini(&hosts);
}

UNIT_TEST(test_nic_decides_addresses)
{
    char addresses[4][NETWORK_ADDRESS_MAX];
    struct host_list hosts = { .hosts = NULL };
    size_t count = 0;

    assert_int_equal(
            network_addresses(&hosts, "127.0.0.0/8", addresses, 4, &count), TUTTI_OK);
    assert_string_equal(addresses[0], "127.0.0.1");
    assert_int_equal(network_addresses(&hosts, "203.0.113.0/24", addresses, 4, &count),
            TUTTI_ERR_INVALID);
}

UNIT_TEST(test_a_program_is_told_this_hosts_interface)
{
    struct arguments environment = { .items = NULL };
    static const char *const asked[] = { "TUTTI_INTERNAL_NIC=127.0.0.0/8", NULL };
    static const char *const set[] = { "TUTTI_INTERNAL_NIC=127.0.0.0/8",
        "NCCL_SOCKET_IFNAME=x", NULL };
    static const char *const elsewhere[] = { "TUTTI_INTERNAL_NIC=203.0.113.0/24",
        NULL };

    (void)words_set(&environment, asked);
    network_tell_program(&environment);
    assert_string_equal(
            environment_get(environment.items, "NCCL_SOCKET_IFNAME"), "=lo");
    assert_string_equal(environment_get(environment.items, "UCX_NET_DEVICES"), "lo");
    (void)words_set(&environment, set);
    network_tell_program(&environment);
    assert_string_equal(environment_get(environment.items, "NCCL_SOCKET_IFNAME"), "x");
    (void)words_set(&environment, elsewhere);
    network_tell_program(&environment);
    assert_int_equal(environment.count, 1);
    arguments_fini(&environment);
    network_tell_program(&environment);
    assert_int_equal(environment.count, 0);
}

UNIT_TEST(test_addresses_of_sockets_as_text)
{
    static const struct {
        const char *address;
        const char *text;
        bool is_usable;
    } rows[] = {
        { "::ffff:10.1.2.3", "10.1.2.3", true }, { "fd00::1", "fd00::1", true },
        { "::1", "::1", true }, { "fe80::1", "fe80::1", false }, /* of one link */
    };
    char text[NETWORK_ADDRESS_MAX];
    struct sockaddr_in four = { .sin_family = AF_INET };
    const struct sockaddr other = { .sa_family = AF_UNIX };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sockaddr_in6 six = { .sin6_family = AF_INET6 };

        assert_int_equal(inet_pton(AF_INET6, rows[i].address, &six.sin6_addr), 1);
        assert_true(network_address_of((const struct sockaddr *)&six, text) ==
                rows[i].is_usable);
        assert_string_equal(text, rows[i].text);
    }
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(network_address_of((const struct sockaddr *)&four, text));
    assert_string_equal(text, "127.0.0.1");
    assert_false(network_address_of(&other, text));
    assert_string_equal(text, "");
}

UNIT_TEST(test_the_way_to_ourselves)
{
    char text[NETWORK_ADDRESS_MAX];

    assert_true(network_source("127.0.0.1", text));
    assert_string_equal(text, "127.0.0.1");
    assert_false(network_source("host", text));
    assert_string_equal(text, "");
}

/* As starters see it: by address, or by our name, whatever its domain. */
UNIT_TEST(test_which_hosts_are_here)
{
    static struct network_table table;
    char own[HOST_NAME_LIMIT] = "";
    struct host hosts[2] = { { .name = "localhost" } };
    struct host_list list = { .hosts = hosts };

    assert_true(network_is_here(&list)); /* none: this machine */
    list.count = 2;
    assert_int_equal(network_read(&table), TUTTI_OK);
    for (size_t i = 0; i < table.count; i++) {
        network_address_format(table.interfaces[i].range.bytes, hosts[1].name);
        assert_true(network_is_here(&list));
    }
    assert_int_equal(gethostname(own, sizeof own - 1), 0);
    (void)snprintf(hosts[1].name, HOST_NAME_LIMIT, "%s", own);
    assert_true(network_is_here(&list));
    /* A name of ours with a domain that does not lead here, others', and no name at all. */
    (void)snprintf(hosts[1].name, HOST_NAME_LIMIT, "%.64s.invalid", own);
    assert_false(network_is_here(&list));
    (void)snprintf(hosts[1].name, HOST_NAME_LIMIT, "%.64s1", own);
    assert_false(network_is_here(&list));
    (void)snprintf(hosts[1].name, HOST_NAME_LIMIT, "192.0.2.250");
    assert_false(network_is_here(&list));
}

UNIT_TEST(test_the_first_address_inside_ranges)
{
    static const char addresses[][NETWORK_ADDRESS_MAX] = { "172.17.0.1", "10.1.0.5",
        "10.2.0.5", "fd00::5" };
    static const struct {
        const char *ranges;
        int found; /* -1: none */
    } rows[] = {
        { "10.0.0.0/8", 1 },
        { "192.168.0.0/16,10.2.0.0/16", 2 },
        { "fd00::/16,10.0.0.0/8", 3 },
        { "10.3.0.0/16", -1 },
        { "", -1 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ptr_equal(network_first_inside(rows[i].ranges, addresses, 4),
                rows[i].found < 0 ? NULL : addresses[rows[i].found]);
    }
}
