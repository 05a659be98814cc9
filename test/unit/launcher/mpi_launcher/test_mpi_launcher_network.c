/*
 * Ranges, and which network is chosen: by --nic, by the routes to the hosts.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "launcher/mpi_launcher/job_network.h"
#include "test/unit/launcher/cases.h"
#include "test/unit/launcher/words.h"

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

UNIT_CASES(test_ranges_are_read_strictly, "ranges")
{
    struct network_range range;

    (void)strcpy(out, "malformed");
    if (network_range_parse(&range, in)) {
        network_range_format(&range, out);
    }
}

UNIT_CASES(test_a_range_has_what_shares_its_bits, "in a range")
{
    struct network_range range, address;
    char *fields[CASES_FIELDS];

    assert_int_equal(cases_fields(in, fields), 2);
    assert_true(network_range_parse(&range, fields[0]));
    assert_true(network_range_parse(&address, fields[1]));
    (void)strcpy(out, network_range_has(&range, address.bytes) ? "yes" : "no");
}

UNIT_CASES(test_nic_takes_ranges_and_names, "--nic")
{
    struct network_choice choice = { .is_asked = false };
    struct network_table table;

    make_node(&table);
    if (network_choose_asked(&table, in, &choice) == TUTTI_OK) {
        (void)sprintf(out, "%s by %s", choice.cidrs, choice.interface);
        assert_true(choice.is_asked);
    } else {
        assert_false(choice.is_asked);
        cases_refused(out);
    }
}

UNIT_CASES(test_routes_choose_a_network_that_has_all_hosts, "routes")
{
    struct network_route routes[2];
    char *fields[CASES_FIELDS];
    struct network_choice choice;
    struct network_table table;

    make_node(&table);
    assert_int_equal(cases_fields(in, fields), 2);
    for (int i = 0; i < 2; i++) {
        char *const *words = cases_words(fields[i]);
        struct network_range range;

        assert_true(network_range_parse(&range, words[0]));
        memcpy(routes[i].source, range.bytes, sizeof routes[i].source);
        assert_true(network_range_parse(&range, words[1]));
        memcpy(routes[i].peer, range.bytes, sizeof routes[i].peer);
    }
    network_choose_routes(&table, routes, 2, &choice);
    assert_false(choice.is_asked);
    (void)sprintf(out, "%s%sby %s", choice.cidrs, choice.cidrs[0] == '\0' ? "" : " ",
            choice.interface);
    out[strlen(out) - (choice.interface[0] == '\0' ? 1 : 0)] = '\0';
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

UNIT_CASES(test_the_first_address_inside_ranges, "first inside")
{
    static const char addresses[][NETWORK_ADDRESS_MAX] = { "172.17.0.1", "10.1.0.5",
        "10.2.0.5", "fd00::5" };
    const char *found = network_first_inside(in, addresses, 4);

    (void)strcpy(out, found == NULL ? "none" : found);
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
    network_export(&environment);
    assert_string_equal(
            environment_get(environment.items, "NCCL_SOCKET_IFNAME"), "=lo");
    assert_string_equal(environment_get(environment.items, "UCX_NET_DEVICES"), "lo");
    (void)words_set(&environment, set);
    network_export(&environment);
    assert_string_equal(environment_get(environment.items, "NCCL_SOCKET_IFNAME"), "x");
    (void)words_set(&environment, elsewhere);
    network_export(&environment);
    assert_int_equal(environment.count, 1);
    arguments_fini(&environment);
    network_export(&environment);
    assert_int_equal(environment.count, 0);
}
