/*
 * Ranges of addresses, and the choice of one; pure. IPv4 is written as IPv6 that maps it,
 * so that there is one kind.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/mpi_launcher/job_network.h"

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

static bool is_mapped(const uint8_t bytes[16])
{
    return memcmp(bytes, mapped_prefix, sizeof mapped_prefix) == 0;
}

static bool parse_address(const char *text, uint8_t bytes[16], unsigned *width)
{
    if (inet_pton(AF_INET6, text, bytes) == 1) {
        *width = 128;
        return true;
    }
    memcpy(bytes, mapped_prefix, sizeof mapped_prefix);
    *width = 32;
    return inet_pton(AF_INET, text, bytes + sizeof mapped_prefix) == 1;
}

bool network_range_parse(struct network_range *range, const char *text)
{
    struct network_range made = { .bits = 0 };
    char address[NETWORK_ADDRESS_MAX];
    size_t len = strcspn(text, "/");
    unsigned width = 0;
    int64_t bits;

    if (len >= sizeof address) {
        return false;
    }
    (void)snprintf(address, sizeof address, "%.*s", (int)len, text);
    if (!parse_address(address, made.bytes, &width)) {
        return false;
    }
    bits = width;
    if (text[len] == '/' &&
            (!text_to_int64(text + len + 1, &bits) || bits < 0 || bits > width)) {
        return false;
    }
    made.bits = 128 - width + (unsigned)bits;
    *range = made;
    return true;
}

/* The byte's bits that count, of a range of so many bits. */
static unsigned mask_of(unsigned bits, size_t byte)
{
    const size_t before = byte * 8;

    if (bits >= before + 8) {
        return 0xff;
    }
    return bits <= before ? 0 : (0xff00U >> (bits - before)) & 0xffU;
}

void network_range_format(
        const struct network_range *range, char text[NETWORK_ADDRESS_MAX])
{
    char address[INET6_ADDRSTRLEN] = "";
    uint8_t bytes[16];
    const bool is_v4 = is_mapped(range->bytes) && range->bits >= 96;

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(range->bytes[i] & mask_of(range->bits, i));
    }
    (void)inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? bytes + 12 : bytes, address,
            sizeof address);
    (void)snprintf(text, NETWORK_ADDRESS_MAX, "%s/%u", address,
            is_v4 ? range->bits - 96 : range->bits);
}

bool network_range_has(const struct network_range *range, const uint8_t bytes[16])
{
    for (size_t i = 0; i < sizeof range->bytes; i++) {
        if (((range->bytes[i] ^ bytes[i]) & mask_of(range->bits, i)) != 0) {
            return false;
        }
    }
    return true;
}

void network_address_format(const uint8_t bytes[16], char text[NETWORK_ADDRESS_MAX])
{
    struct network_range one = { .bits = 128 };

    memcpy(one.bytes, bytes, sizeof one.bytes);
    network_range_format(&one, text);
    text[strcspn(text, "/")] = '\0';
}

bool network_bytes_of(const struct sockaddr *address, uint8_t bytes[16])
{
    if (address != NULL && address->sa_family == AF_INET) {
        struct sockaddr_in v4;

        memcpy(&v4, address, sizeof v4);
        memcpy(bytes, mapped_prefix, sizeof mapped_prefix);
        memcpy(bytes + sizeof mapped_prefix, &v4.sin_addr, 4);
        return true;
    }
    if (address != NULL && address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;

        memcpy(&v6, address, sizeof v6);
        memcpy(bytes, &v6.sin6_addr, 16);
        return true;
    }
    return false;
}

