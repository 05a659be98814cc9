/*
 * The hosts that have joined, which join_gather.c hands over to hub.c.
 */
#ifndef TUTTI_LAUNCHER_JOIN_JOIN_GATHER_H
#define TUTTI_LAUNCHER_JOIN_JOIN_GATHER_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/hosts/host_list.h"
#include "launcher/session/session.h"

/** A host that joined. */
struct member {
    struct session session; /* with it; none: lost or not there yet     */
    char name[HOST_NAME_LIMIT]; /* what the MPI launcher calls it                 */
    int slots; /* that it reported                         */
};

struct members {
    struct member
            *list; /* owned; by the number of the node, our own among them, closed */
    size_t count;
    size_t own; /* which of them this one is */
};

/** Where the agents of MPI launchers find the hub. */
struct hub_place {
    char folder[64]; /* of our own, mode 0700; the hub removes it */
    char socket[80]; /* in it                                    */
    char agent[80]; /* in it: the script to be used for ssh     */
};

/**
 * Forks the hub, which ends when this process does and takes over the members' connections;
 * here they are closed.
 */
TUTTI_MUST_USE tutti_status hub_start(
        struct members *members, const struct hub_place *place);

/** Makes the folder and the agent. */
TUTTI_MUST_USE tutti_status hub_make_place(struct hub_place *place);

#endif
