#include "launcher/mpi_launcher/job_network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/arguments.h"

enum {
    ROUTES_MAX = 32 /* hosts that are asked for: each may cost a look-up in DNS */
};

static unsigned bits_of(const struct sockaddr *mask)
{
    uint8_t bytes[16];
    unsigned bits = 0;

    if (!network_bytes_of(mask, bytes)) {
        return 128;
    }
    for (size_t i = mask->sa_family == AF_INET ? 12 : 0; i < sizeof bytes; i++) {
        bits += (unsigned)__builtin_popcount(bytes[i]);
    }
    return mask->sa_family == AF_INET ? bits + 96 : bits;
}

tutti_status network_read(struct network_table *table)
{
    struct ifaddrs *list = NULL;

    table->count = 0;
    if (getifaddrs(&list) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "list this machine's addresses");
    }
    for (struct ifaddrs *at = list; at != NULL && table->count < NETWORK_INTERFACES_MAX;
            at = at->ifa_next) {
        struct network_interface *next = &table->interfaces[table->count];

        if ((at->ifa_flags & IFF_UP) == 0 ||
                !network_bytes_of(at->ifa_addr, next->range.bytes) ||
                network_is_link_local(next->range.bytes)) {
            continue;
        }
        (void)snprintf(next->name, sizeof next->name, "%s", at->ifa_name);
        next->range.bits = bits_of(at->ifa_netmask);
        next->is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
        table->count++;
    }
    freeifaddrs(list);
    return TUTTI_OK;
}

/* Connecting a datagram socket sends nothing; the kernel only looks up the route. */
static bool route_over(const struct addrinfo *to, struct network_route *route)
{
    struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof own;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_found;

    if (fd < 0) {
        return false;
    }
    is_found = connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
            getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
            network_bytes_of((const struct sockaddr *)&own, route->source) &&
            network_bytes_of(to->ai_addr, route->peer);
    (void)close(fd);
    return is_found;
}

/* `flags` are those of getaddrinfo(). */
static bool route_to(const char *host, int flags, struct network_route *route)
{
    const struct addrinfo hints = { .ai_flags = flags, .ai_socktype = SOCK_DGRAM };
    struct addrinfo *list = NULL;
    bool is_found = false;

    if (getaddrinfo(host, "9", &hints, &list) != 0) {
        return false;
    }
    for (struct addrinfo *at = list; at != NULL && !is_found; at = at->ai_next) {
        is_found = route_over(at, route);
    }
    freeaddrinfo(list);
    return is_found;
}

bool network_source(const char *to, char text[NETWORK_ADDRESS_MAX])
{
    struct network_route route;
    bool is_found = route_to(to, AI_NUMERICHOST, &route) &&
            !network_is_link_local(route.source);

    text[0] = '\0';
    if (is_found) {
        network_address_format(route.source, text);
    }
    return is_found;
}

/* The routes to the first hosts; false when one has none that this machine knows. */
static bool routes_read(
        const struct host_list *hosts, struct network_route *routes, size_t *count)
{
    bool is_whole = true;

    *count = 0;
    for (size_t i = 0; i < hosts->count && i < ROUTES_MAX; i++) {
        if (route_to(hosts->hosts[i].name, 0, &routes[*count])) {
            (*count)++;
        } else {
            is_whole = false; /* perhaps a name that only ssh's configuration knows */
        }
    }
    return is_whole;
}

bool network_is_here(const struct host_list *hosts)
{
    char own_name[HOST_NAME_LIMIT] = "";
    bool is_here = true;

    (void)gethostname(own_name, sizeof own_name - 1);
    for (size_t i = 0; is_here && i < hosts->count; i++) {
        const char *name = hosts->hosts[i].name;
        const size_t label = strcspn(name, ".");
        const bool is_ours =
                strncmp(name, own_name, label) == 0 && strcspn(own_name, ".") == label;
        struct network_route route;

        is_here = strcmp(name, own_name) == 0 || strcmp(name, "localhost") == 0 ||
                (route_to(name, is_ours ? 0 : AI_NUMERICHOST, &route) &&
                        memcmp(route.source, route.peer, sizeof route.peer) == 0);
    }
    return is_here;
}

bool network_is_ours(const char *name)
{
    struct network_route route;

    return route_to(name, 0, &route) &&
            memcmp(route.source, route.peer, sizeof route.peer) == 0;
}