bool network_is_link_local(const uint8_t bytes[16])
{
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool network_address_of(const struct sockaddr *address, char text[NETWORK_ADDRESS_MAX])
{
    uint8_t bytes[16];

    text[0] = '\0';
    if (!network_bytes_of(address, bytes)) {
        return false;
    }
    network_address_format(bytes, text);
    return !network_is_link_local(bytes);
}

static const char *first_in_range(const struct network_range *range,
        const char (*addresses)[NETWORK_ADDRESS_MAX], size_t count)
{
    struct network_range one;

    for (size_t i = 0; i < count; i++) {
        if (network_range_parse(&one, addresses[i]) &&
                network_range_has(range, one.bytes)) {
            return addresses[i];
        }
    }
    return NULL;
}

const char *network_first_inside(
        const char *ranges, const char (*addresses)[NETWORK_ADDRESS_MAX], size_t count)
{
    char list[NETWORK_CIDRS_MAX];
    const char *found = NULL;
    char *rest = list;

    (void)snprintf(list, sizeof list, "%s", ranges);
    while (rest != NULL && found == NULL) {
        struct network_range range;

        if (network_range_parse(&range, strsep(&rest, ","))) {
            found = first_in_range(&range, addresses, count);
        }
    }
    return found;
}

/* "lo 127.0.0.1/8, eth0 10.0.0.0/8" for the error. */
static void describe(const struct network_table *table, char *text, size_t capacity)
{
    text[0] = '\0';
    for (size_t i = 0; i < table->count; i++) {
        char range[NETWORK_ADDRESS_MAX];

        network_range_format(&table->interfaces[i].range, range);
        text_append(text, capacity, "%s%s %s", i == 0 ? "" : ", ",
                table->interfaces[i].name, range);
    }
}

static const struct network_interface *find_inside(
        const struct network_table *table, const struct network_range *range)
{
    for (size_t i = 0; i < table->count; i++) {
        if (network_range_has(range, table->interfaces[i].range.bytes)) {
            return &table->interfaces[i];
        }
    }
    return NULL;
}

static const struct network_interface *find_named(
        const struct network_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->interfaces[i].name, name) == 0) {
            return &table->interfaces[i];
        }
    }
    return NULL;
}

static tutti_status refuse(const struct network_table *table, const char *entry)
{
    char has[256];

    describe(table, has, sizeof has);
    return error_set(TUTTI_ERR_INVALID,
            "--nic %s: this machine has no address in it; it has %s", entry, has);
}

/* Adds one entry of --nic to the choice. */
static tutti_status choose_entry(const struct network_table *table, const char *entry,
        struct network_choice *choice)
{
    const struct network_interface *interface;
    struct network_range range;
    char text[NETWORK_ADDRESS_MAX];

    if (network_range_parse(&range, entry)) {
        interface = find_inside(table, &range);
    } else {
        interface = find_named(table, entry);
        range = interface == NULL ? (struct network_range){ .bits = 0 }
                                  : interface->range;
    }
    if (interface == NULL) {
        return refuse(table, entry);
    }
    if (choice->interface[0] == '\0') {
        (void)snprintf(
                choice->interface, sizeof choice->interface, "%s", interface->name);
    }
    network_range_format(&range, text);
    text_append(choice->cidrs, sizeof choice->cidrs, "%s%s",
            choice->cidrs[0] == '\0' ? "" : ",", text);
    return TUTTI_OK;
}

tutti_status network_choose_asked(const struct network_table *table, const char *nic,
        struct network_choice *choice)
{
    struct network_choice made = { .is_asked = true };
    tutti_status status = TUTTI_OK;

    for (size_t n = 0; status == TUTTI_OK; n++) {
        char entry[NETWORK_ADDRESS_MAX];
        size_t len = strcspn(nic, ",");

        if (len == 0 || len >= sizeof entry || n == NETWORK_RANGES_MAX) {
            return error_set(TUTTI_ERR_INVALID,
                    "--nic %s: write up to %d ranges such as 10.0.0.0/8 with commas "
                    "between",
                    nic, NETWORK_RANGES_MAX);
        }
        (void)snprintf(entry, sizeof entry, "%.*s", (int)len, nic);
        status = choose_entry(table, entry, &made);
        if (nic[len] == '\0') {
            break;
        }
        nic += len + 1;
    }
    if (status == TUTTI_OK) {
        *choice = made;
    }
    return status;
}

static const struct network_interface *find_address(
        const struct network_table *table, const uint8_t bytes[16])
{
    for (size_t i = 0; i < table->count; i++) {
        if (memcmp(table->interfaces[i].range.bytes, bytes, 16) == 0) {
            return &table->interfaces[i];
        }
    }
    return NULL;
}

void network_choose_routes(const struct network_table *table,
        const struct network_route *routes, size_t count, struct network_choice *choice)
{
    const struct network_interface *common = NULL;

    *choice = (struct network_choice){ .is_asked = false };
    for (size_t i = 0; i < count; i++) {
        const struct network_interface *interface =
                find_address(table, routes[i].source);

        /* A route to a host that is this machine says nothing. */
        if (interface != NULL && memcmp(routes[i].source, routes[i].peer, 16) == 0) {
            continue;
        }
        if (interface == NULL || (common != NULL && common != interface) ||
                !network_range_has(&interface->range, routes[i].peer)) {
            return;
        }
        common = interface;
    }
    if (common != NULL) {
        network_range_format(&common->range, choice->cidrs);
        (void)snprintf(choice->interface, sizeof choice->interface, "%s", common->name);
    }
}
