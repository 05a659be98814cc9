/*
 * Which of the hosts this one is, where tuttirun is started on each.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "launcher/here/here.h"
#include "launcher/mpi_launcher/job_network.h"

enum {
    JOIN_PORT = 47108
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
    options->engine = MPI_KIND_HERE;
    if (options->join_port > 0 || placement->join.port == 0) {
        placement->join.port = options->join_port > 0 ? options->join_port : JOIN_PORT;
    }
    return TUTTI_OK;
}
