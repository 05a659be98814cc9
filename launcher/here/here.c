#include "launcher/here/here.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/bind/pci.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/mpi_launcher/mpi_launcher.h"
#include "launcher/session/proof.h"
#include "launcher/session/sockets.h"

enum {
    JOIN_PORT = 47108,
    RETRY_MS = 200,
    CONNECT_S = 5 /* that a connection may take; the kernel would take minutes */
};

/* The hosts are a list that all have, and their addresses and names tell. */
static tutti_status find_ourselves(struct placement *placement)
{
    const struct host_list *hosts = &placement->hosts;
    size_t index = 0;

    while (index < hosts->count && !network_is_ours(hosts->hosts[index].name)) {
        index++;
    }
    if (index == hosts->count) {
        return error_set(TUTTI_ERR_INVALID,
                "--engine here: none of the hosts from %s, %s and others, is this one; "
                "give them names that lead to their addresses",
                placement->source, hosts->hosts[0].name);
    }
    placement->join =
            (struct join_place){ .nodes = (int)hosts->count, .index = (int)index };
    placement->waits = index > 0;
    (void)snprintf(placement->join.first, sizeof placement->join.first, "%s",
            hosts->hosts[0].name);
    (void)snprintf(
            placement->own, sizeof placement->own, "%s", hosts->hosts[index].name);
    return TUTTI_OK;
}

/* Where a source knows only how many there are, all have as many slots as this one. */
static tutti_status name_hosts(
        const struct options *options, struct placement *placement)
{
    const int slots =
            options->slots_per_host > 0 ? options->slots_per_host : pci_slots_here();
    const char *reason = NULL;
    char name[32];

    for (int i = 0; reason == NULL && i < placement->join.nodes; i++) {
        (void)snprintf(name, sizeof name, "node-%d", i);
        reason = host_list_add(&placement->hosts, name, slots);
    }
    return reason == NULL ? TUTTI_OK
                          : error_set(TUTTI_ERR_INVALID, "%s: %s", name, reason);
}

tutti_status here_place(struct options *options, struct placement *placement)
{
    tutti_status status = TUTTI_OK;

    if (options->engine == MPI_KIND_HERE && placement->join.nodes == 0 &&
            placement->hosts.count > 1) {
        status = find_ourselves(placement);
    }
    if (status != TUTTI_OK || placement->join.nodes <= 1) {
        return status;
    }
    if (options->engine != MPI_KIND_AUTO && options->engine != MPI_KIND_HERE) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: tuttirun is started on each host, which starts its own ranks; "
                "leave --engine out, or name the hosts with -H in a tuttirun that is "
                "started once",
                placement->source);
    }
    if (options->min_np > 0) {
        return error_set(TUTTI_ERR_INVALID,
                "--min-np: where each host starts its own ranks they are not started "
                "anew; "
                "leave it out, and have the platform start the job again");
    }
    options->engine = MPI_KIND_HERE;
    if (options->join_port > 0 || placement->join.port == 0) {
        placement->join.port = options->join_port > 0 ? options->join_port : JOIN_PORT;
    }
    return placement->hosts.count > 0 ? TUTTI_OK : name_hosts(options, placement);
}

tutti_status here_share(struct placement *placement, int ranks)
{
    int *counts = mem_calloc(placement->hosts.count, sizeof *counts);

    if (counts == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    launch_spread(&placement->hosts, ranks, counts);
    placement->share =
            (struct share){ .is_set = true, .count = counts[placement->join.index] };
    for (int i = 0; i < placement->join.index; i++) {
        placement->share.first += counts[i];
    }
    mem_free(counts);
    return TUTTI_OK;
}

void here_token(const struct join_place *place, char token[LINK_TOKEN_BYTES + 1])
{
    const struct proof_exchange exchange = { .secret = place->secret,
        .secret_len = place->secret_len };
    uint8_t proof[PROOF_BYTES];

    proof_make(&exchange, "tutti here, token of supervisors", place->key,
            strlen(place->key), proof);
    for (size_t i = 0; i < LINK_TOKEN_BYTES / 2; i++) {
        (void)snprintf(token + 2 * i, 3, "%02x", proof[i]);
    }
}

/* The address at which the first host answers; false: it does not. */
static bool find_first(const struct join_place *place, struct link_address *address)
{
    struct connect_addresses addresses = { .count = 0 };
    struct sockaddr_storage peer = { 0 };
    socklen_t len = sizeof peer;
    char port[16];
    bool is_found;
    int fd;

    (void)snprintf(port, sizeof port, "%d", place->port);
    if (connect_add(&addresses, place->first, port, 0) != 0) {
        return false;
    }
    fd = connect_any(&addresses, clock_ns() + (int64_t)CONNECT_S * 1000000000);
    is_found = fd >= 0 && getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
            network_address_of((const struct sockaddr *)&peer, address->addresses[0]);
    fd_close(&fd);
    return is_found;
}

tutti_status here_wait(
        const struct join_place *place, int timeout_s, char join[LINK_JOIN_MAX])
{
    const int64_t deadline = clock_ns() + (int64_t)timeout_s * 1000000000;
    struct link_address address = { .count = 1, .port = place->port };

    while (!find_first(place, &address)) {
        if (clock_ns() >= deadline) {
            return error_set(TUTTI_ERR_TIMEOUT,
                    "no tuttirun on the first host, %s port %d, has been reached "
                    "within %d s (--join-timeout)",
                    place->first, place->port, timeout_s);
        }
        clock_sleep_ns((int64_t)RETRY_MS * 1000000);
    }
    here_token(place, address.token);
    link_address_format(&address, join);
    return TUTTI_OK;
}