tutti_status network_choose(
        const struct host_list *hosts, const char *nic, struct network_choice *choice)
{
    struct network_table table;
    struct network_route routes[ROUTES_MAX];
    size_t count = 0;
    tutti_status status;

    *choice = (struct network_choice){ .is_asked = false };
    if ((nic != NULL && strcmp(nic, "mpi") == 0) ||
            (nic == NULL && network_is_here(hosts))) {
        return TUTTI_OK;
    }
    status = network_read(&table);
    if (status == TUTTI_OK && nic != NULL) {
        status = network_choose_asked(&table, nic, choice);
    } else if (status == TUTTI_OK && routes_read(hosts, routes, &count)) {
        network_choose_routes(&table, routes, count, choice);
    }
    return status;
}

/* Where numeric addresses are gathered, each once. */
struct gathering {
    char (*addresses)[NETWORK_ADDRESS_MAX];
    size_t capacity;
    size_t count;
};

static void gather(struct gathering *to, const uint8_t bytes[16])
{
    char text[NETWORK_ADDRESS_MAX];

    network_address_format(bytes, text);
    for (size_t i = 0; i < to->count; i++) {
        if (strcmp(to->addresses[i], text) == 0) {
            return;
        }
    }
    if (to->count < to->capacity) {
        (void)snprintf(to->addresses[to->count++], NETWORK_ADDRESS_MAX, "%s", text);
    }
}

static bool is_loopback(const struct network_table *table, const uint8_t bytes[16])
{
    for (size_t i = 0; i < table->count; i++) {
        if (network_range_has(&table->interfaces[i].range, bytes) &&
                table->interfaces[i].is_loopback) {
            return true;
        }
    }
    return false;
}

static void gather_range(struct gathering *to, const struct network_table *table,
        const struct network_range *range)
{
    for (size_t i = 0; i < table->count; i++) {
        if (network_range_has(range, table->interfaces[i].range.bytes)) {
            gather(to, table->interfaces[i].range.bytes);
        }
    }
}

static void gather_inside(struct gathering *to, const struct network_table *table,
        const struct network_choice *choice)
{
    char cidrs[NETWORK_CIDRS_MAX];
    struct network_range range;
    char *rest = cidrs;

    (void)snprintf(cidrs, sizeof cidrs, "%s", choice->cidrs);
    for (char *entry = strsep(&rest, ","); entry != NULL; entry = strsep(&rest, ",")) {
        if (network_range_parse(&range, entry)) {
            gather_range(to, table, &range);
        }
    }
}

static void gather_by_route(struct gathering *to, const struct network_table *table,
        const struct host_list *hosts)
{
    struct network_route routes[ROUTES_MAX];
    size_t count = 0;

    if (hosts != NULL) {
        (void)routes_read(hosts, routes, &count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_loopback(table, routes[i].source)) {
            gather(to, routes[i].source);
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        if (!table->interfaces[i].is_loopback) {
            gather(to, table->interfaces[i].range.bytes);
        }
    }
}

tutti_status network_addresses(const struct host_list *hosts, const char *nic,
        char (*addresses)[NETWORK_ADDRESS_MAX], size_t capacity, size_t *count)
{
    struct gathering gathered = { .addresses = addresses, .capacity = capacity };
    struct network_choice choice;
    struct network_table table;
    tutti_status status = network_read(&table);
    const bool is_asked = nic != NULL && strcmp(nic, "mpi") != 0;

    if (status == TUTTI_OK && is_asked) {
        status = network_choose_asked(&table, nic, &choice);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (is_asked) {
        gather_inside(&gathered, &table, &choice);
    } else if (hosts == NULL || !network_is_here(hosts)) {
        gather_by_route(&gathered, &table, hosts);
    }
    if (gathered.count == 0) {
        (void)snprintf(addresses[gathered.count++], NETWORK_ADDRESS_MAX, "127.0.0.1");
    }
    *count = gathered.count;
    return TUTTI_OK;
}

void network_export(struct arguments *environment)
{
    static char *const nothing[] = { NULL };
    char *const *variables = environment->items == NULL ? nothing : environment->items;
    const char *nic = environment_get(variables, NETWORK_VARIABLE);
    struct network_choice choice;
    struct network_table table;
    char interface[NETWORK_NAME_MAX + 1];

    if (nic == NULL || network_read(&table) != TUTTI_OK ||
            network_choose_asked(&table, nic, &choice) != TUTTI_OK) {
        return;
    }
    if (environment_get(variables, "NCCL_SOCKET_IFNAME") == NULL) {
        /* '=': this name, not all that begin with it. */
        (void)snprintf(interface, sizeof interface, "=%s", choice.interface);
        arguments_set(environment, "NCCL_SOCKET_IFNAME", interface);
    }
    if (environment_get(environment->items, "UCX_NET_DEVICES") == NULL) {
        arguments_set(environment, "UCX_NET_DEVICES", choice.interface);
    }
}
