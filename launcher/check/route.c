/*
 * Numeric network addresses.
 */
#include "launcher/check/route.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "launcher/starter/job_network.h"

bool route_text(const struct sockaddr *address, char text[FACTS_ADDRESS_MAX])
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;

    text[0] = '\0';
    if (address->sa_family == AF_INET) {
        memcpy(&four, address, sizeof four);
        return inet_ntop(AF_INET, &four.sin_addr, text, FACTS_ADDRESS_MAX) != NULL;
    }
    if (address->sa_family != AF_INET6) {
        return false;
    }
    memcpy(&six, address, sizeof six);
    return IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) == 0 &&
            inet_ntop(AF_INET6, &six.sin6_addr, text, FACTS_ADDRESS_MAX) != NULL;
}

socklen_t route_address(
        struct sockaddr_storage *address, const char *text, uint16_t port)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    *address = (struct sockaddr_storage){ .ss_family = AF_UNSPEC };
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
        memcpy(address, &four, sizeof four);
        return sizeof four;
    }
    if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
        memcpy(address, &six, sizeof six);
        return sizeof six;
    }
    return 0;
}

bool route_source(const char *to, char text[FACTS_ADDRESS_MAX])
{
    struct sockaddr_storage address;
    socklen_t len = route_address(&address, to, 9); /* any port: nothing is sent */
    bool is_known = false;
    int fd;

    text[0] = '\0';
    fd = len == 0 ? -1 : socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    if (connect(fd, (const struct sockaddr *)&address, len) == 0) {
        len = sizeof address;
        is_known = getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
                route_text((const struct sockaddr *)&address, text);
    }
    (void)close(fd);
    return is_known;
}

/* The first address of a host in the first range of a list; NULL when it has none. */
static const char *first_inside(const struct facts *facts, const char *ranges)
{
    char text[NETWORK_ADDRESS_MAX];
    struct network_range range;
    struct network_range one;

    (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(ranges, ","), ranges);
    if (!network_range_parse(&range, text)) {
        return NULL;
    }
    for (size_t i = 0; i < facts->address_count; i++) {
        if (network_range_parse(&one, facts->addresses[i]) &&
                network_range_has(&range, one.bytes)) {
            return facts->addresses[i];
        }
    }
    return NULL;
}

bool route_inside(
        const struct facts *facts, const char *ranges, char text[FACTS_ADDRESS_MAX])
{
    const char *found = NULL;

    while (*ranges != '\0' && found == NULL) {
        found = first_inside(facts, ranges);
        ranges += strcspn(ranges, ",");
        ranges += *ranges == ',' ? 1 : 0;
    }
    (void)snprintf(text, FACTS_ADDRESS_MAX, "%s", found == NULL ? "" : found);
    return found != NULL;
}
